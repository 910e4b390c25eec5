package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// The texts differ because Kafka's broker answers one request itself and its controller the others.
const (
	noAuthorizerOnBroker     = "No Authorizer is configured on the broker"
	noAuthorizerOnController = "No Authorizer is configured."
)

// aclElement is what of an ACL or a filter is an enumeration. The value 0, UNKNOWN, closes the connection, as in Kafka's
// request constructors; values that nobody knows pass.
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

// DescribeACLs has nothing to describe without an authorizer.
func DescribeACLs(_ *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DescribeACLsRequest)
	if !(aclElement{req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType}).known() {
		r.Abort(unknownElements)
		return
	}
	resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
	resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizerOnBroker)
	r.Respond(resp)
}

// CreateACLs refuses each ACL without an authorizer.
func CreateACLs(_ *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.CreateACLsRequest)
	resp := req.ResponseKind().(*kmsg.CreateACLsResponse)
	for _, c := range req.Creations {
		if !(aclElement{c.ResourceType, c.ResourcePatternType, c.Operation, c.PermissionType}).known() {
			r.Abort(unknownElements)
			return
		}
		result := kmsg.NewCreateACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizerOnController)
		resp.Results = append(resp.Results, result)
	}
	r.Respond(resp)
}

// DeleteACLs refuses each filter without an authorizer.
func DeleteACLs(_ *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DeleteACLsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteACLsResponse)
	for _, f := range req.Filters {
		if !(aclElement{f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType}).known() {
			r.Abort(unknownElements)
			return
		}
		result := kmsg.NewDeleteACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizerOnController)
		resp.Results = append(resp.Results, result)
	}
	r.Respond(resp)
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
