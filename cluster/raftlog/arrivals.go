package raftlog

import (
	"time"

	"grete/internal/sched"
)

// arrivals is when the last message of each node came, whatever becomes of it.
type arrivals struct {
	mu sched.Mutex
	by map[int32]time.Time // at most maxKnownPeers
}

func (a *arrivals) note(id int32, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = map[int32]time.Time{}
	}
	if _, known := a.by[id]; known || len(a.by) < maxKnownPeers {
		a.by[id] = now
	}
}

// Heard is when the last message of a node came, zero when none has.
func (n *Node) Heard(id int32) time.Time {
	n.arrivals.mu.Lock()
	defer n.arrivals.mu.Unlock()
	return n.arrivals.by[id]
}
