package logstore

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/protocol/batch"
)

// openGuard is the guard of a transaction that is open: it begins none.
const openGuard = 1

// maxVerifications bounds the producers of one log whose transactions are being verified; past it ErrBusy.
const maxVerifications = 10_000

// verification is a producer whose first write of a transaction waits for the coordinator's word that the partition is
// in the transaction (KIP-890, Kafka's VerificationStateEntry). An end marker, or a write, ends it: what comes later
// with the same guard is refused.
type verification struct {
	guard     uint64
	startMs   int64
	lowestSeq int32
	epoch     int16
	epochBump bool // the client is one of transaction.version 2
}

// AppendOptions are what a leader's append must know besides the batch.
type AppendOptions struct {
	// Coordinator: the batch is this broker's own; its sequence numbers mean nothing.
	Coordinator bool
	// Guard is StartVerification's: a transaction may begin here only with it. 0: none is asked for.
	Guard uint64
	// TransactionVersion of the client that an end marker is written for; from 2 on its epoch is above the transaction's.
	TransactionVersion int8
}

// StartVerification is asked before the coordinator is. The guard, never 0, goes with the append that follows; open means
// that the producer's transaction is open here already, at this epoch.
func (l *Log) StartVerification(producerID int64, epoch int16, baseSequence int32, epochBump bool) (guard uint64, open bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("verify"); err != nil {
		return 0, false, err
	}
	p := &l.producers
	e := p.producers[producerID]
	if err := e.checkNotOlder(producerID, epoch); err != nil {
		return 0, false, l.fault("verify", l.EndOffset(), err)
	}
	if e.inTransaction(epoch) {
		return openGuard, true, nil
	}
	if v := p.verifying[producerID]; v != nil {
		v.lower(baseSequence, epoch)
		return v.guard, false, nil
	}
	if len(p.verifying) >= maxVerifications {
		return 0, false, l.fault("verify", l.EndOffset(), ErrBusy)
	}
	if p.verifying == nil {
		p.verifying = map[int64]*verification{}
	}
	p.guards++
	p.verifying[producerID] = &verification{
		guard: openGuard + p.guards, startMs: l.nowMs(), lowestSeq: baseSequence, epoch: epoch, epochBump: epochBump,
	}
	return openGuard + p.guards, false, nil
}

// lower remembers the lowest sequence of the newest epoch: of pipelined batches only that one may begin.
func (v *verification) lower(sequence int32, epoch int16) {
	if epoch > v.epoch {
		v.epoch, v.lowestSeq = epoch, sequence
	} else if epoch == v.epoch && sequence < v.lowestSeq {
		v.lowestSeq = sequence
	}
}

func (e *producerEntry) inTransaction(epoch int16) bool {
	return e != nil && e.txnFirstOffset >= 0 && e.epoch == epoch
}

// verifyingNext says whether b is a marker that ends a transaction and raises the epoch (KIP-890), while the next one, of the new epoch, is being
// verified: that goes on. Late records of the one that ends are fenced by their epoch.
func (p *producerState) verifyingNext(b batch.Batch) bool {
	v, e := p.verifying[b.ProducerID()], p.producers[b.ProducerID()]
	return b.Control() && v != nil && e != nil && e.epoch < b.ProducerEpoch() && v.epoch >= b.ProducerEpoch()
}

// checkVerified refuses a batch that would begin a transaction nobody has found open.
func (p *producerState) checkVerified(b batch.Batch, o AppendOptions) error {
	if o.Guard == 0 || !b.Transactional() || p.producers[b.ProducerID()].inTransaction(b.ProducerEpoch()) {
		return nil
	}
	if err := p.producers[b.ProducerID()].checkNotOlder(b.ProducerID(), b.ProducerEpoch()); err != nil {
		return err
	}
	if v := p.verifying[b.ProducerID()]; v == nil || v.guard != o.Guard {
		return fmt.Errorf("%w: producer %d: record was not part of an ongoing transaction", kerr.InvalidTxnState, b.ProducerID())
	}
	return nil
}

// checkFirst holds the first batch of a verified transaction to its sequence: the lowest that was verified, and 0 where
// a client of transaction.version 2 is not known here.
func (p *producerState) checkFirst(b batch.Batch) error {
	v := p.verifying[b.ProducerID()]
	if v == nil {
		return nil
	}
	lowest := v.lowestSeq
	if e := p.producers[b.ProducerID()]; v.epochBump && (e == nil || e.batchCount == 0) {
		lowest = 0
	}
	if first := b.BaseSequence(); first > lowest {
		return fmt.Errorf("%w: producer %d sent sequence %d, %d was expected first", kerr.OutOfOrderSequenceNumber, b.ProducerID(), first, lowest)
	}
	return nil
}

// checkMarkerEpoch: a client of transaction.version 2 ends each transaction with an epoch above it; a marker that
// comes again is let pass.
func (e *producerEntry) checkMarkerEpoch(b batch.Batch, transactionVersion int8) error {
	if transactionVersion < 2 || b.ProducerEpoch() != e.epoch {
		return e.checkEpoch(b)
	}
	if e.txnFirstOffset < 0 || e.epoch == math.MaxInt16 {
		return nil
	}
	return fmt.Errorf("%w: marker of producer %d with epoch %d, which is the transaction's own", kerr.InvalidProducerEpoch, e.id, e.epoch)
}
