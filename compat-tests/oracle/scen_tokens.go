package oracle

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	onToken = kmsg.ACLResourceTypeDelegationToken
	onUser  = kmsg.ACLResourceTypeUser
)

// expiredToken is a note: Kafka lets such a token log in until it is swept, for a session that has ended; we do not.
const expiredToken = "a token that has expired"

// TokenScenarios are about delegation tokens, on a broker with a secret key.
func TokenScenarios() []Scenario {
	l := &list{}
	l.serial(func() {
		l.each(38, "tokens/create", createTokens)
		l.each(38, "tokens/create for others", createTokensForOthers)
		l.each(39, "tokens/renew", renewTokens)
		l.each(40, "tokens/expire", expireTokens)
		l.each(41, "tokens/describe", describeTokens)
		l.one(36, 2, "tokens/login", tokenLogin)
	})
	return withCleanup(l.all)
}

// NoTokenScenarios are for a broker without a secret key.
func NoTokenScenarios() []Scenario {
	l := &list{}
	l.serial(func() {
		l.each(38, "no tokens/create", func(s *Session, v int16) {
			c := s.as("ann")
			s.createsToken(c, v, "", nil)
			s.createsToken(c, v, "a renewer that is no user", func(r *kmsg.CreateDelegationTokenRequest) { renewable(r, "Group", "g") })
			s.createsToken(c, v, "for bob", func(r *kmsg.CreateDelegationTokenRequest) { ownedBy(r, "User", "bob") })
		})
		l.each(39, "no tokens/renew", func(s *Session, v int16) { s.asks(s.as("ann"), v, "", renewal([]byte("x"), 0)) })
		l.each(40, "no tokens/expire", func(s *Session, v int16) { s.asks(s.as("ann"), v, "", expiry([]byte("x"), -1)) })
		l.each(41, "no tokens/describe", func(s *Session, v int16) { s.asks(s.as("ann"), v, "", kmsg.NewPtrDescribeDelegationTokenRequest()) })
		l.one(36, 2, "no tokens/login", func(s *Session) { s.asToken("id", []byte("x"), "SCRAM-SHA-256", "a token") })
	})
	return l.all
}

func withCleanup(all []Scenario) []Scenario {
	for i, sc := range all {
		all[i].Run = func(s *Session) {
			defer s.cleanTokens()
			sc.Run(s)
		}
	}
	return all
}

func renewable(r *kmsg.CreateDelegationTokenRequest, kind, name string) {
	renewer := kmsg.NewCreateDelegationTokenRequestRenewer()
	renewer.PrincipalType, renewer.PrincipalName = kind, name
	r.Renewers = append(r.Renewers, renewer)
}

func ownedBy(r *kmsg.CreateDelegationTokenRequest, kind, name string) {
	r.OwnerPrincipalType, r.OwnerPrincipalName = ptr(kind), ptr(name)
}

func renewal(hmac []byte, ms int64) kmsg.Request {
	req := kmsg.NewPtrRenewDelegationTokenRequest()
	req.HMAC, req.RenewTimeMillis = hmac, ms
	return req
}

func expiry(hmac []byte, ms int64) kmsg.Request {
	req := kmsg.NewPtrExpireDelegationTokenRequest()
	req.HMAC, req.ExpiryPeriodMillis = hmac, ms
	return req
}

func describeOwners(owners ...string) *kmsg.DescribeDelegationTokenRequest {
	req := kmsg.NewPtrDescribeDelegationTokenRequest()
	req.Owners = []kmsg.DescribeDelegationTokenRequestOwner{}
	for _, o := range owners {
		req.Owners = append(req.Owners, kmsg.DescribeDelegationTokenRequestOwner{PrincipalType: "User", PrincipalName: o})
	}
	return req
}

func createTokens(s *Session, v int16) {
	c := s.as("ann")
	for _, tt := range []struct {
		note   string
		change func(*kmsg.CreateDelegationTokenRequest)
	}{
		{"", nil},
		{"0 ms", func(r *kmsg.CreateDelegationTokenRequest) { r.MaxLifetimeMillis = 0 }},
		{"an hour", func(r *kmsg.CreateDelegationTokenRequest) { r.MaxLifetimeMillis = 3_600_000 }},
		{"three days", func(r *kmsg.CreateDelegationTokenRequest) { r.MaxLifetimeMillis = 3 * 86_400_000 }},
		{"for ever", func(r *kmsg.CreateDelegationTokenRequest) { r.MaxLifetimeMillis = 1<<63 - 1 }},
		{"renewers", func(r *kmsg.CreateDelegationTokenRequest) {
			renewable(r, "User", "bob")
			renewable(r, "User", "bob")
			renewable(r, "User", "")
		}},
		{"a renewer that is no user", func(r *kmsg.CreateDelegationTokenRequest) { renewable(r, "Group", "g") }},
		{"for itself", func(r *kmsg.CreateDelegationTokenRequest) { ownedBy(r, "User", "ann") }},
		{"for nobody", func(r *kmsg.CreateDelegationTokenRequest) { ownedBy(r, "User", "") }},
	} {
		s.createsToken(c, v, tt.note, tt.change)
	}
}

