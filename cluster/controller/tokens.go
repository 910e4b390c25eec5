package controller

import (
	"crypto/sha256"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/config"
	"grete/internal/security/sasl"
	"grete/protocol"
)

// Bounds that Kafka has not. Every client that has authenticated may ask for tokens, and all brokers keep them in
// memory.
const (
	// maxTokens is how many delegation tokens there may be, maxTokensOfOwner how many of one owner.
	maxTokens        = 20_000
	maxTokensOfOwner = maxTokens / 4
	// maxTokenBytes is how long a token's record may be, with the names of its renewers.
	maxTokenBytes = 4 << 10
)

// tokens is what the active controller needs for delegation tokens (Kafka's DelegationTokenControlManager), while this
// node leads.
type tokens struct {
	secret                []byte // nil: there are no tokens
	maxLifetimeMs, termMs int64  // delegation.token.max.lifetime.ms and .expiry.time.ms
	// ids finds a token by the SHA-256 of its HMAC, so that the time of a look-up tells nothing of the HMAC. It is made
	// when it is first needed, and may have more than there is.
	ids map[[sha256.Size]byte]string
}

func newTokens(c config.Layers) *tokens {
	t := &tokens{maxLifetimeMs: c.Int("delegation.token.max.lifetime.ms"), termMs: c.Int("delegation.token.expiry.time.ms")}
	if key := c.Text(tokenSecret); key != "" {
		t.secret = []byte(key)
	}
	return t
}

const tokenSecret = "delegation.token.secret.key"

// find is the token of an HMAC, nil when there is none.
func (t *tokens) find(im *metadata.Image, hmac []byte) *metadata.DelegationTokenRecord {
	if t.ids == nil {
		t.ids = make(map[[sha256.Size]byte]string, im.TokenCount())
		for r := range im.Tokens() {
			t.know(r.TokenID)
		}
	}
	id, known := t.ids[sha256.Sum256(hmac)]
	if !known {
		return nil
	}
	return im.Token(id)
}

// know enters a token, and returns its HMAC.
func (t *tokens) know(id string) (hmac []byte) {
	hmac = sasl.TokenHMAC(t.secret, id)
	if t.ids != nil {
		t.ids[sha256.Sum256(hmac)] = id
	}
	return hmac
}

// forget drops ids once most of them are of tokens that are gone.
func (t *tokens) forget(im *metadata.Image) {
	if len(t.ids) > 2*im.TokenCount()+maxTokensOfOwner {
		t.ids = nil
	}
}

// ends is now + ms, or the end of time.
func ends(nowMs, ms int64) int64 {
	if nowMs > math.MaxInt64-ms {
		return math.MaxInt64
	}
	return nowMs + ms
}

func nameOf(p protocol.Principal) string { return p.Type + ":" + p.Name }

// createToken is DelegationTokenControlManager.createDelegationToken, with a bound. Who may ask for whom is decided
// where the request came in.
func (v *view) createToken(req *kmsg.CreateDelegationTokenRequest) ([]metadata.Record, *kmsg.CreateDelegationTokenResponse) {
	owner := v.principal
	if req.OwnerPrincipalName != nil && *req.OwnerPrincipalName != "" && req.OwnerPrincipalType != nil {
		owner = protocol.Principal{Type: *req.OwnerPrincipalType, Name: *req.OwnerPrincipalName}
	}
	resp := req.ResponseKind().(*kmsg.CreateDelegationTokenResponse)
	resp.PrincipalType, resp.PrincipalName = owner.Type, owner.Name
	resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName = v.principal.Type, v.principal.Name
	resp.HMAC = []byte{}
	nowMs := v.now.UnixMilli()
	r := &metadata.DelegationTokenRecord{Owner: nameOf(owner), Requester: nameOf(v.principal), Renewers: []string{}, IssueTimestamp: nowMs}
	if err := v.refuseToken(req, r); err != nil {
		resp.ErrorCode = err.Code
		return nil, resp
	}
	lifetimeMs := v.tokens.maxLifetimeMs
	if req.MaxLifetimeMillis > 0 {
		lifetimeMs = min(lifetimeMs, req.MaxLifetimeMillis)
	}
	r.MaxTimestamp = ends(nowMs, lifetimeMs)
	r.ExpirationTimestamp = min(r.MaxTimestamp, ends(nowMs, v.tokens.termMs))
	r.TokenID = v.newID().String()
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = r.IssueTimestamp, r.ExpirationTimestamp, r.MaxTimestamp
	resp.TokenID, resp.HMAC = r.TokenID, v.tokens.know(r.TokenID)
	return []metadata.Record{r}, resp
}

