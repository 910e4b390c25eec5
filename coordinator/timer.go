package coordinator

import "container/heap"

// Timer is one deadline of a shard, owned by whatever it belongs to (a member's session, a group's rebalance). The
// zero Timer is idle; Fire runs as an operation of the shard.
type Timer struct {
	Fire func(*Tx)

	deadlineMs int64
	queuedMs   int64 // its place in the heap: never after deadlineMs
	index      int   // in the heap, counted from 1; 0 is idle
	set        bool
}

// Set tells whether the timer is waiting.
func (t *Timer) Set() bool { return t.set }

// timers orders a shard's timers. A deadline moved later (each heartbeat does so) stays where it is in the heap and
// is moved when its old place comes up; so the common case touches no heap.
type timers struct{ heap timerHeap }

func (ts *timers) schedule(t *Timer, deadlineMs int64) {
	t.deadlineMs, t.set = deadlineMs, true
	switch {
	case t.index == 0:
		t.queuedMs = deadlineMs
		heap.Push(&ts.heap, t)
	case deadlineMs < t.queuedMs:
		t.queuedMs = deadlineMs
		heap.Fix(&ts.heap, t.index-1)
	}
}

func (ts *timers) cancel(t *Timer) {
	t.set = false
	if t.index > 0 {
		heap.Remove(&ts.heap, t.index-1)
	}
}

// due removes and returns one timer whose deadline has passed, or nil.
func (ts *timers) due(nowMs int64) *Timer {
	for len(ts.heap) > 0 && ts.heap[0].queuedMs <= nowMs {
		t := ts.heap[0]
		if t.deadlineMs > nowMs {
			t.queuedMs = t.deadlineMs
			heap.Fix(&ts.heap, 0)
			continue
		}
		heap.Pop(&ts.heap)
		t.set = false
		return t
	}
	return nil
}

// nextMs is when to look again; ok is false when no timer waits.
func (ts *timers) nextMs() (atMs int64, ok bool) {
	if len(ts.heap) == 0 {
		return 0, false
	}
	return ts.heap[0].queuedMs, true
}

type timerHeap []*Timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].queuedMs < h[j].queuedMs }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	t := x.(*Timer)
	*h = append(*h, t)
	t.index = len(*h)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = 0
	return t
}
