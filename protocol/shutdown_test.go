package protocol

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestShutdownFinishesWhatWasAccepted(t *testing.T) {
	parked := make(chan *Request, 1)
	h := (&testHandler{}).on(fetchKey, func(r *Request) { parked <- r })
	s := startServer(t, h, Options{})
	busy, idle := s.dial(), s.dial()
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 12
	busy.send(1, fetch)
	busy.send(2, heartbeat("a"))
	idle.send(1, heartbeat("a"))
	idle.expect(1)
	r := <-parked
	eventually(t, "both are read", func() bool { return s.waiting(r.Conn) == 2 })
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	idle.expectClosed()
	select {
	case err := <-ended:
		t.Fatalf("shut down with a request unanswered: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	if _, err := net.DialTimeout("tcp", s.addr, time.Second); err == nil {
		t.Error("still accepting")
	}
	r.Respond(kmsg.NewPtrFetchResponse())
	busy.expect(1, 2)
	busy.expectClosed()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// waiting is how many requests of c are read and not yet sent.
func (s *testServer) waiting(c *Conn) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.len()
}

func TestShutdownIsBoundedByItsContext(t *testing.T) {
	parked := make(chan *Request, 1)
	h := (&testHandler{}).on(fetchKey, func(r *Request) { parked <- r })
	s := startServer(t, h, Options{})
	p := s.dial()
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 12
	p.send(1, fetch)
	r := <-parked
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	p.expectClosed()
	if r.Conn.Context().Err() == nil {
		t.Error("the connection's context lives on")
	}
	r.Respond(kmsg.NewPtrFetchResponse())
}

func TestServeAfterShutdown(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{})
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve("LATE", l); !errors.Is(err, ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
}

func TestShutdownEndsAMutedConnection(t *testing.T) {
	h := (&testHandler{}).on(heartbeatKey, func(r *Request) {
		r.Conn.Mute(time.Hour)
		r.Respond(r.Body.ResponseKind())
	})
	s := startServer(t, h, Options{})
	p := s.dial()
	p.send(1, heartbeat("a"))
	p.expect(1)
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	p.expectClosed()
}
