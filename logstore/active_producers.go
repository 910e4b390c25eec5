package logstore

import (
	"cmp"
	"slices"
)

// ProducerInfo is what DescribeProducers tells of a producer.
type ProducerInfo struct {
	ID               int64
	Epoch            int16
	LastSequence     int32 // -1 when nothing is remembered
	LastTimestampMs  int64
	CoordinatorEpoch int32 // of its last end marker, -1 when there was none
	TxnFirstOffset   int64 // -1 without an open transaction
}

// ActiveProducers are the producers that the log remembers, by id.
func (l *Log) ActiveProducers() []ProducerInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]ProducerInfo, 0, len(l.producers.producers))
	for _, e := range l.producers.producers {
		out = append(out, ProducerInfo{
			ID: e.id, Epoch: e.epoch, LastSequence: e.lastSeq(), LastTimestampMs: e.lastTimestampMs,
			CoordinatorEpoch: e.coordinatorEpoch, TxnFirstOffset: e.txnFirstOffset,
		})
	}
	slices.SortFunc(out, func(a, b ProducerInfo) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
