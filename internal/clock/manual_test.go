package clock

import (
	"slices"
	"testing"
	"time"
)

func TestManualFiresInOrder(t *testing.T) {
	start := time.UnixMilli(1_000)
	m := NewManual(start)
	var fired []string
	note := func(name string) func() {
		return func() { fired = append(fired, name+"@"+m.Now().Sub(start).String()) }
	}
	m.AfterFunc(30*time.Millisecond, note("c"))
	m.AfterFunc(10*time.Millisecond, func() {
		note("a")()
		m.AfterFunc(5*time.Millisecond, note("set by a"))
	})
	m.AfterFunc(10*time.Millisecond, note("b"))
	stopped := m.AfterFunc(20*time.Millisecond, note("stopped"))
	reset := m.AfterFunc(20*time.Millisecond, note("reset"))
	if !stopped.Stop() || stopped.Stop() {
		t.Fatal("Stop says whether the timer was set")
	}
	if !reset.Reset(40 * time.Millisecond) {
		t.Fatal("Reset says whether the timer was set")
	}
	m.Advance(9 * time.Millisecond)
	if len(fired) != 0 {
		t.Fatalf("too early: %v", fired)
	}
	m.Advance(31 * time.Millisecond)
	want := []string{"a@10ms", "b@10ms", "set by a@15ms", "c@30ms", "reset@40ms"}
	if !slices.Equal(fired, want) {
		t.Fatalf("fired %v, want %v", fired, want)
	}
	if m.Pending() != 0 || Millis(m) != 1_040 {
		t.Fatalf("pending %d, now %d", m.Pending(), Millis(m))
	}
}

func TestManualTicker(t *testing.T) {
	m := NewManual(time.UnixMilli(0))
	ticker := m.NewTicker(10 * time.Millisecond)
	m.Advance(25 * time.Millisecond) // two ticks, of which nobody took the second
	if at := <-ticker.C(); at.UnixMilli() != 10 {
		t.Fatalf("tick at %d", at.UnixMilli())
	}
	m.Advance(10 * time.Millisecond)
	if at := <-ticker.C(); at.UnixMilli() != 30 {
		t.Fatalf("tick at %d", at.UnixMilli())
	}
	ticker.Stop()
	m.Advance(time.Second)
	select {
	case at := <-ticker.C():
		t.Fatalf("tick at %d after Stop", at.UnixMilli())
	default:
	}
}

func TestSystem(t *testing.T) {
	fired := make(chan struct{})
	System.AfterFunc(time.Microsecond, func() { close(fired) })
	<-fired
	ticker := System.NewTicker(time.Microsecond)
	defer ticker.Stop()
	<-ticker.C()
	if d := time.Since(System.Now()); d < 0 || d > time.Minute {
		t.Fatalf("system clock is off by %v", d)
	}
}
