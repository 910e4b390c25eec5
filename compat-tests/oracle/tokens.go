package oracle

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The scenarios of delegation tokens run on a broker with a second listener, on which users log in by PLAIN with their name for a password, and tokens by SCRAM.
// ann, bob and carl have the rights that a scenario gives them, admin has all.
var tokenUsers = []string{"ann", "bob", "carl", "admin"}

// TokenProperties are the broker's for TokenScenarios, but for its listeners; without a secret key there are no tokens.
func TokenProperties(secret string) map[string]string {
	users := ""
	for _, u := range tokenUsers {
		users += fmt.Sprintf(" user_%s=\"%s\"", u, u)
	}
	p := map[string]string{
		"authorizer.class.name":   "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":             "User:admin;User:ANONYMOUS",
		"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config":         "org.apache.kafka.common.security.plain.PlainLoginModule required" + users + ";",
		"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.security.protocol.map":                              "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
		"connection.failed.authentication.delay.ms":                   "0",
	}
	if secret != "" {
		p["delegation.token.secret.key"] = secret
	}
	return p
}

// as is a connection of a user's, over SASL.
func (s *Session) as(user string) *Conn {
	c := s.loggedIn(plain.Auth{User: user, Pass: user}.AsMechanism(), nil)
	c.name = user
	return c
}

// asToken is a connection that a token logs in on. Its last answer is a step.
func (s *Session) asToken(id string, hmac []byte, mechanism, note string) *Conn {
	auth := scram.Auth{User: id, Pass: base64.StdEncoding.EncodeToString(hmac), IsToken: true}
	m := auth.AsSha256Mechanism()
	if mechanism == "SCRAM-SHA-512" {
		m = auth.AsSha512Mechanism()
	}
	return s.loggedIn(m, func(k *Call) *Call {
		k.filter = func(tree any) any {
			if m, ok := tree.(map[string]any); ok {
				if m["SessionLifetimeMillis"] != nil {
					m["SessionLifetimeMillis"] = "some"
				}
				delete(m, "SASLAuthBytes")
			}
			return tree
		}
		return k.Note("with " + note + " by " + mechanism)
	})
}

// loggedIn is a connection after the exchange of a mechanism; show records the last answer, nil: none.
func (s *Session) loggedIn(m sasl.Mechanism, show func(*Call) *Call) *Conn {
	c := dialAt(s, s.target.SASL)
	s.conns = append(s.conns, c)
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = m.Name()
	c.Send(1, handshake).Quiet()
	session, token, err := m.Authenticate(context.Background(), "localhost")
	for done := false; err == nil; {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.SASLAuthBytes = token
		call := c.Send(2, req)
		resp, _ := call.Quiet().(*kmsg.SASLAuthenticateResponse)
		if resp == nil || resp.ErrorCode != 0 {
			done = true
		} else if done, token, err = session.Challenge(resp.SASLAuthBytes); err != nil {
			break
		}
		if done {
			if show != nil {
				show(call).Wait()
			} else if resp == nil || resp.ErrorCode != 0 {
				panic(fmt.Sprintf("login: %+v", resp))
			}
			return c
		}
	}
	panic(fmt.Sprintf("login: %v", err))
}

// tokenTree leaves out times, and shows of ids and HMACs whether there are any.
func tokenTree(tree any) any {
	switch t := tree.(type) {
	case []any:
		for i := range t {
			t[i] = tokenTree(t[i])
		}
		slices.SortStableFunc(t, func(a, b any) int { return strings.Compare(sortKey(a), sortKey(b)) })
	case map[string]any:
		for k, v := range t {
			switch k {
			case "HMAC", "TokenID":
				if fmt.Sprint(v) != "" {
					t[k] = "some"
				}
			case "IssueTimestamp", "ExpiryTimestamp", "MaxTimestamp":
				delete(t, k)
			default:
				t[k] = tokenTree(v)
			}
		}
	}
	return tree
}

// createsToken creates a token and records the answer.
func (s *Session) createsToken(c *Conn, v int16, note string, change func(*kmsg.CreateDelegationTokenRequest)) *kmsg.CreateDelegationTokenResponse {
	req := kmsg.NewPtrCreateDelegationTokenRequest()
	req.MaxLifetimeMillis = -1
	if change != nil {
		change(req)
	}
	return s.asks(c, v, note, req).(*kmsg.CreateDelegationTokenResponse)
}

