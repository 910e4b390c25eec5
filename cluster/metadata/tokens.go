package metadata

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// Expires is when the token is good no more, in milliseconds since 1970; at that millisecond it still is.
func (r *DelegationTokenRecord) Expires() int64 { return min(r.ExpirationTimestamp, r.MaxTimestamp) }

// RenewableBy says whether a principal, as Type:Name, may renew and expire the token.
func (r *DelegationTokenRecord) RenewableBy(principal string) bool {
	return r.Owner == principal || slices.Contains(r.Renewers, principal)
}

// Concerns says whether the token is a principal's: as owner, requester or renewer it may see it (Kafka's
// TokenInformation.ownerOrRenewer).
func (r *DelegationTokenRecord) Concerns(principal string) bool {
	return r.Requester == principal || r.RenewableBy(principal)
}

// tokenEnd orders tokens by when they expire.
type tokenEnd struct {
	at int64
	id string
}

type byTokenEnd struct{}

func (byTokenEnd) Compare(a, b tokenEnd) int {
	return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.id, b.id))
}

// tokenIndex has the tokens by id and by expiry, and how many each owner has.
type tokenIndex struct {
	byID   tree[string, *DelegationTokenRecord, byName]
	byEnd  tree[tokenEnd, *DelegationTokenRecord, byTokenEnd]
	owners tree[string, int, byName]
}

func (x *tokenIndex) add(r *DelegationTokenRecord) {
	x.remove(r.TokenID)
	x.byID.set(r.TokenID, r)
	x.byEnd.set(tokenEnd{r.Expires(), r.TokenID}, r)
	x.owners.set(r.Owner, x.owners.get(r.Owner)+1)
}

func (x *tokenIndex) remove(id string) {
	r := x.byID.get(id)
	if r == nil {
		return
	}
	x.byID.delete(id)
	x.byEnd.delete(tokenEnd{r.Expires(), id})
	if n := x.owners.get(r.Owner); n > 1 {
		x.owners.set(r.Owner, n-1)
	} else {
		x.owners.delete(r.Owner)
	}
}

// Token returns the delegation token of that id, nil when there is none. It may have expired.
func (im *Image) Token(id string) *DelegationTokenRecord { return im.tokens.byID.get(id) }

// Tokens iterates by id; TokenCount counts them, TokensOwnedBy those of an owner.
func (im *Image) Tokens() iter.Seq[*DelegationTokenRecord] { return im.tokens.byID.values() }
func (im *Image) TokenCount() int                          { return im.tokens.byID.len() }
func (im *Image) TokensOwnedBy(owner string) int           { return im.tokens.owners.get(owner) }

// ExpiredTokens iterates over those that are good no more at a time, in milliseconds, the first to expire first.
func (im *Image) ExpiredTokens(nowMs int64) iter.Seq[*DelegationTokenRecord] {
	return func(yield func(*DelegationTokenRecord) bool) {
		for end, r := range im.tokens.byEnd.all() {
			if end.at >= nowMs || !yield(r) {
				return
			}
		}
	}
}
