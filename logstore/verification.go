package logstore

import (
	"container/list"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/protocol/batch"
)

// openGuard is the guard of a transaction that is open: it begins none.
const openGuard = 1

// maxVerifications bounds the producers of one log whose transactions are being verified. One more makes the log forget
// the oldest, whose append is then refused with ErrVerificationForgotten.
const maxVerifications = 10_000

// ErrVerificationForgotten: newer verifications have taken the place of this one; the producer may try again.
var ErrVerificationForgotten = errors.New("too many transactions are being verified")

// verification is a producer whose first write of a transaction waits for the coordinator's word that the partition is
// in the transaction (KIP-890, Kafka's VerificationStateEntry). An end marker, or a write, ends it: what comes later
// with the same guard is refused.
type verification struct {
	producerID int64
	guard      uint64
	startMs    int64
	lowestSeq  int32
	epoch      int16
	epochBump  bool // the client is one of transaction.version 2
	denied     bool // by the coordinator: no guard fits, but the lowest sequence counts when the producer asks again
}

// verifications are the producers whose transactions are about to begin in a log.
type verifications struct {
	byProducer map[int64]*list.Element
	byAge      list.List // of *verification, the oldest first; guards rise with it
	denied     list.List // of *verification that was denied, the first denial first; these are forgotten first
	guards     uint64    // given out
	forgotten  uint64    // no guard up to this one was forgotten later
}

func (vs *verifications) of(producerID int64) *verification {
	if e := vs.byProducer[producerID]; e != nil {
		return e.Value.(*verification)
	}
	return nil
}

// begin gives v its guard.
func (vs *verifications) begin(v *verification) {
	if len(vs.byProducer) >= maxVerifications {
		vs.makeRoom()
	}
	if vs.byProducer == nil {
		vs.byProducer = map[int64]*list.Element{}
	}
	vs.guards++
	v.guard = openGuard + vs.guards
	vs.byProducer[v.producerID] = vs.byAge.PushBack(v)
}

func (vs *verifications) makeRoom() {
	if e := vs.denied.Front(); e != nil {
		vs.end(e.Value.(*verification).producerID)
		return
	}
	oldest := vs.byAge.Front().Value.(*verification)
	vs.forgotten = oldest.guard
	vs.end(oldest.producerID)
}

func (vs *verifications) listOf(v *verification) *list.List {
	if v.denied {
		return &vs.denied
	}
	return &vs.byAge
}

func (vs *verifications) end(producerID int64) {
	if e := vs.byProducer[producerID]; e != nil {
		vs.listOf(e.Value.(*verification)).Remove(e)
		delete(vs.byProducer, producerID)
	}
}

func (vs *verifications) deny(v *verification) {
	vs.end(v.producerID)
	v.denied, v.guard = true, 0
	vs.byProducer[v.producerID] = vs.denied.PushBack(v)
}

// expire ends those that began at beforeMs or earlier.
func (vs *verifications) expire(beforeMs int64) {
	for _, l := range []*list.List{&vs.byAge, &vs.denied} {
		for e := l.Front(); e != nil && e.Value.(*verification).startMs <= beforeMs; e = l.Front() {
			vs.end(e.Value.(*verification).producerID)
		}
	}
}

// AppendOptions are what a leader's append must know besides the batch.
type AppendOptions struct {
	// Coordinator: the batch is this broker's own; its sequence numbers mean nothing.
	Coordinator bool
	// Guard is StartVerification's: a transaction may begin here only with it. 0: none is asked for.
	Guard uint64
	// TransactionVersion of the client that an end marker is written for; from 2 on its epoch is above the
	// transaction's.
	TransactionVersion int8
}

// StartVerification is asked before the coordinator is. The guard, never 0, goes with the append that follows; open
// means that the producer's transaction is open here already, at this epoch.
func (l *Log) StartVerification(producerID int64, epoch int16, baseSequence int32, epochBump bool) (guard uint64, open bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable("verify"); err != nil {
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
	v := p.verifying.of(producerID)
	switch {
	case v == nil:
		v = &verification{producerID: producerID, startMs: l.nowMs(), lowestSeq: baseSequence, epoch: epoch, epochBump: epochBump}
		p.verifying.begin(v)
	case v.denied:
		p.verifying.end(producerID)
		v.denied = false
		p.verifying.begin(v)
	}
	v.lower(baseSequence, epoch)
	return v.guard, false, nil
}

// DenyVerification ends a verification of the producer at epoch: the coordinator has denied the transaction. A newer
// epoch of the producer, which may be under verification meanwhile, goes on. What was denied is the first to be
// forgotten when there are too many; until then its lowest sequence counts, as in Kafka, which keeps it.
func (l *Log) DenyVerification(producerID int64, epoch int16, guard uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.producers.verifying.of(producerID); v != nil && v.guard == guard && v.epoch == epoch {
		l.producers.verifying.deny(v)
	}
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

// verifyingNext says whether b is the marker of the transaction before the one that is being verified, which goes on.
// Either b ends that transaction and raises the epoch (KIP-890), or it has come again, from a coordinator that has
// taken over: no transaction of a client of transaction.version 2 ends with a marker of its own epoch, but for the last
// epoch there is. Late records of the one before are fenced by their epoch.
func (p *producerState) verifyingNext(b batch.Batch) bool {
	v, e := p.verifying.of(b.ProducerID()), p.producers[b.ProducerID()]
	if !b.Control() || v == nil || v.epoch < b.ProducerEpoch() {
		return false
	}
	if e != nil && e.epoch < b.ProducerEpoch() {
		return true
	}
	open := e != nil && e.txnFirstOffset >= 0
	return v.epochBump && !open && b.ProducerEpoch() < math.MaxInt16
}

// checkVerified refuses a batch that would begin a transaction nobody has found open.
func (p *producerState) checkVerified(b batch.Batch, o AppendOptions) error {
	if o.Guard == 0 || !b.Transactional() || p.producers[b.ProducerID()].inTransaction(b.ProducerEpoch()) {
		return nil
	}
	if err := p.producers[b.ProducerID()].checkNotOlder(b.ProducerID(), b.ProducerEpoch()); err != nil {
		return err
	}
	switch v := p.verifying.of(b.ProducerID()); {
	case v != nil && v.guard == o.Guard:
		return nil
	case v == nil && o.Guard > openGuard && o.Guard <= p.verifying.forgotten:
		return ErrVerificationForgotten
	default:
		return fmt.Errorf("%w: producer %d: record was not part of an ongoing transaction", kerr.InvalidTxnState, b.ProducerID())
	}
}

// checkFirst holds the first batch of a verified transaction to its sequence: the lowest that was verified, and 0 where
// a client of transaction.version 2 is not known here.
func (p *producerState) checkFirst(b batch.Batch) error {
	v := p.verifying.of(b.ProducerID())
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
