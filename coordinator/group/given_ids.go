package group

import (
	"grete/coordinator"
	"grete/internal/memory"
)

// Bounds of the member ids that one shard has given out to members that have not joined with them yet. Past either the
// oldest is forgotten as if its time were up: a client that comes with it after all gets UNKNOWN_MEMBER_ID and asks for
// another.
const (
	maxPendingJoins     = 4096
	maxPendingJoinBytes = 1 << 20 // of ids, which begin with the client's own
)

// givenID is a member id that was given out; once its member has joined, or given up, it stands for nothing.
type givenID struct {
	g     *classicGroup
	id    string
	timer *coordinator.Timer
}

func (p givenID) pending() bool { return p.g.pendingJoin[p.id] == p.timer }

// givenIDs are the ids that a shard gave out last, the oldest first.
type givenIDs struct {
	queue     []givenID
	sizeBytes int
	lends     *memory.Account // of which the last one always has its place; nil: counted nowhere
}

// givenIDBytes is what is remembered of an id, beside itself.
const givenIDBytes = 400

func (p givenID) bytes() int64 { return givenIDBytes + int64(len(p.id)) }

func (q *givenIDs) full() bool {
	return len(q.queue) > maxPendingJoins || q.sizeBytes > maxPendingJoinBytes || len(q.queue) > 1 && !q.lends.Has(0)
}

func (q *givenIDs) push(p givenID) {
	q.queue, q.sizeBytes = append(q.queue, p), q.sizeBytes+len(p.id)
	q.lends.Change(p.bytes())
}

// clear forgets all.
func (q *givenIDs) clear() {
	for len(q.queue) > 0 {
		q.pop()
	}
}

func (q *givenIDs) pop() givenID {
	p := q.queue[0]
	q.queue[0] = givenID{}
	q.queue, q.sizeBytes = q.queue[1:], q.sizeBytes-len(p.id)
	q.lends.Change(-p.bytes())
	return p
}

// boundPending enters p and has the oldest forgotten beyond the bounds, each in its own group's turn.
func (s *shard) boundPending(tx *coordinator.Tx, p givenID) {
	s.given.push(p)
	for s.given.full() {
		if old := s.given.pop(); old.pending() {
			tx.Then(old.g.id, func(tx *coordinator.Tx) {
				if old.pending() {
					s.expirePending(tx, old.g, old.id)
				}
			})
		}
	}
}
