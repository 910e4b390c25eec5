package handlers

import "grete/internal/sched"

// gather collects n answers that come in any order, from any goroutine, and calls done with all of them in the order
// of their indexes once the last has come; at once for n = 0.
type gather[T any] struct {
	mu      sched.Mutex
	results []T
	waiting int
	done    func([]T)
}

func newGather[T any](n int, done func([]T)) *gather[T] {
	if n == 0 {
		done(nil)
	}
	return &gather[T]{results: make([]T, n), waiting: n, done: done}
}

func (g *gather[T]) set(i int, result T) {
	g.mu.Lock()
	g.results[i] = result
	g.waiting--
	last := g.waiting == 0
	g.mu.Unlock()
	if last {
		g.done(g.results)
	}
}
