package protocol

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// testTLS are configurations of a server, and of a client that has a certificate of that name.
func testTLS(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	pair := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	server = &tls.Config{Certificates: pair, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven, DynamicRecordSizingDisabled: true}
	return server, &tls.Config{Certificates: pair, RootCAs: pool, ServerName: "localhost"}
}

func (s *testServer) dialTLS(config *tls.Config) *testPeer {
	s.t.Helper()
	p := s.dial()
	p.Conn = tls.Client(p.Conn, config)
	return p
}

func onTLS(server *tls.Config) Options {
	return Options{Security: map[string]*Security{"PLAINTEXT": {TLS: server}}}
}

// What is asked over TLS is answered over TLS: small frames in one record and in pieces, a large one, and file regions.
func TestTLS(t *testing.T) {
	server, client := testTLS(t)
	s := startServer(t, &testHandler{}, onTLS(server))
	p := s.dialTLS(client)
	p.sendRaw(append(encodeRequest(heartbeat("a"), 1), encodeRequest(heartbeat("b"), 2)...))
	p.expect(1, 2)
	for _, b := range encodeRequest(heartbeat("c"), 3) {
		p.sendRaw([]byte{b})
	}
	p.expect(3)
	p.send(4, produce(1, bytes.Repeat([]byte("x"), 3<<20)))
	p.sendRaw(append(encodeRequest(produce(1, bytes.Repeat([]byte("y"), 20_000)), 5), encodeRequest(heartbeat("b"), 6)...))
	p.expect(4, 5, 6)
	p.Close()
	eventually(t, "the connection ends", func() bool { return s.connections() == 0 })
}

func (s *testServer) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func TestTLSNamesThePeer(t *testing.T) {
	server, client := testTLS(t)
	names := make(chan string, 1)
	h := (&testHandler{}).on(heartbeatKey, func(r *Request) {
		names <- r.Conn.Principal().Name
		r.Respond(r.Body.ResponseKind())
	})
	o := onTLS(server)
	o.Security["PLAINTEXT"].Name = func(state tls.ConnectionState) (Principal, error) {
		if len(state.PeerCertificates) == 0 {
			return Principal{}, errors.New("nameless")
		}
		return Principal{"User", state.PeerCertificates[0].Subject.CommonName}, nil
	}
	s := startServer(t, h, o)
	p := s.dialTLS(client)
	p.send(1, heartbeat("a"))
	p.expect(1)
	if name := <-names; name != "localhost" {
		t.Errorf("the peer is %s", name)
	}
	client.Certificates = nil
	s.dialTLS(client).expectClosed()
	eventually(t, "the refusal is in the log", func() bool { return strings.Contains(s.log.String(), "nameless") })
}

// A plain client gets nothing of a listener with TLS but an alert, whatever it sends.
func TestPlainInputOnTLS(t *testing.T) {
	server, _ := testTLS(t)
	s := startServer(t, &testHandler{}, onTLS(server))
	for name, sent := range map[string][]byte{
		"a request": encodeRequest(heartbeat("a"), 1), "HTTP": []byte("GET / HTTP/1.1\r\n\r\n"), "zeros": make([]byte, 64),
		"an endless handshake": append([]byte{22, 3, 1, 0x40, 0, 1, 3, 0, 0}, make([]byte, 256<<10)...),
	} {
		p := s.dial()
		_, _ = p.Write(sent)
		_ = p.SetReadDeadline(time.Now().Add(5 * time.Second))
		got := make([]byte, 1024)
		n := 0
		var err error
		for err == nil && n < len(got) {
			var m int
			m, err = p.Read(got[n:])
			n += m
		}
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Errorf("%s: not closed", name)
		}
		if n > 7 || n > 0 && got[0] != 21 {
			t.Errorf("%s: answered %x", name, got[:n])
		}
	}
}

// A peer that is killed, or leaves, in the midst of its handshake has not failed to authenticate.
func TestHandshakeCutByThePeer(t *testing.T) {
	server, _ := testTLS(t)
	s := startServer(t, &testHandler{}, onTLS(server))
	hello := append([]byte{22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3}, make([]byte, 64)...)
	for _, linger := range []int{-1, 0} { // the end of its data, a reset
		p := s.dial()
		if _, err := p.Write(hello); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is accepted", func() bool { return s.connections() == 1 })
		if err := errors.Join(p.Conn.(*net.TCPConn).SetLinger(linger), p.Close()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is gone", func() bool { return s.connections() == 0 })
	}
	if log := s.log.String(); strings.Contains(log, "authentication failed") {
		t.Error(log)
	}
}

func TestHandshakeInTime(t *testing.T) {
	server, _ := testTLS(t)
	o := onTLS(server)
	o.AuthTimeout = 20 * time.Millisecond
	o.MaxIdle = 40 * time.Millisecond // the reaper looks often, and idleness alone ends no handshake
	s := startServer(t, &testHandler{}, o)
	s.dial().expectClosed()
}

func TestShutdownEndsAHandshake(t *testing.T) {
	server, _ := testTLS(t)
	s := startServer(t, &testHandler{}, onTLS(server))
	p := s.dial()
	eventually(t, "it is accepted", func() bool { return s.connections() == 1 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	p.expectClosed()
}

// Connections that never authenticate keep none out that does: the oldest gives way.
func TestUnauthenticatedConnectionsAreBounded(t *testing.T) {
	server, client := testTLS(t)
	s := startServer(t, &testHandler{}, onTLS(server))
	first := s.dial()
	for range maxUnauthenticated - 1 {
		s.dial()
	}
	eventually(t, "all are accepted", func() bool { return s.connections() == maxUnauthenticated })
	p := s.dialTLS(client)
	p.send(1, heartbeat("a"))
	p.expect(1)
	first.expectClosed()
	s.Server.waiting.mu.Lock()
	defer s.Server.waiting.mu.Unlock()
	if n := s.Server.waiting.order.Len(); n != maxUnauthenticated-1 || len(s.Server.waiting.at) != n {
		t.Errorf("%d connections wait to be authenticated", n)
	}
}
