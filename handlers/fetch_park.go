package handlers

import (
	"context"
	"time"

	"grete/cluster/replica"
)

// parkedFetch waits on all partitions of a fetch until enough bytes came, one failed, or time is up. Nothing runs
// meanwhile: partitions call when they change, the clock when time is up.
type parkedFetch struct {
	*fetch
	watches []replica.Watch

	parked
	sizes []int   // bytes that each partition has to send
	seen  []int64 // visible end that each size was found at
	total int
}

// park keeps the sizes of what the first read found, releases it, and waits.
func (f *fetch) park(answers []fetchAnswer) {
	p := &parkedFetch{
		fetch: f, watches: make([]replica.Watch, len(f.parts)),
		sizes: make([]int, len(answers)), seen: make([]int64, len(answers)),
	}
	for i := range answers {
		p.note(i, &answers[i])
		answers[i].release()
	}
	f.r.ReleaseResponse() // nobody knows for how long
	// Held to the end, so that a finish finds all watches set.
	p.mu.Lock()
	p.timer = f.b.Clock.AfterFunc(time.Duration(f.maxWaitMs)*time.Millisecond, p.finish)
	p.stop = context.AfterFunc(f.r.Conn.Context(), p.finish)
	for i, part := range f.parts {
		part.Watch(&p.watches[i], p, i)
	}
	p.mu.Unlock()
	for i := range f.parts { // what changed before its watch was set
		p.PartitionChanged(i)
	}
}

func (p *parkedFetch) note(i int, a *fetchAnswer) {
	p.total += a.sizeBytes() - p.sizes[i]
	p.sizes[i], p.seen[i] = a.sizeBytes(), p.seenEnd(a)
}

// PartitionChanged looks at one partition again.
func (p *parkedFetch) PartitionChanged(i int) {
	p.mu.Lock()
	ready := !p.done && p.ready(i)
	p.mu.Unlock()
	if ready {
		p.finish()
	}
}

// ready re-reads partition i if that finds something else than before.
func (p *parkedFetch) ready(i int) bool {
	if p.b.Replicas.Draining() {
		return true
	}
	if !p.parts[i].Stale(p.request(i), p.seen[i]) {
		return false
	}
	a := p.readOne(i, p.maxBytes, true)
	defer a.release()
	if a.ends() {
		return true
	}
	p.note(i, &a)
	return p.total >= p.minBytes
}

// seenEnd is the visible end at which a was read.
func (f *fetch) seenEnd(a *fetchAnswer) int64 {
	switch f.isolation {
	case replica.ReadCommitted:
		return a.lastStableOffset
	case replica.ReadLogEnd:
		return a.logEndOffset
	}
	return a.highWatermark
}

// finish answers with what there is; whoever comes first.
func (p *parkedFetch) finish() {
	if !p.end() {
		return
	}
	for i := range p.watches {
		p.watches[i].Unwatch()
	}
	p.respond(p.read())
}