// asks records the answer to a request about tokens, with its times from now on in minutes.
func (s *Session) asks(c *Conn, v int16, note string, req kmsg.Request) kmsg.Response {
	k := c.Send(v, req).Note(note)
	k.filter = tokenTree
	resp := k.Quiet()
	k.Wait()
	s.record(c.name, k.label+" times", tokenTimes(resp))
	return resp
}

// tokenTimes are times of an answer, in minutes from when the token was issued, or from now.
func tokenTimes(resp kmsg.Response) any {
	minutes := func(from int64, at ...int64) (out []any) {
		for _, ms := range at {
			if ms <= 0 {
				out = append(out, json.Number(fmt.Sprint(ms)))
			} else {
				out = append(out, fmt.Sprintf("%d min", (ms-from+30_000)/60_000))
			}
		}
		return out
	}
	now := time.Now().UnixMilli()
	switch r := resp.(type) {
	case *kmsg.CreateDelegationTokenResponse:
		return minutes(now, r.IssueTimestamp, r.ExpiryTimestamp, r.MaxTimestamp)
	case *kmsg.RenewDelegationTokenResponse:
		return minutes(now, r.ExpiryTimestamp)
	case *kmsg.ExpireDelegationTokenResponse:
		return minutes(now, r.ExpiryTimestamp)
	case *kmsg.DescribeDelegationTokenResponse:
		out := map[string]any{}
		for _, t := range r.TokenDetails {
			out[t.PrincipalName+" for "+t.TokenRequesterPrincipalName+fmt.Sprint(len(t.HMAC))] = minutes(now, t.IssueTimestamp, t.ExpiryTimestamp, t.MaxTimestamp)
		}
		return out
	}
	return nil
}

// cleanTokens ends the tokens of all users, so that the next scenario begins without any.
func (s *Session) cleanTokens() {
	for _, user := range tokenUsers {
		c := s.as(user)
		req := kmsg.NewPtrDescribeDelegationTokenRequest()
		resp, ok := c.Send(3, req).Quiet().(*kmsg.DescribeDelegationTokenResponse)
		if !ok {
			return
		}
		for _, t := range resp.TokenDetails {
			c.Send(2, expiry(t.HMAC, -1)).Quiet() // where it is the user's
		}
	}
}

// awaitTokens waits until the broker knows n tokens of an owner: the controller tells it.
func (s *Session) awaitTokens(owner string, n int) {
	c := s.as("admin")
	s.await(func() bool {
		req := kmsg.NewPtrDescribeDelegationTokenRequest()
		req.Owners = []kmsg.DescribeDelegationTokenRequestOwner{{PrincipalType: "User", PrincipalName: owner}}
		resp, _ := c.Send(3, req).Quiet().(*kmsg.DescribeDelegationTokenResponse)
		return resp != nil && len(resp.TokenDetails) == n
	}, "tokens")
}

// grantUser lets a user do something, from anywhere.
func (s *Session) grantUser(user string, r right) {
	req := kmsg.NewPtrCreateACLsRequest()
	c := creation("*", r)
	c.Principal = "User:" + user
	req.Creations = append(req.Creations, c)
	s.setup(3, req)
	s.await(func() bool { return s.granted("*", r) }, r.String())
}

// revokeUser takes all rights of a user's.
func (s *Session) revokeUser(user string) {
	any := kmsg.NewDeleteACLsRequestFilter()
	any.ResourceType, any.ResourcePatternType, any.Principal = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, ptr("User:"+user)
	any.Operation, any.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Filters = append(req.Filters, any)
	s.setup(3, req)
	s.await(func() bool {
		req := kmsg.NewPtrDescribeACLsRequest()
		req.ResourceType, req.ResourcePatternType, req.Principal = any.ResourceType, any.ResourcePatternType, any.Principal
		req.Operation, req.PermissionType = any.Operation, any.PermissionType
		return len(s.setup(3, req).(*kmsg.DescribeACLsResponse).Resources) == 0
	}, "no rights of "+user)
}

func sameBytes(a, b []byte) string {
	if bytes.Equal(a, b) {
		return "the same"
	}
	return "other"
}
