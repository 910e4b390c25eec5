package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/metadata/acl"
	"grete/protocol"
)

// The texts differ because Kafka's broker answers one request itself and its controller the others.
const (
	noAuthorizerOnBroker     = "No Authorizer is configured on the broker"
	noAuthorizerOnController = "No Authorizer is configured."
)

// aclElement is what of an ACL or a filter is an enumeration. The value 0, UNKNOWN, closes the connection, as in
// Kafka's request constructors; values that nobody knows pass.
type aclElement struct {
	resource   kmsg.ACLResourceType
	pattern    kmsg.ACLResourcePatternType
	operation  kmsg.ACLOperation
	permission kmsg.ACLPermissionType
}

func (e aclElement) known() bool {
	return e.resource != 0 && e.pattern != 0 && e.operation != 0 && e.permission != 0
}

const unknownElements = "ACL request with unknown elements"

// DescribeACLs serves versions 1–3, from this broker's image.
func DescribeACLs(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DescribeACLsRequest)
	if !(aclElement{req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType}).known() {
		r.Abort(unknownElements)
		return
	}
	resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
	switch {
	case !b.mayCluster(r, kmsg.ACLOperationDescribe):
		resp.ErrorCode, resp.ErrorMessage = clusterUnauthorized, kmsg.StringPtr(clusterUnauthorizedText)
	case b.Authorizer == nil:
		resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizerOnBroker)
	default:
		resp.ErrorMessage = new(string)
		resp.Resources = describedACLs(b.Image(), acl.Filter{
			ResourceType: req.ResourceType, ResourceName: req.ResourceName, PatternType: req.ResourcePatternType,
			Principal: req.Principal, Host: req.Host, Operation: req.Operation, Permission: req.PermissionType,
		})
	}
	r.Respond(resp)
}

// describedACLs has the ACLs that a filter chooses, by their patterns.
func describedACLs(im *metadata.Image, f acl.Filter) []kmsg.DescribeACLsResponseResource {
	var out []kmsg.DescribeACLsResponseResource
	var patterns lookup[metadata.ACLPattern]
	for e := range im.ACLs() {
		if !f.Matches(e) {
			continue
		}
		at, again := patterns.add(e.Pattern())
		if !again {
			res := kmsg.NewDescribeACLsResponseResource()
			res.ResourceType, res.ResourceName = kmsg.ACLResourceType(e.ResourceType), e.ResourceName
			res.ResourcePatternType = kmsg.ACLResourcePatternType(e.PatternType)
			out = append(out, res)
		}
		entry := kmsg.NewDescribeACLsResponseResourceACL()
		entry.Principal, entry.Host = e.Principal, e.Host
		entry.Operation, entry.PermissionType = kmsg.ACLOperation(e.Operation), kmsg.ACLPermissionType(e.PermissionType)
		out[at].ACLs = append(out[at].ACLs, entry)
	}
	return out
}

// mayAlterACLs returns why ACLs cannot be changed by this client, nil when they can.
func (b *Broker) mayAlterACLs(r *protocol.Request) *apiError {
	switch {
	case !b.mayCluster(r, kmsg.ACLOperationAlter):
		return &apiError{clusterUnauthorized, clusterUnauthorizedText}
	case b.Authorizer == nil:
		return &apiError{kerr.SecurityDisabled.Code, noAuthorizerOnController}
	}
	return nil
}

// CreateACLs serves versions 1–3; the controller decides.
func CreateACLs(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.CreateACLsRequest)
	for _, c := range req.Creations {
		if !(aclElement{c.ResourceType, c.ResourcePatternType, c.Operation, c.PermissionType}).known() {
			r.Abort(unknownElements)
			return
		}
	}
	refused := b.mayAlterACLs(r)
	if refused == nil {
		resp, err := b.change(ctx, r, req)
		if err == nil {
			r.Respond(resp)
			return
		}
		refused = &apiError{Code: codeOf(err)}
	}
	resp := req.ResponseKind().(*kmsg.CreateACLsResponse)
	for range req.Creations {
		result := kmsg.NewCreateACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = refused.Code, textOf(refused)
		resp.Results = append(resp.Results, result)
	}
	r.Respond(resp)
}

// DeleteACLs serves versions 1–3; the controller decides.
func DeleteACLs(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DeleteACLsRequest)
	for _, f := range req.Filters {
		if !(aclElement{f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType}).known() {
			r.Abort(unknownElements)
			return
		}
	}
	refused := b.mayAlterACLs(r)
	if refused == nil {
		resp, err := b.change(ctx, r, req)
		if err == nil {
			r.Respond(resp)
			return
		}
		refused = &apiError{Code: codeOf(err)}
	}
	resp := req.ResponseKind().(*kmsg.DeleteACLsResponse)
	for range req.Filters {
		result := kmsg.NewDeleteACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = refused.Code, textOf(refused)
		resp.Results = append(resp.Results, result)
	}
	r.Respond(resp)
}

func textOf(e *apiError) *string {
	if e.Message == "" {
		return nil
	}
	return &e.Message
}

// SASLHandshake on a listener without SASL; the connection stays.
func SASLHandshake(_ *Broker, _ context.Context, r *protocol.Request) {
	resp := r.Body.ResponseKind().(*kmsg.SASLHandshakeResponse)
	resp.ErrorCode = kerr.IllegalSaslState.Code
	r.Respond(resp)
}

// SASLAuthenticate on a listener without SASL.
func SASLAuthenticate(_ *Broker, _ context.Context, r *protocol.Request) {
	resp := r.Body.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	resp.ErrorCode = kerr.IllegalSaslState.Code
	resp.ErrorMessage = kmsg.StringPtr("SaslAuthenticate request received after successful authentication")
	r.Respond(resp)
}
