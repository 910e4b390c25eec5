package protocol

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/security/sasl"
)

// withSASL is a listener that takes PLAIN from ann, and SCRAM from bob.
func withSASL(change func(*SASL)) Options {
	credential, err := sasl.SHA256.NewCredential("hunter2", []byte("salt"), sasl.MinIterations)
	if err != nil {
		panic(err)
	}
	scram := &sasl.ScramServer{Hash: sasl.SHA256, Random: func(p []byte) { _, _ = rand.Read(p) }, Secret: []byte("s"), Lookup: func(user string) (sasl.Credential, bool) {
		return credential, user == "bob"
	}}
	s := &SASL{MaxReceiveBytes: 1000, FailureDelay: 20 * time.Millisecond, Mechanisms: []SASLMechanism{
		{Name: sasl.Plain, Begin: func() sasl.Exchange { return sasl.NewPlain(sasl.Users{"ann": "secret", "eve": "e"}) }},
		{Name: sasl.ScramSHA256, Begin: scram.Begin},
	}}
	if change != nil {
		change(s)
	}
	return Options{Security: map[string]*Security{"PLAINTEXT": {SASL: s}}}
}

func saslHandshakeRequest(version int16, mechanism string) *kmsg.SASLHandshakeRequest {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = version, mechanism
	return req
}

func saslToken(version int16, token string) *kmsg.SASLAuthenticateRequest {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = version, []byte(token)
	return req
}

// ask sends a request and decodes its response.
func ask[R kmsg.Response](p *testPeer, req kmsg.Request) R {
	p.t.Helper()
	p.send(7, req)
	_, b := p.frame()
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := decodeResponse(resp, b); err != nil {
		p.t.Fatal(err)
	}
	return resp.(R)
}

func (p *testPeer) handshake(mechanism string) {
	p.t.Helper()
	resp := ask[*kmsg.SASLHandshakeResponse](p, saslHandshakeRequest(1, mechanism))
	if resp.ErrorCode != 0 || strings.Join(resp.SupportedMechanisms, " ") != "PLAIN SCRAM-SHA-256" {
		p.t.Fatalf("%+v", resp)
	}
}

func (p *testPeer) logIn(token string) *kmsg.SASLAuthenticateResponse {
	p.t.Helper()
	return ask[*kmsg.SASLAuthenticateResponse](p, saslToken(2, token))
}

const annsToken, evesToken = "\x00ann\x00secret", "\x00eve\x00e"

func whoIs(names chan Principal) *testHandler {
	return (&testHandler{}).on(heartbeatKey, func(r *Request) {
		names <- r.Conn.Principal()
		r.Respond(r.Body.ResponseKind())
	})
}

func (p *testPeer) expectToBe(names chan Principal, name string) {
	p.t.Helper()
	p.send(9, heartbeat("a"))
	p.expect(9)
	if got := <-names; got != (Principal{"User", name}) {
		p.t.Errorf("served for %v", got)
	}
}

func TestSASL(t *testing.T) {
	names := make(chan Principal, 1)
	s := startServer(t, whoIs(names), withSASL(nil))
	p := s.dial()
	p.send(1, kmsg.NewPtrApiVersionsRequest())
	p.expect(1)
	p.handshake("PLAIN")
	if resp := p.logIn(annsToken); resp.ErrorCode != 0 || resp.SessionLifetimeMillis != 0 || resp.SASLAuthBytes == nil || resp.ErrorMessage == nil || *resp.ErrorMessage != "" {
		t.Errorf("%+v", resp)
	}
	p.expectToBe(names, "ann")
	p.send(2, produce(1, make([]byte, 2000)))
	p.expect(2)
}

