package protocol

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/security/sasl"
)

// withMechanisms is a listener where bob and eve log in by each kind of mechanism, for sessions that end.
func withMechanisms() Options {
	credential, err := sasl.SHA256.NewCredential("p", []byte("salt"), sasl.MinIterations)
	if err != nil {
		panic(err)
	}
	scram := &sasl.ScramServer{Hash: sasl.SHA256, Random: func(p []byte) { _, _ = rand.Read(p) }, Secret: []byte("s"), Lookup: func(string) (sasl.Credential, bool) {
		return credential, true
	}}
	rules := &sasl.TokenRules{Unsecured: true, Subject: "sub", Now: time.Now}
	s := &SASL{MaxReceiveBytes: 1000, Mechanisms: []SASLMechanism{
		{Name: sasl.Plain, MaxSession: time.Hour, Begin: func() sasl.Exchange { return sasl.NewPlain(sasl.Users{"bob": "p", "eve": "p"}) }},
		{Name: sasl.ScramSHA256, MaxSession: time.Hour, Begin: scram.Begin},
		{Name: sasl.OAuthBearer, Begin: func() sasl.Exchange { return sasl.NewOAuthBearer(rules) }}, // it ends with the token
	}}
	return Options{Security: map[string]*Security{"PLAINTEXT": {SASL: s}}}
}

// clientOf logs in as a user; with another password than p, or with a token that has expired, in vain.
func clientOf(t testing.TB, mechanism, user, password string) sasl.Client {
	t.Helper()
	switch mechanism {
	case sasl.Plain:
		return sasl.NewPlainClient(user, password)
	case sasl.OAuthBearer:
		issued := time.Now()
		if password != "p" {
			issued = issued.Add(-2 * time.Hour)
		}
		token, err := sasl.UnsecuredToken(map[string]any{"sub": user}, issued, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return sasl.NewOAuthBearerClient(token.Text)
	}
	client, err := sasl.SHA256.NewScramClient(user, password, func(p []byte) { _, _ = rand.Read(p) })
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// converse sends tokens until the server has the last word.
func (p *testPeer) converse(mechanism, user, password string) *kmsg.SASLAuthenticateResponse {
	p.t.Helper()
	if resp := ask[*kmsg.SASLHandshakeResponse](p, saslHandshakeRequest(1, mechanism)); resp.ErrorCode != 0 {
		p.t.Fatalf("%s: %+v", mechanism, resp)
	}
	client := clientOf(p.t, mechanism, user, password)
	var resp *kmsg.SASLAuthenticateResponse
	for challenge := []byte(nil); ; challenge = resp.SASLAuthBytes {
		token, done, err := client.Next(challenge)
		if err != nil {
			token = []byte("\x01") // a client of OAUTHBEARER acknowledges that
		}
		if done && token == nil {
			return resp
		}
		if resp = p.logIn(string(token)); resp.ErrorCode != 0 {
			return resp
		}
	}
}

// Whatever the mechanism, a session goes on as the same principal and by the same mechanism alone.
func TestReauthenticationByEachMechanism(t *testing.T) {
	names := make(chan Principal, 1)
	s := startServer(t, whoIs(names), withMechanisms())
	all := []string{sasl.Plain, sasl.ScramSHA256, sasl.OAuthBearer}
	in := func(mechanism string) *testPeer {
		p := s.dial()
		if resp := p.converse(mechanism, "bob", "p"); resp.ErrorCode != 0 || resp.SessionLifetimeMillis <= 0 || resp.SessionLifetimeMillis > 3_600_000 {
			t.Fatalf("%s: %+v", mechanism, resp)
		}
		return p
	}
	refused := map[string]string{
		sasl.Plain: "Authentication failed: Invalid username or password", sasl.OAuthBearer: `{"status":"invalid_token"}`,
		sasl.ScramSHA256: "Authentication failed during re-authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
	}
	for _, mechanism := range all {
		p := in(mechanism)
		if resp := p.converse(mechanism, "bob", "p"); resp.ErrorCode != 0 || resp.SessionLifetimeMillis <= 0 {
			t.Errorf("%s: %+v", mechanism, resp)
		}
		p.expectToBe(names, "bob")
		for _, tt := range []struct{ user, password, text string }{
			{"eve", "p", "Cannot change principals during re-authentication from User.bob: User.eve"}, {"bob", "wrong", refused[mechanism]},
		} {
			p := in(mechanism)
			if resp := p.converse(mechanism, tt.user, tt.password); resp.ErrorCode != kerr.SaslAuthenticationFailed.Code || *resp.ErrorMessage != tt.text {
				t.Errorf("%s as %s: %+v", mechanism, tt.user, resp)
			}
			p.expectClosed()
		}
		for _, other := range all {
			if other == mechanism {
				continue
			}
			p := in(mechanism)
			_ = ask[*kmsg.SASLHandshakeResponse](p, saslHandshakeRequest(1, other))
			token, _, _ := clientOf(t, other, "bob", "p").Next(nil)
			p.send(1, saslToken(2, string(token)))
			t.Log(mechanism, other)
			p.expectClosed()
		}
	}
}

// A token that is refused is one line of the log, with the reason and without the token, whether its client goes on or
// not.
func TestRefusedTokenIsLogged(t *testing.T) {
	for _, acknowledges := range []bool{true, false} {
		s := startServer(t, &testHandler{}, withMechanisms())
		p := s.dial()
		_ = ask[*kmsg.SASLHandshakeResponse](p, saslHandshakeRequest(1, sasl.OAuthBearer))
		token, _, _ := clientOf(t, sasl.OAuthBearer, "bob", "wrong").Next(nil)
		if resp := p.logIn(string(token)); resp.ErrorCode != 0 || string(resp.SASLAuthBytes) != `{"status":"invalid_token"}` {
			t.Errorf("%+v", resp)
		}
		if acknowledges {
			if resp := p.logIn("\x01"); resp.ErrorCode != kerr.SaslAuthenticationFailed.Code {
				t.Errorf("%+v", resp)
			}
			p.expectClosed()
		}
		p.Close()
		eventually(t, "the connection ends", func() bool { return s.connections() == 0 })
		log := s.log.String()
		if strings.Count(log, "authentication failed") != 1 || !strings.Contains(log, "OAUTHBEARER: token: token is expired") || strings.Contains(log, "eyJ") {
			t.Error(fmt.Sprint(acknowledges), log)
		}
	}
}
