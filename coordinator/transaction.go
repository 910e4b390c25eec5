package coordinator

import (
	"encoding/binary"

	"grete/protocol/batch"
)

// Producer is whose transaction an operation's records belong to.
type Producer struct {
	ID    int64
	Epoch int16
	Guard uint64 // the log's proof that the transaction was found open (KIP-890); 0: none is asked for
}

// Marker ends a producer's transaction on a partition.
type Marker struct {
	Producer
	CoordinatorEpoch int32
	Commit           bool
	// TransactionVersion is that of the client (transaction.version): from 2 on the epoch must be above the
	// transaction's own (KIP-890, KIP-1228).
	TransactionVersion int8
}

// The types of control records that end transactions (Kafka's ControlRecordType); others mean nothing here.
const (
	abortMarker  = 0
	commitMarker = 1
)

// Versions of a marker's key and value that Kafka writes (ControlRecordType, EndTransactionMarker).
const (
	controlKeyVersion = 0
	endMarkerVersion  = 0
)

// Batch builds the control batch of a marker written at nowMs.
func (m Marker) Batch(leaderEpoch int32, nowMs int64) (batch.Batch, error) {
	kind := uint16(abortMarker)
	if m.Commit {
		kind = commitMarker
	}
	key := binary.BigEndian.AppendUint16(nil, controlKeyVersion)
	key = binary.BigEndian.AppendUint16(key, kind)
	value := binary.BigEndian.AppendUint16(nil, endMarkerVersion)
	value = binary.BigEndian.AppendUint32(value, uint32(m.CoordinatorEpoch))
	return batch.Build(batch.BuildOptions{
		LeaderEpoch: leaderEpoch, ProducerID: m.ID, ProducerEpoch: m.Epoch, BaseSequence: batch.NoSequence,
		Transactional: true, Control: true,
	}, []batch.Record{{TimestampMs: nowMs, Key: key, Value: value}})
}

// InTransaction makes the operation's records part of p's transaction: they count once its commit marker is there.
func (tx *Tx) InTransaction(p Producer) { tx.producer = &p }

// EndTransaction appends a marker, and nothing else may be appended by this operation.
func (tx *Tx) EndTransaction(m Marker) { tx.marker = &m }

// alone tells whether the operation's records need a batch of their own.
func (tx *Tx) alone() bool { return tx.producer != nil || tx.marker != nil }

func (tx *Tx) producerID() int64 {
	if tx.producer != nil {
		return tx.producer.ID
	}
	return batch.NoProducerID
}

// appendAlone appends what tx decided, which is the only thing pending.
func (s *shard[M]) appendAlone(tx *Tx, records []batch.Record) (end int64, err error) {
	if m := tx.marker; m != nil {
		b, err := m.Batch(s.epoch, s.nowMs)
		if err != nil {
			return 0, err
		}
		return s.log.AppendMarker(s.epoch, b, m.TransactionVersion)
	}
	b, err := s.build(records, tx.producer)
	if err != nil {
		return 0, err
	}
	return s.log.AppendGuarded(s.epoch, b, tx.producer.Guard)
}