func createTokensForOthers(s *Session, v int16) {
	c := s.as("ann")
	forBob := func(r *kmsg.CreateDelegationTokenRequest) { ownedBy(r, "User", "bob") }
	s.createsToken(c, v, "for bob without a right", forBob)
	s.createsToken(c, v, "for a group, and a renewer that is none", func(r *kmsg.CreateDelegationTokenRequest) { ownedBy(r, "Group", "g"); renewable(r, "Group", "g") })
	toUser := func(op kmsg.ACLOperation, user string) {
		s.grantUser("ann", right{op, onUser, user})
	}
	toUser(kmsg.ACLOperationDescribeTokens, "User:bob")
	s.createsToken(c, v, "for bob with another right", forBob)
	toUser(kmsg.ACLOperationCreateTokens, "User:bob")
	t := s.createsToken(c, v, "for bob", forBob)
	s.createsToken(c, v, "for carl", func(r *kmsg.CreateDelegationTokenRequest) { ownedBy(r, "User", "carl") })
	toUser(kmsg.ACLOperationCreateTokens, "Group:g")
	s.createsToken(c, v, "for a group", func(r *kmsg.CreateDelegationTokenRequest) { ownedBy(r, "Group", "g"); renewable(r, "User", "ann") })
	if v >= 3 {
		s.asks(c, 2, "by the requester", renewal(t.HMAC, 0))
		s.asks(s.as("bob"), 2, "by the owner", renewal(t.HMAC, 0))
		s.asks(c, 2, "by the requester", expiry(t.HMAC, -1))
	}
	s.revokeUser("ann")
}

func renewTokens(s *Session, v int16) {
	c := s.as("ann")
	t := s.createsToken(c, 3, "", func(r *kmsg.CreateDelegationTokenRequest) { renewable(r, "User", "bob") })
	short := s.createsToken(c, 3, "of 2 s", func(r *kmsg.CreateDelegationTokenRequest) { r.MaxLifetimeMillis = 2000 })
	s.awaitTokens("ann", 2)
	for _, ms := range []int64{-1, 0, 3_600_000, 30 * 86_400_000} {
		s.asks(c, v, "", renewal(t.HMAC, ms))
	}
	s.asks(s.as("bob"), v, "by a renewer", renewal(t.HMAC, 7_200_000))
	s.asks(s.as("carl"), v, "by another", renewal(t.HMAC, 0))
	s.asks(s.as("admin"), v, "by a super user", renewal(t.HMAC, 0))
	s.asks(c, v, "of none", renewal([]byte("none"), 0))
	s.asks(c, v, "of an empty one", renewal(nil, 0))
	pause(2200 * 1e6)
	s.asks(c, v, "of one that has expired", renewal(short.HMAC, 0))
	s.asks(s.as("carl"), v, "by another of one that has expired", renewal(short.HMAC, 0))
}

func expireTokens(s *Session, v int16) {
	c := s.as("ann")
	t := s.createsToken(c, 3, "", func(r *kmsg.CreateDelegationTokenRequest) { renewable(r, "User", "bob") })
	other := s.createsToken(c, 3, "", func(r *kmsg.CreateDelegationTokenRequest) { renewable(r, "User", "bob") })
	short := s.createsToken(c, 3, "of 2 s", func(r *kmsg.CreateDelegationTokenRequest) { r.MaxLifetimeMillis = 2000 })
	s.awaitTokens("ann", 3)
	for _, ms := range []int64{60_000, 3_600_000, 1<<63 - 1} {
		s.asks(c, v, "", expiry(t.HMAC, ms))
	}
	s.asks(s.as("carl"), v, "by another", expiry(t.HMAC, -1))
	s.asks(s.as("bob"), v, "by a renewer", expiry(t.HMAC, -1))
	s.awaitTokens("ann", 2)
	s.asks(c, v, "again", expiry(t.HMAC, -1))
	s.asks(c, v, "of none", expiry([]byte("none"), -1))
	s.asks(c, v, "after 0 ms", expiry(other.HMAC, 0))
	pause(2200 * 1e6)
	s.asks(c, v, "of one that has expired", expiry(short.HMAC, 1000))
	s.asks(c, v, "of one that has expired, now", expiry(short.HMAC, -1))
}