// Tokens that are frames of their own: PLAIN, and SCRAM with its several steps.
func TestSASLRawTokens(t *testing.T) {
	names := make(chan Principal, 1)
	s := startServer(t, whoIs(names), withSASL(nil))
	token := func(p *testPeer, text string) string {
		p.sendRaw(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
		_ = p.SetReadDeadline(time.Now().Add(5 * time.Second))
		var head [4]byte
		if _, err := p.Read(head[:]); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, binary.BigEndian.Uint32(head[:]))
		if len(b) > 0 {
			if _, err := p.Read(b); err != nil {
				t.Fatal(err)
			}
		}
		return string(b)
	}
	p := s.dial()
	p.send(1, saslHandshakeRequest(0, "PLAIN"))
	p.expect(1)
	if got := token(p, annsToken); got != "" {
		t.Errorf("%q", got)
	}
	p.expectToBe(names, "ann")

	q := s.dial()
	q.send(1, saslHandshakeRequest(0, "SCRAM-SHA-256"))
	q.expect(1)
	client, err := sasl.SHA256.NewScramClient("bob", "hunter2", func(p []byte) { _, _ = rand.Read(p) })
	challenge := []byte(nil)
	for done := false; !done && err == nil; {
		var out []byte
		if out, done, err = client.Next(challenge); !done {
			challenge = []byte(token(q, string(out)))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	q.expectToBe(names, "bob")

	for name, bytes := range map[string][]byte{
		"a wrong password": append([]byte{0, 0, 0, 6}, "\x00ann\x00x"...), "an empty token": {0, 0, 0, 0}, "a token too long": {0, 0, 4, 0}, "a negative length": {0xff, 0, 0, 0},
	} {
		p := s.dial()
		p.send(1, saslHandshakeRequest(0, "PLAIN"))
		p.expect(1)
		p.sendRaw(bytes)
		t.Log(name)
		p.expectClosed()
	}
}

// Nothing else passes, in any order, and what is too long closes before it is received.
func TestNothingBeforeAuthentication(t *testing.T) {
	h := (&testHandler{}).on(heartbeatKey, func(r *Request) { t.Errorf("served for %v", r.Conn.Principal()); r.Respond(r.Body.ResponseKind()) })
	s := startServer(t, h, withSASL(nil))
	versions, handshake, raw := kmsg.NewPtrApiVersionsRequest(), saslHandshakeRequest(1, "PLAIN"), saslHandshakeRequest(0, "PLAIN")
	for name, requests := range map[string][]kmsg.Request{
		"a request":                      {heartbeat("a")},
		"a request after ApiVersions":    {versions, heartbeat("a")},
		"ApiVersions twice":              {versions, versions},
		"a token before the handshake":   {saslToken(1, annsToken)},
		"a token after ApiVersions":      {versions, saslToken(1, annsToken)},
		"a request after the handshake":  {handshake, heartbeat("a")},
		"a request where a token is due": {raw, heartbeat("a")},
		"a request that is too long":     {handshake, saslToken(1, strings.Repeat("x", 1000))},
		"ApiVersions that is too long":   {produce(1, make([]byte, 1000))},
		"a version that there is not":    {handshake, saslToken(9, annsToken)},
	} {
		p := s.dial()
		for i, req := range requests {
			p.send(int32(i), req)
			if i < len(requests)-1 {
				p.expect(int32(i))
			}
		}
		t.Log(name)
		p.expectClosed()
	}
	pipelined := s.dial() // what comes with the last token is served under its principal alone
	_, _ = pipelined.Write(append(encodeRequest(handshake, 1), encodeRequest(heartbeat("a"), 2)...))
	pipelined.expect(1)
	pipelined.expectClosed()
}

// Whatever is wrong is answered alike, after the same delay, and nothing follows it.
func TestSASLFailures(t *testing.T) {
	s := startServer(t, &testHandler{}, withSASL(nil))
	const invalid = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
	for _, tt := range []struct{ mechanism, token, text string }{
		{"PLAIN", "\x00ann\x00wrong", "Authentication failed: Invalid username or password"},
		{"PLAIN", "\x00nobody\x00secret", "Authentication failed: Invalid username or password"},
		{"PLAIN", "\x00ann\x00", "Authentication failed: password not specified"},
		{"PLAIN", "\x00\x00secret", "Authentication failed: username not specified"},
		{"PLAIN", "eve\x00ann\x00secret", "Authentication failed: Client requested an authorization id that is different from username"},
		{"PLAIN", "ann", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"}, {"PLAIN", "\x00\x00\x00\x00\x00", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"},
		{"SCRAM-SHA-256", "y", invalid + "SCRAM-SHA-256"},
		{"SCRAM-SHA-256", "n,a=ann,n=bob,r=x", "Authentication failed: Client requested an authorization id that is different from username"},
	} {
		p := s.dial()
		p.handshake(tt.mechanism)
		began := time.Now()
		resp := p.logIn(tt.token)
		if took := time.Since(began); took < 20*time.Millisecond {
			t.Errorf("%q was answered after %v", tt.token, took)
		}
		if resp.ErrorCode != kerr.SaslAuthenticationFailed.Code || resp.ErrorMessage == nil || *resp.ErrorMessage != tt.text {
			t.Errorf("%q: %+v", tt.token, resp)
		}
		p.expectClosed()
	}
	p := s.dial()
	resp := ask[*kmsg.SASLHandshakeResponse](p, saslHandshakeRequest(1, "GSSAPI"))
	if resp.ErrorCode != kerr.UnsupportedSaslMechanism.Code || len(resp.SupportedMechanisms) != 2 {
		t.Errorf("%+v", resp)
	}
	p.expectClosed()
	for _, req := range []kmsg.Request{saslHandshakeRequest(1, "PLAIN"), kmsg.NewPtrApiVersionsRequest()} { // where a token is due
		p := s.dial()
		p.handshake("PLAIN")
		p.send(1, req)
		if _, b := p.frame(); binary.BigEndian.Uint16(b) != uint16(kerr.IllegalSaslState.Code) {
			t.Errorf("%T: %x", req, b)
		}
		p.expectClosed()
	}
	eventually(t, "the connections end", func() bool { return s.connections() == 0 })
	if log := s.log.String(); strings.Contains(log, "wrong") || strings.Contains(log, "secret") || !strings.Contains(log, "authentication failed") {
		t.Error(log)
	}
}

// An unknown user of SCRAM goes through the same steps as a wrong password, and gets the same challenge each time.
func TestUnknownScramUser(t *testing.T) {
	s := startServer(t, &testHandler{}, withSASL(nil))
	salts := map[string]bool{}
	for range 2 {
		for _, user := range []string{"bob", "nobody"} {
			p := s.dial()
			p.handshake("SCRAM-SHA-256")
			client, err := sasl.SHA256.NewScramClient(user, "wrong", func(p []byte) { _, _ = rand.Read(p) })
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := client.Next(nil)
			challenge := p.logIn(string(first))
			if challenge.ErrorCode != 0 {
				t.Fatalf("%s: %+v", user, challenge)
			}
			salts[user+string(bytes.Split(challenge.SASLAuthBytes, []byte(","))[1])] = true
			last, _, err := client.Next(challenge.SASLAuthBytes)
			if err != nil {
				t.Fatal(err)
			}
			resp := p.logIn(string(last))
			if resp.ErrorCode != 58 || *resp.ErrorMessage != "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256" {
				t.Errorf("%s: %+v", user, resp)
			}
			p.expectClosed()
		}
	}
	if len(salts) != 2 {
		t.Error("the salt of a user changes")
	}
}

// A session ends unless its client authenticates again, as the same principal and by the same mechanism.
func TestSASLSessions(t *testing.T) {
	names := make(chan Principal, 1)
	s := startServer(t, whoIs(names), withSASL(func(s *SASL) { s.Mechanisms[0].MaxSession = 300 * time.Millisecond }))
	open := func() *testPeer {
		p := s.dial()
		p.handshake("PLAIN")
		if resp := p.logIn(annsToken); resp.ErrorCode != 0 || resp.SessionLifetimeMillis != 300 {
			t.Errorf("%+v", resp)
		}
		return p
	}
	renewed, changed, other, forgetful, busy := open(), open(), open(), open(), open()
	renewed.handshake("PLAIN")
	if resp := renewed.logIn(annsToken); resp.ErrorCode != 0 || resp.SessionLifetimeMillis != 300 {
		t.Errorf("%+v", resp)
	}
	renewed.expectToBe(names, "ann")
	renewed.send(1, saslHandshakeRequest(1, "PLAIN")) // too soon: it is a request like any other
	renewed.expect(1)
	renewed.expectToBe(names, "ann")

	changed.handshake("PLAIN")
	const text = "Cannot change principals during re-authentication from User.ann: User.eve"
	if resp := changed.logIn(evesToken); resp.ErrorCode != 58 || *resp.ErrorMessage != text {
		t.Errorf("%+v", resp)
	}
	changed.expectClosed()

	other.handshake("SCRAM-SHA-256")
	other.send(1, saslToken(1, "x"))
	other.expectClosed()

	busy.handshake("PLAIN")
	busy.send(1, heartbeat("a"))
	busy.expectClosed()

	eventually(t, "the session ends", func() bool {
		forgetful.send(1, heartbeat("a"))
		_ = forgetful.SetReadDeadline(time.Now().Add(time.Second))
		n, _ := forgetful.Read(make([]byte, 100))
		if n > 0 {
			<-names
		}
		time.Sleep(20 * time.Millisecond)
		return n == 0
	})
}

func TestSASLOverTLS(t *testing.T) {
	server, client := testTLS(t)
	names := make(chan Principal, 1)
	o := withSASL(nil)
	o.Security["PLAINTEXT"].TLS = server
	s := startServer(t, whoIs(names), o)
	p := s.dialTLS(client)
	p.handshake("PLAIN")
	p.logIn(annsToken)
	p.expectToBe(names, "ann")
	refused := s.dialTLS(client) // a certificate does not stand for SASL
	refused.send(1, heartbeat("a"))
	refused.expectClosed()
}

// FuzzSASLConnection sends anything to a listener with SASL: without the right password nothing reaches the handler.
func FuzzSASLConnection(f *testing.F) {
	f.Add(append(encodeRequest(saslHandshakeRequest(1, "PLAIN"), 1), encodeRequest(saslToken(2, "\x00ann\x00x"), 2)...))
	f.Add(append(encodeRequest(saslHandshakeRequest(0, "PLAIN"), 1), 0, 0, 0, 3, 0, 'a', 0))
	f.Add(append(encodeRequest(kmsg.NewPtrApiVersionsRequest(), 1), encodeRequest(saslHandshakeRequest(1, "SCRAM-SHA-256"), 2)...))
	h := &testHandler{}
	h.on(heartbeatKey, func(r *Request) { panic("served without authentication") })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	s := NewServer(h, withSASL(func(s *SASL) { s.FailureDelay = 0 })) // without the harness, which the goroutines of fuzzing confuse
	served := make(chan struct{})
	go func() { _ = s.Serve("PLAINTEXT", l); close(served) }()
	f.Cleanup(func() { _ = s.Shutdown(f.Context()); <-served })
	f.Fuzz(func(t *testing.T, sent []byte) {
		if bytes.Contains(sent, []byte("secret")) || bytes.Contains(sent, []byte("eve")) {
			t.Skip()
		}
		p, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		_, _ = p.Write(append(sent, encodeRequest(heartbeat("a"), 1)...))
		_ = p.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		for {
			if _, err := p.Read(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
}
