package protocol

import (
	"math"
	"net"
	"testing"
	"time"

	"grete/internal/clock"
)

// served dials and has a request answered.
func (s *testServer) served() *testPeer {
	s.t.Helper()
	p := s.dial()
	p.send(1, heartbeat("a"))
	p.expect(1)
	return p
}

// The limits change while the server serves: those who wait are let in, and those that are too many go, the longest
// silent first.
func TestLimitsChangeAtOnce(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{})
	a, b, c := s.served(), s.served(), s.served()
	a.send(2, heartbeat("a"))
	a.expect(2)
	s.Limit(Limits{Connections: 1})
	b.expectClosed()
	c.expectClosed()
	waiting := s.dial()
	waiting.send(1, heartbeat("a"))
	waiting.expectSilence()
	a.send(3, heartbeat("a"))
	a.expect(3)
	s.Limit(Limits{Connections: 2})
	waiting.expect(1)
	s.Limit(Limits{PerIP: 2})
	s.dial().expectClosed()
	s.Limit(Limits{PerIP: 2, PerIPOverrides: map[string]int{"127.0.0.1": 3}})
	s.served()
	s.dial().expectClosed()
	s.Limit(Limits{PerIP: -1})
	s.dial().expectClosed()
	s.Limit(Limits{})
	s.served()
}

func TestNoConnectionAtAll(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{Limits: Limits{Connections: -1}})
	p := s.dial()
	p.send(1, heartbeat("a"))
	p.expectSilence()
	s.Limit(Limits{})
	p.expect(1)
}

// At max.connection.creation.rate the next one waits for its time, or for another limit.
func TestCreationRate(t *testing.T) {
	for name, limits := range map[string]Limits{
		"broker":   {CreationRate: 1},
		"listener": {Listeners: map[string]ListenerLimits{"PLAINTEXT": {CreationRate: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := clock.NewManual(time.Unix(1000, 0))
			s := startServer(t, &testHandler{}, Options{Clock: c, MaxIdle: -1, Limits: limits})
			s.served() // what was saved up
			s.served()
			p := s.dial()
			p.send(1, heartbeat("a"))
			p.expectSilence()
			c.Advance(time.Second)
			p.expect(1)
			q := s.dial()
			q.send(1, heartbeat("a"))
			q.expectSilence()
			s.Limit(Limits{})
			q.expect(1)
		})
	}
}

// The brokers' listener is held up by no client; a listener's own limit holds it.
func TestProtectedListener(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{Limits: Limits{
		Connections: 1, Protected: "INTERNAL", Listeners: map[string]ListenerLimits{"INTERNAL": {Connections: 2, CreationRate: math.MaxInt32}},
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve("INTERNAL", l) }()
	t.Cleanup(func() { l.Close(); <-done })
	client := s.served()
	internal := &testServer{Server: s.Server, t: t, addr: l.Addr().String()}
	internal.served()
	client.expectClosed() // more than max.connections: the client's goes
	internal.served()
	p := internal.dial()
	p.send(1, heartbeat("a"))
	p.expectSilence()
}
