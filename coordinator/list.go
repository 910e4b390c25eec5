package coordinator

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/internal/sched"
)

// List reads from every shard that this broker leads and answers all of it, in the order of the partitions. One that is
// lost meanwhile has nothing to add; one that cannot answer, because it is loading, fails the whole list.
func List[M Machine, T any](rt *Runtime[M], read func(M, *Tx) []T, answer func([]T, error)) {
	partitions := rt.Partitions()
	slices.Sort(partitions)
	if len(partitions) == 0 {
		answer(nil, nil)
		return
	}
	l := &listing[T]{parts: make([][]T, len(partitions)), waiting: len(partitions), answer: answer}
	for i, p := range partitions {
		rt.Submit(p, Op[M]{
			Run: func(machine M, tx *Tx) {
				part := read(machine, tx)
				tx.Reply(func(err error) { l.done(i, part, err) })
			},
			Refuse: func(err error) { l.done(i, nil, err) },
		})
	}
}

// listing gathers the shards' parts.
type listing[T any] struct {
	mu      sched.Mutex
	parts   [][]T
	waiting int
	err     error
	answer  func([]T, error)
}

func (l *listing[T]) done(i int, part []T, err error) {
	l.mu.Lock()
	l.parts[i] = part
	if code := Code(err); code != 0 && code != kerr.NotCoordinator.Code {
		l.err = err
	}
	l.waiting--
	last := l.waiting == 0
	l.mu.Unlock()
	switch {
	case last && l.err != nil:
		l.answer(nil, l.err)
	case last:
		l.answer(slices.Concat(l.parts...), nil)
	}
}