func describeTokens(s *Session, v int16) {
	ann, bob, carl := s.as("ann"), s.as("bob"), s.as("carl")
	t := s.createsToken(ann, 3, "", func(r *kmsg.CreateDelegationTokenRequest) { renewable(r, "User", "bob") })
	s.createsToken(bob, 3, "", nil)
	s.createsToken(s.as("admin"), 3, "for ann", func(r *kmsg.CreateDelegationTokenRequest) { ownedBy(r, "User", "ann") })
	s.awaitTokens("ann", 2)
	all := func(note string, req *kmsg.DescribeDelegationTokenRequest) {
		for _, c := range []*Conn{ann, bob, carl, s.as("admin")} {
			resp := s.asks(c, v, note, req).(*kmsg.DescribeDelegationTokenResponse)
			i := slices.IndexFunc(resp.TokenDetails, func(d kmsg.DescribeDelegationTokenResponseTokenDetail) bool { return d.TokenID == t.TokenID })
			if i >= 0 {
				s.record(c.name, "HMAC", sameBytes(resp.TokenDetails[i].HMAC, t.HMAC))
			}
		}
	}
	all("all", kmsg.NewPtrDescribeDelegationTokenRequest())
	all("none", describeOwners())
	all("of ann", describeOwners("ann"))
	all("of bob and carl", describeOwners("bob", "carl"))
	s.grantUser("carl", right{opDescribe, onToken, t.TokenID})
	s.asks(carl, v, "with a right to a token", kmsg.NewPtrDescribeDelegationTokenRequest())
	s.revokeUser("carl")
	s.grantUser("carl", right{kmsg.ACLOperationDescribeTokens, onUser, "User:ann"})
	s.asks(carl, v, "with a right to a user", kmsg.NewPtrDescribeDelegationTokenRequest())
	s.asks(carl, v, "with a right to a user, of bob", describeOwners("bob"))
	s.revokeUser("carl")
}

func tokenLogin(s *Session) {
	ann := s.as("ann")
	t := s.createsToken(ann, 3, "", nil)
	short := s.createsToken(ann, 3, "of 2 s", func(r *kmsg.CreateDelegationTokenRequest) { r.MaxLifetimeMillis = 2000 })
	s.awaitTokens("ann", 2)
	living := s.asToken(short.TokenID, short.HMAC, "SCRAM-SHA-256", "a token")
	s.asks(living, 3, "by a token", kmsg.NewPtrDescribeDelegationTokenRequest())
	pause(2500 * 1e6)
	living.Send(5, kmsg.NewPtrApiVersionsRequest()).Note("after the token has expired").Alive().Wait()
	s.asToken(short.TokenID, short.HMAC, "SCRAM-SHA-256", expiredToken)
	for _, m := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		c := s.asToken(t.TokenID, t.HMAC, m, "a token")
		s.createsToken(c, 3, "by a token", nil)
		s.asks(c, 2, "by a token", renewal(t.HMAC, 0))
		s.asks(c, 2, "by a token", expiry(t.HMAC, -1))
		s.asks(c, 3, "by a token", kmsg.NewPtrDescribeDelegationTokenRequest())
		s.asToken(t.TokenID, []byte("guessed"), m, "a guess")
	}
	s.asks(ann, 2, "", expiry(t.HMAC, -1))
	s.awaitTokens("ann", 1)
	s.asToken(t.TokenID, t.HMAC, "SCRAM-SHA-512", "a token that is gone")
}

// clearTokenScenarios ask for tokens where nobody authenticates.
func clearTokenScenarios(l *list) {
	l.each(38, "tokens in the clear/create", func(s *Session, v int16) { s.createsToken(s.Conn(), v, "", nil) })
	l.each(39, "tokens in the clear/renew", func(s *Session, v int16) { s.asks(s.Conn(), v, "", renewal([]byte("x"), 0)) })
	l.each(40, "tokens in the clear/expire", func(s *Session, v int16) { s.asks(s.Conn(), v, "", expiry([]byte("x"), 0)) })
	l.each(41, "tokens in the clear/describe", func(s *Session, v int16) { s.asks(s.Conn(), v, "", kmsg.NewPtrDescribeDelegationTokenRequest()) })
}
