package handlers

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/metadata/acl"
	"grete/internal/security/sasl"
	"grete/protocol"
)

const (
	tokenSecret = "delegation.token.secret.key"
	// noTimestamp is in answers to requests that this broker refuses itself.
	noTimestamp = -1
	// userType is the type of principals that may own and renew tokens.
	userType = "User"
)

// mayUser says whether the client may do op on a user, who is named as Type:Name.
func (b *Broker) mayUser(r *protocol.Request, op kmsg.ACLOperation, user string) bool {
	return b.may(r, op, kmsg.ACLResourceTypeUser, user)
}

// CreateDelegationToken serves versions 1–3; the controller decides. For another than itself a client needs
// CREATE_TOKENS on that user (KIP-373).
func CreateDelegationToken(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.CreateDelegationTokenRequest)
	requester := r.Conn.Principal()
	owner := requester
	if name := req.OwnerPrincipalName; name != nil && *name != "" {
		if req.OwnerPrincipalType == nil {
			r.Abort("CreateDelegationToken for an owner without a type")
			return
		}
		owner = protocol.Principal{Type: *req.OwnerPrincipalType, Name: *name}
	}
	answer := func(code int16) {
		resp := req.ResponseKind().(*kmsg.CreateDelegationTokenResponse)
		resp.ErrorCode, resp.HMAC = code, []byte{}
		resp.PrincipalType, resp.PrincipalName = owner.Type, owner.Name
		resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName = requester.Type, requester.Name
		resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = noTimestamp, noTimestamp, noTimestamp
		r.Respond(resp)
	}
	foreign := func(p kmsg.CreateDelegationTokenRequestRenewer) bool { return p.PrincipalType != userType }
	switch {
	case !r.Conn.ProvesPrincipal():
		answer(kerr.DelegationTokenRequestNotAllowed.Code)
	case owner != requester && !b.mayUser(r, kmsg.ACLOperationCreateTokens, owner.Type+":"+owner.Name):
		answer(kerr.DelegationTokenAuthorizationFailed.Code)
	case !b.ForControllers && slices.ContainsFunc(req.Renewers, foreign):
		answer(kerr.InvalidPrincipalType.Code)
	default:
		resp, err := b.change(ctx, r, req)
		if err != nil {
			answer(codeOf(err))
			return
		}
		r.Respond(resp)
	}
}

// RenewDelegationToken serves versions 1–2; the controller decides.
func RenewDelegationToken(b *Broker, ctx context.Context, r *protocol.Request) {
	changeToken(b, ctx, r, func(resp *kmsg.RenewDelegationTokenResponse, code int16) {
		resp.ErrorCode, resp.ExpiryTimestamp = code, noTimestamp
	})
}

// ExpireDelegationToken serves versions 1–2; the controller decides.
func ExpireDelegationToken(b *Broker, ctx context.Context, r *protocol.Request) {
	changeToken(b, ctx, r, func(resp *kmsg.ExpireDelegationTokenResponse, code int16) {
		resp.ErrorCode, resp.ExpiryTimestamp = code, noTimestamp
	})
}

func changeToken[R kmsg.Response](b *Broker, ctx context.Context, r *protocol.Request, fail func(resp R, code int16)) {
	code := kerr.DelegationTokenRequestNotAllowed.Code
	if r.Conn.ProvesPrincipal() {
		resp, err := b.change(ctx, r, r.Body)
		if err == nil {
			r.Respond(resp)
			return
		}
		code = codeOf(err)
	}
	failed := r.Body.ResponseKind().(R)
	fail(failed, code)
	r.Respond(failed)
}

// DescribeDelegationToken serves versions 1–3, from this broker's image: tokens that are the client's, and those that
// it may describe.
func DescribeDelegationToken(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DescribeDelegationTokenRequest)
	resp := req.ResponseKind().(*kmsg.DescribeDelegationTokenResponse)
	secret := []byte(b.Static.Text(tokenSecret))
	switch {
	case !r.Conn.ProvesPrincipal():
		resp.ErrorCode = kerr.DelegationTokenRequestNotAllowed.Code
	case len(secret) == 0:
		resp.ErrorCode = kerr.DelegationTokenAuthDisabled.Code
	case req.Owners != nil && len(req.Owners) == 0: // none are asked for
	default:
		owners := ownersOf(req)
		for t := range b.Image().Tokens() {
			if asksFor(owners, t) && b.maySeeToken(r, t) {
				resp.TokenDetails = append(resp.TokenDetails, tokenDetail(t, secret))
			}
		}
	}
	r.Respond(resp)
}

// ownersOf are the principals that a request names, nil where it asks for all tokens.
func ownersOf(req *kmsg.DescribeDelegationTokenRequest) map[string]bool {
	if req.Owners == nil {
		return nil
	}
	owners := make(map[string]bool, len(req.Owners))
	for _, o := range req.Owners {
		owners[o.PrincipalType+":"+o.PrincipalName] = true
	}
	return owners
}

// asksFor says whether a request for the tokens of owners is about one.
func asksFor(owners map[string]bool, t *metadata.DelegationTokenRecord) bool {
	return owners == nil || owners[t.Owner] || owners[t.Requester] || slices.ContainsFunc(t.Renewers, func(name string) bool { return owners[name] })
}

// maySeeToken is DelegationTokenManager.filterToken. What a client may not see is left out, and is no denial.
func (b *Broker) maySeeToken(r *protocol.Request, t *metadata.DelegationTokenRecord) bool {
	p := r.Conn.Principal()
	return t.Concerns(p.Type+":"+p.Name) ||
		b.allows(r, kmsg.ACLOperationDescribe, acl.Resource{Type: kmsg.ACLResourceTypeDelegationToken, Name: t.TokenID}) ||
		b.allows(r, kmsg.ACLOperationDescribeTokens, acl.Resource{Type: kmsg.ACLResourceTypeUser, Name: t.Owner})
}

func tokenDetail(t *metadata.DelegationTokenRecord, secret []byte) kmsg.DescribeDelegationTokenResponseTokenDetail {
	d := kmsg.NewDescribeDelegationTokenResponseTokenDetail()
	d.PrincipalType, d.PrincipalName, _ = strings.Cut(t.Owner, ":")
	d.TokenRequesterPrincipalType, d.TokenRequesterPrincipalName, _ = strings.Cut(t.Requester, ":")
	d.IssueTimestamp, d.ExpiryTimestamp, d.MaxTimestamp = t.IssueTimestamp, t.ExpirationTimestamp, t.MaxTimestamp
	d.TokenID, d.HMAC = t.TokenID, sasl.TokenHMAC(secret, t.TokenID)
	for _, renewer := range t.Renewers {
		r := kmsg.NewDescribeDelegationTokenResponseTokenDetailRenewer()
		r.PrincipalType, r.PrincipalName, _ = strings.Cut(renewer, ":")
		d.Renewers = append(d.Renewers, r)
	}
	return d
}
