package replica

import (
	"grete/coordinator"
	"grete/internal/clock"
	"grete/logstore"
	"grete/protocol/batch"
)

// StartVerification is asked before the transaction coordinator is whether this partition is in a producer's
// transaction (KIP-890). The guard goes with the write that follows; open means that the transaction is
// open here already and nobody needs to be asked.
func (p *Partition) StartVerification(producerID int64, epoch int16, baseSequence int32, epochBump bool) (guard uint64, open bool, err error) {
	s, err := p.check(NoEpoch, true)
	if err != nil {
		return 0, false, err
	}
	guard, open, err = s.log.StartVerification(producerID, epoch, baseSequence, epochBump)
	if err != nil {
		return 0, false, p.fail(logError(err))
	}
	return guard, open, nil
}

// DenyVerification tells the log that the coordinator has denied the transaction that guard stands for.
func (p *Partition) DenyVerification(producerID int64, epoch int16, guard uint64) {
	if s, err := p.check(NoEpoch, true); err == nil {
		s.log.DenyVerification(producerID, epoch, guard)
	}
}

// WriteMarker ends a producer's transaction here; done is called once, possibly at once, when that is committed or
// cannot be.
func (p *Partition) WriteMarker(m coordinator.Marker, done func(error)) {
	b, err := m.Batch(NoEpoch, clock.Millis(p.clock))
	if err != nil {
		done(err)
		return
	}
	a, err := p.appendMarker(b, NoEpoch, m.TransactionVersion)
	if err != nil {
		done(err)
		return
	}
	p.AwaitCommitted(a.LeaderEpoch, a.LastOffset+1, done)
}

func (p *Partition) appendMarker(b batch.Batch, epoch int32, transactionVersion int8) (Appended, error) {
	return p.append(b, epoch, true, logstore.AppendOptions{Coordinator: true, TransactionVersion: transactionVersion})
}

// ActiveProducers are the producers that the leader remembers.
func (p *Partition) ActiveProducers() ([]logstore.ProducerInfo, error) {
	s, err := p.check(NoEpoch, true)
	if err != nil {
		return nil, err
	}
	return s.log.ActiveProducers(), nil
}
