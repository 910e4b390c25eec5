package handlers

import (
	"grete/internal/clock"
	"grete/internal/sched"
)

// parked is what every request that waits for partitions has: the first of what it waits for, its time and the end of
// its connection ends the wait.
type parked struct {
	mu    sched.Mutex // guards what it is part of, too
	done  bool
	timer clock.Timer
	stop  func() bool // of the watch on the connection's end
}

// end ends the wait; false when somebody else has.
func (p *parked) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return false
	}
	p.done = true
	p.timer.Stop()
	p.stop()
	return true
}
