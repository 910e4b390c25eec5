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
	step(59 * time.Second)
	p.send(2, heartbeat("a"))
	p.expect(2)
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
	c.Advance(time.Hour)
	s.reapOnce(c.Now())
	p.send(2, heartbeat("a"))
	p.expect(2)
}
