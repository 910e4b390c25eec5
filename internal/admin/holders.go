package admin

import "sync"

// holders are at most a number of users of something. One more is let in at once, and the one that entered first is
// cut: users that stall cannot keep others out.
type holders[K comparable] struct {
	most int
	cut  func(K) // is called under mu

	mu    sync.Mutex
	turn  uint64
	since map[K]uint64
}

func newHolders[K comparable](most int, cut func(K)) *holders[K] {
	return &holders[K]{most: most, cut: cut, since: map[K]uint64{}}
}

// enter counts a user; one that is counted is the newest from now on.
func (h *holders[K]) enter(user K) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn++
	h.since[user] = h.turn
	if len(h.since) <= h.most {
		return
	}
	oldest, first := user, h.turn
	for u, turn := range h.since {
		if turn < first {
			oldest, first = u, turn
		}
	}
	delete(h.since, oldest)
	h.cut(oldest)
}

func (h *holders[K]) leave(user K) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.since, user)
}
