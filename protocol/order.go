package protocol

import "grete/internal/memory"

// result is how a request ended: with a response, without one (no head), or by closing the connection.
type result struct {
	head      *buffer // response header, or the whole response
	headBytes []byte
	parts     []Part
	release   func()
	abort     string
	sent      sentStats
	loan      memory.Loan
}

// memoryBytes is what the result holds until it is sent.
func (r *result) memoryBytes() int64 {
	n := int64(0)
	if r.head != nil {
		n = int64(len(r.head.b))
	}
	for i := range r.parts {
		n += int64(len(r.parts[i].Bytes))
	}
	return n
}

// drop lets go of a result that will not be sent.
func (r *result) drop() {
	r.head.put()
	if r.release != nil {
		r.release()
	}
	r.loan.Return()
}

// slot is a place in the order of responses.
type slot struct {
	ready  bool
	result result
}

// order holds the results of unanswered requests, or answered before an earlier one, by sequence number: a ring
// that grows to the number of requests in flight.
type order struct {
	ring       []slot // len is a power of two
	head, tail uint64 // slots [head, tail) are in use
}

func (o *order) len() int { return int(o.tail - o.head) }

func (o *order) at(seq uint64) *slot { return &o.ring[seq&uint64(len(o.ring)-1)] }

// push appends a waiting slot and returns its sequence number.
func (o *order) push() uint64 {
	if o.len() == len(o.ring) {
		grown := order{ring: make([]slot, max(2, 2*len(o.ring)))}
		for seq := o.head; seq < o.tail; seq++ {
			*grown.at(seq) = *o.at(seq)
		}
		o.ring = grown.ring
	}
	seq := o.tail
	*o.at(seq) = slot{}
	o.tail++
	return seq
}

// pop returns the first result if it is ready.
func (o *order) pop() (result, bool) {
	if o.len() == 0 || !o.at(o.head).ready {
		return result{}, false
	}
	s := o.at(o.head)
	res := s.result
	*s = slot{}
	o.head++
	return res, true
}

// outQueue is results to be sent, in order.
type outQueue struct {
	results   []result
	sizeBytes int // of memory, regions not counted
}

func (q *outQueue) push(r result) {
	q.results = append(q.results, r)
	q.sizeBytes += len(r.headBytes)
	for i := range r.parts {
		q.sizeBytes += len(r.parts[i].Bytes)
	}
}

// clear empties the queue after its results have been sent or are to be dropped.
func (q *outQueue) clear() {
	for i := range q.results {
		q.results[i].drop()
	}
	clear(q.results)
	q.results = q.results[:0]
	q.sizeBytes = 0
}
