package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/protocol/batch"
)

// check says whether a leader may append b, which nothing here has changed yet: nil; or dup, the remembered batch that
// b repeats; or an error that wraps a Kafka code (Kafka's ProducerAppendInfo).
func (p *producerState) check(b batch.Batch, o AppendOptions) (dup *batchMeta, err error) {
	if b.ProducerID() <= batch.NoProducerID {
		return nil, nil
	}
	e := p.producers[b.ProducerID()]
	if b.Control() {
		return nil, e.checkMarker(b, o.TransactionVersion)
	}
	sequenced := !o.Coordinator && b.BaseSequence() != batch.NoSequence
	if sequenced && e != nil {
		if dup := e.findDuplicate(b); dup != nil {
			return dup, nil
		}
	}
	if err := p.checkVerified(b, o); err != nil {
		return nil, err
	}
	return nil, p.checkData(e, b, sequenced)
}

// checkData checks epoch and sequence against what is known of the producer; one not known here, or no more, may start
// anywhere.
func (p *producerState) checkData(e *producerEntry, b batch.Batch, sequenced bool) error {
	if e != nil {
		if err := e.checkEpoch(b); err != nil {
			return err
		}
	}
	if sequenced {
		if err := p.checkFirst(b); err != nil {
			return err
		}
	}
	if e == nil {
		return nil
	}
	if sequenced {
		if err := e.checkSequence(b); err != nil {
			return err
		}
	}
	if e.txnFirstOffset >= 0 && !b.Transactional() {
		return fmt.Errorf("%w: producer %d has a transaction open since offset %d", kerr.InvalidTxnState, e.id, e.txnFirstOffset)
	}
	return nil
}

func (e *producerEntry) checkEpoch(b batch.Batch) error {
	return e.checkNotOlder(e.id, b.ProducerEpoch())
}

// checkNotOlder refuses an epoch below the one that was seen, if any was.
func (e *producerEntry) checkNotOlder(id int64, epoch int16) error {
	if e != nil && epoch < e.epoch {
		return fmt.Errorf("%w: producer %d sent epoch %d, epoch %d was seen", kerr.InvalidProducerEpoch, id, epoch, e.epoch)
	}
	return nil
}

// checkSequence holds a known producer to the sequence after its last, or to 0 in a new epoch.
func (e *producerEntry) checkSequence(b batch.Batch) error {
	first := b.BaseSequence()
	if e.epoch == noEpoch {
		return nil
	}
	last := batch.NoSequence
	if b.ProducerEpoch() == e.epoch {
		last = e.lastSeq()
	}
	if follows(last, first) {
		return nil
	}
	return fmt.Errorf("%w: producer %d epoch %d sent sequence %d after %d", kerr.OutOfOrderSequenceNumber,
		e.id, b.ProducerEpoch(), first, last)
}

func follows(last, next int32) bool {
	return int64(next) == int64(last)+1 || (next == 0 && last == math.MaxInt32)
}

// checkMarker also refuses a control batch that is no end marker: the leader writes no other for a producer.
func (e *producerEntry) checkMarker(b batch.Batch, transactionVersion int8) error {
	marker, err := parseEndMarker(b)
	if err != nil || e == nil {
		return err
	}
	if err := e.checkMarkerEpoch(b, transactionVersion); err != nil {
		return err
	}
	if marker.coordinatorEpoch < e.coordinatorEpoch {
		return fmt.Errorf("%w: marker for producer %d of coordinator epoch %d, epoch %d was seen", kerr.TransactionCoordinatorFenced,
			e.id, marker.coordinatorEpoch, e.coordinatorEpoch)
	}
	return nil
}

// endMarker is the control record that ends a transaction (Kafka's EndTransactionMarker and ControlRecordType).
type endMarker struct {
	commit           bool
	coordinatorEpoch int32
	timestampMs      int64
}

const (
	controlAbort  = 0
	controlCommit = 1

	controlKeyBytes = 4 // version, type
	endTxnBytes     = 6 // version, coordinator epoch
)

var errNoEndMarker = errors.New("control batch holds no transaction end marker")

func parseEndMarker(b batch.Batch) (endMarker, error) {
	for r, err := range b.Records() {
		if err != nil {
			return endMarker{}, err
		}
		if len(r.Key) < controlKeyBytes || len(r.Value) < endTxnBytes {
			break
		}
		kind := int16(binary.BigEndian.Uint16(r.Key[2:]))
		if kind != controlAbort && kind != controlCommit {
			break
		}
		return endMarker{kind == controlCommit, int32(binary.BigEndian.Uint32(r.Value[2:])), r.TimestampMs}, nil
	}
	return endMarker{}, fmt.Errorf("%w: %w", ErrCorrupt, errNoEndMarker)
}
