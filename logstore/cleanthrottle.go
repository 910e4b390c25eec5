package logstore

import (
	"time"

	"grete/internal/clock"
	"grete/internal/sched"
)

// minPause: shorter waits of the throttle are gathered.
const minPause = 20 * time.Millisecond

// throttle holds all cleaner threads together to a rate of bytes.
type throttle struct {
	clock clock.Clock
	mu    sched.Mutex
	paid  time.Time // when all that was asked for is paid at the rate
}

// wait takes n bytes at bytesPerSecond; false: stop was closed.
func (t *throttle) wait(n int, bytesPerSecond float64, stop <-chan struct{}) bool {
	pause := t.owe(n, bytesPerSecond)
	if pause < minPause {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}
	return sleep(t.clock, pause, stop)
}

// sleep waits for d; false: stop was closed.
func sleep(c clock.Clock, d time.Duration, stop <-chan struct{}) bool {
	over := make(chan struct{})
	timer := c.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-stop:
		return false
	case <-over:
		return true
	}
}

// owe adds n bytes to what is owed and returns how long it takes to pay.
func (t *throttle) owe(n int, bytesPerSecond float64) time.Duration {
	cost := float64(n) / bytesPerSecond * float64(time.Second)
	if cost < 1 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	if t.paid.Before(now) {
		t.paid = now
	}
	t.paid = t.paid.Add(time.Duration(min(cost, float64(time.Hour))))
	return t.paid.Sub(now)
}
