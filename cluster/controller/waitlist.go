package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/sched"
)

// waitList holds the answers that wait for an offset to be applied here. Its length is bounded by the requests that the
// decider takes while as many wait (decider.ready), or by the callers of Do, which wait for them.
type waitList struct {
	mu      sched.Mutex
	applied int64 // everything below is applied
	waiting []waiter
}

// waiter is an answer due when everything below end is applied; waiters are in order of end.
type waiter struct {
	end      int64
	response kmsg.Response
	reply    chan<- outcome
}

func newWaitList() *waitList { return &waitList{} }

// add answers now or when end is applied.
func (l *waitList) add(w waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.end <= l.applied {
		w.reply <- outcome{response: w.response, end: w.end}
		return
	}
	at := len(l.waiting)
	for at > 0 && l.waiting[at-1].end > w.end { // answers of other nodes may come out of order
		at--
	}
	l.waiting = slices.Insert(l.waiting, at, w)
}

func (l *waitList) release(applied int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.applied = applied
	done := 0
	for done < len(l.waiting) && l.waiting[done].end <= applied {
		l.waiting[done].reply <- outcome{response: l.waiting[done].response, end: l.waiting[done].end}
		done++
	}
	l.waiting = append([]waiter(nil), l.waiting[done:]...)
}

// failAll answers everybody with err: leadership is lost, and whether their records will be committed is unknown.
func (l *waitList) failAll(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiting {
		w.reply <- outcome{err: err}
	}
	l.waiting = nil
}

func (l *waitList) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}
