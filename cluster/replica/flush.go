package replica

import (
	"math"

	"grete/logstore"
)

// flushState follows flush.messages: from the first append that is due for a flush until it is durable, neither the
// high watermark nor acknowledgements pass it. Guarded by Partition.mu.
type flushState struct {
	running bool
	floor   int64 // base offset of the first due append; everything below is as good as durable
	due     int64 // end of the last due append
}

// flushDue notes an append that must be durable before it counts, and reports whether the caller has to start the
// flush, after unlocking. While one runs, further appends gather for the next: a group commit.
func (p *Partition) flushDue(base, end int64) (start bool) {
	p.flush.due = end
	if p.flush.running {
		return false
	}
	p.flush.running, p.flush.floor = true, base
	return true
}

// durableEnd is the end of what may be acknowledged; p.mu is held.
func (p *Partition) durableEnd(log *logstore.Log) int64 {
	end := log.EndOffset()
	if p.flush.running {
		end = min(end, p.flush.floor)
	}
	return end
}

func (p *Partition) startFlush(log *logstore.Log, end int64) {
	log.FlushAsync(end, func(err error) { p.flushed(log, err) })
}

// flushed ends one flush: what it covered is released, and what gathered meanwhile is flushed next.
func (p *Partition) flushed(log *logstore.Log, err error) {
	if err != nil {
		p.mu.Lock()
		p.flush.floor = min(p.flush.floor, log.DurableOffset())
		p.mu.Unlock()
		p.markOffline(offlineError(err))
		return
	}
	p.mu.Lock()
	durable, due := log.DurableOffset(), p.flush.due
	again := durable < due
	if again {
		p.flush.floor = max(p.flush.floor, durable)
	} else {
		p.flush = flushState{}
	}
	p.advance(p.state.Load())
	p.mu.Unlock()
	p.wake()
	if again {
		p.startFlush(log, due)
	}
}

// AckCancel ends a wait; it reports whether the wait was still on, so that its callback is never called.
type AckCancel func() bool

// AwaitCommitted calls done once, possibly at once: with nil when the high watermark has reached end, or with the
// error that makes it impossible for this broker to tell.
func (p *Partition) AwaitCommitted(end int64, done func(error)) AckCancel {
	return p.await(&ackWait{end: end, done: done})
}

func (p *Partition) await(a *ackWait) AckCancel {
	p.wait.addAck(a)
	if s := p.state.Load(); !s.leads(p.nodeID) {
		if p.wait.removeAck(a) {
			a.done(p.lostLeadership(s))
		}
	} else {
		p.releaseAcks()
	}
	return func() bool { return p.wait.removeAck(a) }
}

func (p *Partition) lostLeadership(s *state) error {
	if s.offline != nil {
		return p.fail(s.offline)
	}
	return p.fail(ErrNotLeader)
}

// releaseAcks answers every wait that the high watermark or the flushed end has passed.
func (p *Partition) releaseAcks() {
	if !p.wait.hasAcks() {
		return
	}
	p.mu.Lock()
	s := p.state.Load()
	durable, committed := int64(math.MinInt64), int64(math.MinInt64)
	if s.leads(p.nodeID) {
		durable, committed = p.durableEnd(s.log), s.log.HighWatermark()
	}
	p.mu.Unlock()
	ready := p.wait.takeAcks(func(a *ackWait) bool {
		return a.end <= committed || a.durableOnly && a.end <= durable
	})
	for _, a := range ready {
		a.done(p.ackResult(s, a))
	}
}

// ackResult is nil, or the complaint that an acks=all write was done with too few replicas left.
func (p *Partition) ackResult(s *state, a *ackWait) error {
	if !a.durableOnly && len(s.isr) < s.minISR() {
		return p.fail(ErrNotEnoughReplicasAfterWrite)
	}
	return nil
}

func (p *Partition) failAcks(err error) {
	for _, a := range p.wait.takeAcks(func(*ackWait) bool { return true }) {
		a.done(err)
	}
}
