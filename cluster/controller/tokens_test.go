package controller

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/security/sasl"
	"grete/protocol"
)

// tokenStage is a stage with tokens, on which decisions are applied.
type tokenStage struct {
	*stage
	t      *testing.T
	tokens *tokens
}

func newTokenStage(t *testing.T) *tokenStage {
	s := newStage()
	s.static.Static["delegation.token.secret.key"] = "secret"
	return &tokenStage{s, t, newTokens(s.static)}
}

func (s *tokenStage) decide(who string, req kmsg.Request) (kmsg.Response, []metadata.Record) {
	s.t.Helper()
	v := s.view()
	v.principal, v.tokens = protocol.Principal{Type: "User", Name: who}, s.tokens
	records, resp, err := v.decide(req)
	must(s.t, err)
	s.apply(records)
	return resp, records
}

func (s *tokenStage) create(who, owner string, renewers ...string) *kmsg.CreateDelegationTokenResponse {
	s.t.Helper()
	req := kmsg.NewPtrCreateDelegationTokenRequest()
	req.MaxLifetimeMillis = -1
	if owner != "" {
		req.OwnerPrincipalType, req.OwnerPrincipalName = kmsg.StringPtr("User"), &owner
	}
	for _, r := range renewers {
		req.Renewers = append(req.Renewers, kmsg.CreateDelegationTokenRequestRenewer{PrincipalType: "User", PrincipalName: r})
	}
	resp, _ := s.decide(who, req)
	return resp.(*kmsg.CreateDelegationTokenResponse)
}

func (s *tokenStage) renew(who string, hmac []byte, ms int64) *kmsg.RenewDelegationTokenResponse {
	s.t.Helper()
	req := kmsg.NewPtrRenewDelegationTokenRequest()
	req.HMAC, req.RenewTimeMillis = hmac, ms
	resp, _ := s.decide(who, req)
	return resp.(*kmsg.RenewDelegationTokenResponse)
}

func (s *tokenStage) expire(who string, hmac []byte, ms int64) *kmsg.ExpireDelegationTokenResponse {
	s.t.Helper()
	req := kmsg.NewPtrExpireDelegationTokenRequest()
	req.HMAC, req.ExpiryPeriodMillis = hmac, ms
	resp, _ := s.decide(who, req)
	return resp.(*kmsg.ExpireDelegationTokenResponse)
}

const day = 86_400_000

func TestTokensAreMadeRenewedAndExpired(t *testing.T) {
	s := newTokenStage(t)
	nowMs := s.now.UnixMilli()
	own, lent := s.create("ann", ""), s.create("proxy", "ann", "bob", "carl")
	want := &metadata.DelegationTokenRecord{
		Owner: "User:ann", Requester: "User:proxy", Renewers: []string{"User:bob", "User:carl"}, TokenID: lent.TokenID,
		IssueTimestamp: nowMs, MaxTimestamp: nowMs + 7*day, ExpirationTimestamp: nowMs + day,
	}
	if got := s.image.Token(lent.TokenID); fmt.Sprint(got) != fmt.Sprint(want) || !slices.Equal(lent.HMAC, sasl.TokenHMAC([]byte("secret"), lent.TokenID)) {
		t.Errorf("%+v, %x", got, lent.HMAC)
	}
	if own.TokenID == lent.TokenID || len(own.TokenID) != 22 {
		t.Error(own.TokenID, lent.TokenID)
	}
	s.now = s.now.Add(time.Hour)
	later := s.create("dan", "") // once the index of HMACs has been made, too
	for _, tt := range []struct {
		who  string
		hmac []byte
		ms   int64
		code *kerr.Error
		at   int64
	}{
		{"ann", own.HMAC, -1, nil, day}, {"ann", own.HMAC, 1000, nil, 1000}, {"ann", own.HMAC, math.MaxInt64, nil, day}, {"bob", lent.HMAC, 5000, nil, 5000},
		{"proxy", lent.HMAC, 0, kerr.DelegationTokenOwnerMismatch, 0}, {"eve", own.HMAC, 0, kerr.DelegationTokenOwnerMismatch, 0}, {"dan", later.HMAC, 0, nil, day},
		{"ann", nil, 0, kerr.DelegationTokenNotFound, 0}, {"ann", own.HMAC[:63], 0, kerr.DelegationTokenNotFound, 0}, {"ann", []byte(own.TokenID), 0, kerr.DelegationTokenNotFound, 0},
	} {
		resp := s.renew(tt.who, tt.hmac, tt.ms)
		if tt.code != nil && (resp.ErrorCode != tt.code.Code || resp.ExpiryTimestamp != 0) || tt.code == nil && (resp.ErrorCode != 0 || resp.ExpiryTimestamp != s.now.UnixMilli()+tt.at) {
			t.Errorf("%+v: %+v", tt, resp)
		}
	}
	s.now = time.UnixMilli(nowMs + 7*day - 1000) // no renewal goes beyond the token's life
	renewed := s.create("ann", "")
	s.image, _, _ = s.image.Apply([]metadata.Record{&metadata.DelegationTokenRecord{Owner: "User:ann", TokenID: own.TokenID, MaxTimestamp: nowMs + 7*day, ExpirationTimestamp: nowMs + 7*day}}, s.image.Offset()+1, 1)
	if resp := s.renew("ann", own.HMAC, -1); resp.ExpiryTimestamp != nowMs+7*day {
		t.Errorf("%+v", resp)
	}
	if resp := s.expire("ann", own.HMAC, math.MaxInt64); resp.ExpiryTimestamp != nowMs+7*day {
		t.Errorf("%+v", resp)
	}
	if resp := s.renew("eve", lent.HMAC, -1); resp.ErrorCode != kerr.DelegationTokenExpired.Code {
		t.Errorf("%+v", resp)
	}
	for _, tt := range []struct {
		who  string
		hmac []byte
		ms   int64
		code *kerr.Error
	}{
		{"bob", lent.HMAC, 0, kerr.DelegationTokenExpired}, {"eve", lent.HMAC, -1, kerr.DelegationTokenOwnerMismatch}, {"carl", lent.HMAC, -1, nil},
		{"carl", lent.HMAC, -1, kerr.DelegationTokenNotFound}, {"ann", renewed.HMAC, 1000, nil},
	} {
		resp := s.expire(tt.who, tt.hmac, tt.ms)
		if tt.code == nil && resp.ErrorCode != 0 || tt.code != nil && resp.ErrorCode != tt.code.Code {
			t.Errorf("%+v: %+v", tt, resp)
		}
	}
}

