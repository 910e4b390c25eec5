package protocol

import (
	"testing"
	"time"

	"grete/internal/clock"
)

// On a clock that only the test moves: closed when the limit has passed, not a moment sooner, and activity counts anew.
func TestIdleLimitIsExact(t *testing.T) {
	c := clock.NewManual(time.Unix(1000, 0))
	s := startServer(t, &testHandler{}, Options{Clock: c, MaxIdle: time.Minute})
	p := s.dial()
	p.send(1, heartbeat("a"))
	p.expect(1)
	step := func(d time.Duration) {
		c.Advance(d)
		s.reapOnce(c.Now())
	}
	s.restAll(t)
	step(59 * time.Second)
	p.send(2, heartbeat("a"))
	p.expect(2)
	s.restAll(t)
	step(59 * time.Second)
	if s.open() != 1 {
		t.Fatal("closed before its time")
	}
	step(time.Second)
	eventually(t, "closed in time", func() bool { return s.open() == 0 })
}

func TestIdleLimitCanBeOff(t *testing.T) {
	c := clock.NewManual(time.Unix(1000, 0))
	s := startServer(t, &testHandler{}, Options{Clock: c, MaxIdle: -1})
	p := s.dial()
	p.send(1, heartbeat("a"))
	p.expect(1)
	s.restAll(t) // the peer may have its answer before its sender is done
	c.Advance(time.Hour)
	s.reapOnce(c.Now())
	p.send(2, heartbeat("a"))
	p.expect(2)
}

// restAll waits until nothing is being received, handled or sent.
func (s *testServer) restAll(t *testing.T) {
	t.Helper()
	eventually(t, "connections at rest", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.connList() {
			if !c.atRest() || c.sendingSince.Load() != 0 {
				return false
			}
		}
		return true
	})
}
