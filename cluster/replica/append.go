package replica

import (
	"sync"

	"grete/internal/clock"
	"grete/logstore"
	"grete/protocol/batch"
)

// Ack is what a producer asks for before it is answered.
type Ack int16

// Acks of the Produce request.
const (
	AckNone   Ack = 0
	AckLeader Ack = 1
	AckAll    Ack = -1
)

// Appended says where a producer's batch went, and how far the partition must come before it may be acknowledged.
type Appended struct {
	logstore.AppendInfo
	RecordCount int32
	LeaderEpoch int32 // under which it was appended
}

// ProduceRequest is one partition of a Produce request.
type ProduceRequest struct {
	Records        []byte // altered in place
	ProduceVersion int16
	Acks           Ack
	Guard          uint64 // of StartVerification, for a transactional batch; 0: it was not verified
}

// Produce validates a client's records under the topic's configuration and appends them as leader.
func (p *Partition) Produce(r ProduceRequest) (Appended, error) {
	a, err := p.produce(r)
	p.countProduce(len(r.Records), a, err)
	return a, err
}

func (p *Partition) produce(r ProduceRequest) (Appended, error) {
	if _, err := p.check(NoEpoch, true); err != nil { // cheaper than validation
		return Appended{}, err
	}
	valid, err := p.validate(r)
	if err != nil {
		return Appended{}, p.fail(err)
	}
	a, err := p.append(valid.Batch, NoEpoch, r.Acks == AckAll, logstore.AppendOptions{Guard: r.Guard})
	a.RecordCount = valid.RecordCount
	return a, err
}

var policies = sync.Pool{New: func() any { return &batch.Policy{} }}

func (p *Partition) validate(r ProduceRequest) (batch.Result, error) {
	policy := policies.Get().(*batch.Policy)
	defer policies.Put(policy)
	*policy = p.Config().Produce
	policy.Topic, policy.Partition = p.Topic, p.Index
	policy.Lend = p.lend
	policy.NowMs, policy.ProduceVersion = clock.Millis(p.clock), r.ProduceVersion
	return batch.Validate(r.Records, policy)
}

// Committed says whether the high watermark has passed a already, with enough replicas in sync.
func (p *Partition) Committed(a Appended) bool {
	s := p.state.Load()
	return s.stillLeads(p.nodeID, a.LeaderEpoch) && a.LastOffset < s.log.HighWatermark() && len(s.isr) >= s.minISR()
}

// AwaitAck calls done once, possibly at once, when a may be acknowledged as acks asks: after the flush that it was
// due for, and for AckAll once the high watermark has passed it.
func (p *Partition) AwaitAck(a Appended, acks Ack, done func(error)) AckCancel {
	switch {
	case acks == AckAll:
		return p.AwaitCommitted(a.LeaderEpoch, a.LastOffset+1, done)
	case a.FlushDue && acks == AckLeader:
		return p.await(&ackWait{epoch: a.LeaderEpoch, end: a.LastOffset + 1, durableOnly: true, done: done})
	}
	done(nil)
	return func() bool { return false }
}

// append writes a batch that needs no more validation, as leader at epoch (NoEpoch: the current one), moves the high
// watermark and wakes who waits. allReplicas refuses the write while too few replicas are in sync.
func (p *Partition) append(b batch.Batch, epoch int32, allReplicas bool, o logstore.AppendOptions) (Appended, error) {
	a, due, err := p.appendLocked(b, epoch, allReplicas, o)
	if err != nil {
		return Appended{}, err
	}
	p.startFlush(due)
	if !a.Duplicate {
		p.wake()
	}
	return a, nil
}

func (p *Partition) appendLocked(b batch.Batch, epoch int32, allReplicas bool, o logstore.AppendOptions) (a Appended, due *flush, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.check(epoch, true)
	if err != nil {
		return a, nil, err
	}
	if allReplicas && len(s.isr) < s.minISR() {
		return a, nil, p.fail(ErrNotEnoughReplicas)
	}
	info, err := s.log.AppendWith(b, s.leaderEpoch, o)
	if err != nil {
		return a, nil, p.fail(logError(err))
	}
	if info.FlushDue && !info.Duplicate {
		due = p.flushDue(s.log, info.BaseOffset, info.LastOffset+1)
	}
	p.advance(s)
	return Appended{AppendInfo: info, LeaderEpoch: s.leaderEpoch}, due, nil
}
