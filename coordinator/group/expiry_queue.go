package group

import (
	"container/heap"
	"math"
	"strings"
)

// never is when nothing of a group expires unless the group changes.
const never = math.MaxInt64

// expiryQueue orders the groups that something may expire of by the earliest time at which it may. The zero queue is
// empty.
type expiryQueue struct {
	heap expiryHeap
	byID map[string]*expiryEntry
}

type expiryEntry struct {
	id    string
	atMs  int64
	index int
}

// at has the group looked at from atMs on, or from earlier if that was set already. The id is copied when it is kept.
func (q *expiryQueue) at(id string, atMs int64) {
	switch e := q.byID[id]; {
	case atMs == never:
	case e == nil:
		if q.byID == nil {
			q.byID = make(map[string]*expiryEntry)
		}
		e = &expiryEntry{id: strings.Clone(id), atMs: atMs}
		q.byID[e.id] = e
		heap.Push(&q.heap, e)
	case atMs < e.atMs:
		e.atMs = atMs
		heap.Fix(&q.heap, e.index)
	}
}

func (q *expiryQueue) remove(id string) {
	if e := q.byID[id]; e != nil {
		delete(q.byID, id)
		heap.Remove(&q.heap, e.index)
	}
}

// next takes out a group that was to be looked at until then; false when there is none.
func (q *expiryQueue) next(untilMs int64) (id string, ok bool) {
	if len(q.heap) == 0 || q.heap[0].atMs > untilMs {
		return "", false
	}
	e := heap.Pop(&q.heap).(*expiryEntry)
	delete(q.byID, e.id)
	return e.id, true
}

type expiryHeap []*expiryEntry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].atMs < h[j].atMs }
func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *expiryHeap) Push(x any) {
	e := x.(*expiryEntry)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
