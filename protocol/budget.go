package protocol

import (
	"sync/atomic"

	"grete/internal/sched"
)

// budget bounds the bytes of requests that are being received or handled, over all connections
// (queued.max.request.bytes). Like Kafka's SimpleMemoryPool it admits while anything is left, so that it may be exceeded by one
// frame per admission; then readers wait, in order. When all that is held belongs to frames that wait for more, or
// nothing is held, the first goes on regardless: somebody always advances, and one frame above the whole budget passes alone.
type budget struct {
	max     int64
	used    atomic.Int64
	waiting atomic.Int32 // len(queue), read without the lock

	mu          sched.Mutex
	queue       []*budgetWaiter
	waitersHold int64
}

type budgetWaiter struct {
	n, held int64
	ready   chan struct{}
}

// acquire takes n bytes for a frame that already holds held bytes; false when stop was closed first.
func (b *budget) acquire(n, held int64, stop <-chan struct{}) bool {
	if b.waiting.Load() == 0 && b.tryAcquire(n) {
		return true
	}
	w := &budgetWaiter{n: n, held: held, ready: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, w)
	b.waitersHold += held
	b.waiting.Store(int32(len(b.queue)))
	b.admit()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return true
	case <-stop:
		return b.giveUp(w)
	}
}

func (b *budget) tryAcquire(n int64) bool {
	for {
		used := b.used.Load()
		if used >= b.max {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// giveUp removes w from the queue; true when it had been admitted meanwhile.
func (b *budget) giveUp(w *budgetWaiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, q := range b.queue {
		if q == w {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.waitersHold -= w.held
			b.waiting.Store(int32(len(b.queue)))
			b.admit()
			return false
		}
	}
	return true
}

func (b *budget) release(n int64) {
	b.used.Add(-n)
	if b.waiting.Load() > 0 {
		b.mu.Lock()
		b.admit()
		b.mu.Unlock()
	}
}

// admit lets waiters go on in order while there is room; b.mu is held.
func (b *budget) admit() {
	for len(b.queue) > 0 {
		w := b.queue[0]
		if !b.tryAcquire(w.n) {
			if b.used.Load() > b.waitersHold {
				return
			}
			b.used.Add(w.n)
		}
		b.queue = b.queue[1:]
		b.waitersHold -= w.held
		b.waiting.Store(int32(len(b.queue)))
		close(w.ready)
	}
}