// refuseToken says why there can be no such token, nil when there can, and gives it its renewers.
func (v *view) refuseToken(req *kmsg.CreateDelegationTokenRequest, r *metadata.DelegationTokenRecord) *kerr.Error {
	if v.tokens.secret == nil {
		return kerr.DelegationTokenAuthDisabled
	}
	for _, renewer := range req.Renewers {
		if renewer.PrincipalType != userType {
			return kerr.InvalidPrincipalType
		}
		r.Renewers = append(r.Renewers, renewer.PrincipalType+":"+renewer.PrincipalName)
	}
	if v.image.TokenCount() >= maxTokens || v.image.TokensOwnedBy(r.Owner) >= maxTokensOfOwner || len(metadata.AppendRecord(nil, r)) > maxTokenBytes {
		return kerr.PolicyViolation
	}
	return nil
}

// userType is the type of the principals of clients.
const userType = "User"

// liveToken is the token of an HMAC that the client may renew and expire, or why there is none.
func (v *view) liveToken(hmac []byte) (*metadata.DelegationTokenRecord, *kerr.Error) {
	if v.tokens.secret == nil {
		return nil, kerr.DelegationTokenAuthDisabled
	}
	r := v.tokens.find(v.image, hmac)
	switch {
	case r == nil:
		return nil, kerr.DelegationTokenNotFound
	case !r.RenewableBy(nameOf(v.principal)):
		return r, kerr.DelegationTokenOwnerMismatch
	}
	return r, nil
}

// renewToken is DelegationTokenControlManager.renewDelegationToken.
func (v *view) renewToken(req *kmsg.RenewDelegationTokenRequest) ([]metadata.Record, *kmsg.RenewDelegationTokenResponse) {
	resp := req.ResponseKind().(*kmsg.RenewDelegationTokenResponse)
	nowMs := v.now.UnixMilli()
	r, err := v.liveToken(req.HMAC)
	if r != nil && r.Expires() < nowMs { // Kafka says so to anybody who has the HMAC
		err = kerr.DelegationTokenExpired
	}
	if err != nil {
		resp.ErrorCode = err.Code
		return nil, resp
	}
	termMs := v.tokens.termMs
	if req.RenewTimeMillis > 0 {
		termMs = min(termMs, req.RenewTimeMillis)
	}
	renewed := *r
	renewed.ExpirationTimestamp = min(r.MaxTimestamp, ends(nowMs, termMs))
	resp.ExpiryTimestamp = renewed.ExpirationTimestamp
	return []metadata.Record{&renewed}, resp
}

// expireToken is DelegationTokenControlManager.expireDelegationToken: now, or after a time, which may be later than it
// was to be.
func (v *view) expireToken(req *kmsg.ExpireDelegationTokenRequest) ([]metadata.Record, *kmsg.ExpireDelegationTokenResponse) {
	resp := req.ResponseKind().(*kmsg.ExpireDelegationTokenResponse)
	nowMs := v.now.UnixMilli()
	r, err := v.liveToken(req.HMAC)
	switch {
	case err != nil:
		resp.ErrorCode = err.Code
		return nil, resp
	case req.ExpiryPeriodMillis < 0:
		resp.ExpiryTimestamp = nowMs
		return []metadata.Record{&metadata.RemoveDelegationTokenRecord{TokenID: r.TokenID}}, resp
	case r.Expires() < nowMs:
		resp.ErrorCode = kerr.DelegationTokenExpired.Code
		return nil, resp
	}
	changed := *r
	changed.ExpirationTimestamp = min(r.MaxTimestamp, ends(nowMs, req.ExpiryPeriodMillis))
	resp.ExpiryTimestamp = changed.ExpirationTimestamp
	return []metadata.Record{&changed}, resp
}

// armTokens sets the alarm for the next look at expired tokens, delegation.token.expiry.check.interval.ms from now. It
// is set while there are any.
func (d *decider) armTokens() {
	if d.pending == nil || d.sweep != nil || d.pending.TokenCount() == 0 {
		return
	}
	every := time.Duration(d.n.o.Config.Int("delegation.token.expiry.check.interval.ms")) * time.Millisecond
	d.sweep = d.n.o.Clock.AfterFunc(every, func() { poke(d.swept) })
}

// removeExpiredTokens removes the tokens that are good no more.
func (d *decider) removeExpiredTokens() {
	d.sweep = nil
	if d.pending == nil {
		return
	}
	var records []metadata.Record
	for r := range d.pending.ExpiredTokens(d.n.o.Clock.Now().UnixMilli()) {
		d.n.o.Logger.Info().Str("token", r.TokenID).Str("owner", r.Owner).Msg("a delegation token has expired")
		if records = append(records, &metadata.RemoveDelegationTokenRecord{TokenID: r.TokenID}); len(records) == recordsPerOp {
			break // the others next time
		}
	}
	if len(records) > 0 {
		if err := d.propose(records); err != nil {
			return // another controller does it
		}
		d.tokens.forget(d.pending)
	}
	d.armTokens()
}
