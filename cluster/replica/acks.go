package replica

import "math"

// AckCancel ends a wait; it reports whether the wait was still on, so that its callback is never called.
type AckCancel func() bool

// AwaitCommitted calls done once, possibly at once: with nil when the high watermark has reached end, or with the
// error that makes it impossible for this broker to tell. epoch is the leader epoch under which end was written: once
// this broker has ceased to lead since, the records below end may be others.
func (p *Partition) AwaitCommitted(epoch int32, end int64, done func(error)) AckCancel {
	return p.await(&ackWait{epoch: epoch, end: end, done: done})
}

func (p *Partition) await(a *ackWait) AckCancel {
	p.wait.addAck(a)
	if s := p.state.Load(); !s.stillLeads(p.nodeID, a.epoch) {
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
		if !s.stillLeads(p.nodeID, a.epoch) {
			return false // await answers it: what is below end now may be another leader's
		}
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