func TestTokensWithoutASecret(t *testing.T) {
	s := newTokenStage(t)
	s.tokens = newTokens(newStage().static)
	create, renew, expire := s.create("ann", "bob"), s.renew("ann", []byte("x"), 0), s.expire("ann", []byte("x"), -1)
	if create.ErrorCode != kerr.DelegationTokenAuthDisabled.Code || create.PrincipalName != "bob" || create.IssueTimestamp != 0 || len(create.HMAC) != 0 ||
		renew.ErrorCode != create.ErrorCode || expire.ErrorCode != create.ErrorCode || s.image.TokenCount() != 0 {
		t.Errorf("%+v %+v %+v", create, renew, expire)
	}
}

func TestTokensAreBounded(t *testing.T) {
	s := newTokenStage(t)
	refused := func(what, owner string, renewers ...string) {
		t.Helper()
		if resp := s.create("ann", owner, renewers...); resp.ErrorCode != kerr.PolicyViolation.Code || resp.TokenID != "" {
			t.Errorf("%s: %+v", what, resp)
		}
	}
	refused("long names", "", strings.Repeat("x", maxTokenBytes))
	many := make([]string, maxTokenBytes/6)
	refused("many renewers", "", many...)
	add := func(owner string, n int) {
		var records []metadata.Record
		for range n {
			records = append(records, &metadata.DelegationTokenRecord{Owner: owner, TokenID: s.view().newID().String(), MaxTimestamp: 1, ExpirationTimestamp: 1})
		}
		s.apply(records)
	}
	add("User:ann", maxTokensOfOwner-1)
	last := s.create("ann", "")
	refused("an owner's", "")
	if resp := s.create("ann", "bob"); resp.ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	s.expire("ann", last.HMAC, -1)
	if resp := s.create("ann", ""); resp.ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	for i := range 3 {
		add(fmt.Sprint("User:u", i), maxTokensOfOwner)
	}
	refused("all", "carl")
}

// The controller removes tokens once they have expired, and another controller those that it finds.
func TestExpiredTokensAreRemoved(t *testing.T) {
	r := newRig(memory(t), "/data", 1)
	r.static["delegation.token.secret.key"], r.static["delegation.token.expiry.check.interval.ms"] = "secret", "20"
	must(t, r.open())
	r.register(t)
	create := func(lifeMs int64) *kmsg.CreateDelegationTokenResponse {
		req := kmsg.NewPtrCreateDelegationTokenRequest()
		req.MaxLifetimeMillis = lifeMs
		resp, err := r.Do(context.Background(), protocol.Principal{Type: "User", Name: "ann"}, req)
		must(t, err)
		return resp.(*kmsg.CreateDelegationTokenResponse)
	}
	short, long := create(100), create(-1)
	if r.Image().TokenCount() != 2 || short.ErrorCode != 0 {
		t.Fatal(r.Image().TokenCount(), short)
	}
	eventually(t, "one expires", func() bool { return r.Image().Token(short.TokenID) == nil })
	if now := time.Now().UnixMilli(); now <= short.ExpiryTimestamp || r.Image().Token(long.TokenID) == nil {
		t.Error("too early, or one too many", now, short.ExpiryTimestamp)
	}
	last := create(300)
	r.kill(t)
	must(t, r.open())
	if r.Image().Token(long.TokenID) == nil {
		eventually(t, "read", func() bool { return r.Image().Token(long.TokenID) != nil })
	}
	eventually(t, "the other expires", func() bool { return r.Image().Token(last.TokenID) == nil })
	r.kill(t)
}
