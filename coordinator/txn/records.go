package txn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// transactionLogType is the version of the only keys of __transaction_state.
	transactionLogType = 0
	// maxValueVersion is the newest value; its fields beyond version 0 are tagged.
	maxValueVersion = 1
)

var errMalformed = errors.New("txn: malformed record")

func recordKey(id string) []byte {
	k := kmsg.TxnMetadataKey{Version: transactionLogType, TransactionalID: id}
	return k.AppendTo(nil)
}

// valueVersion follows transaction.version (Kafka's transactionLogValueVersion).
func valueVersion(transactionVersion int16) int16 { return min(transactionVersion, maxValueVersion) }

// value encodes m. An Empty transaction has null partitions.
func (m *metadata) value(version int16) []byte {
	v := kmsg.TxnMetadataValue{
		Version: version, ProducerID: m.producerID, PreviousProducerID: m.prevProducerID, NextProducerID: m.nextProducerID,
		ProducerEpoch: m.epoch, NextProducerEpoch: noEpoch, TimeoutMillis: m.timeoutMs, State: kmsg.TransactionState(m.state),
		LastUpdateTimestamp: m.updateMs, StartTimestamp: m.startMs, ClientTransactionVersion: m.clientVersion,
	}
	if m.state != Empty {
		v.Topics = []kmsg.TxnMetadataValueTopic{}
	}
	for _, p := range m.partitions {
		if n := len(v.Topics); n == 0 || v.Topics[n-1].Topic != p.Topic {
			v.Topics = append(v.Topics, kmsg.TxnMetadataValueTopic{Topic: p.Topic})
		}
		t := &v.Topics[len(v.Topics)-1]
		t.Partitions = append(t.Partitions, p.Index)
	}
	return v.AppendTo(nil)
}

// readKey returns the transactional id; ok is false for keys of a later Kafka.
func readKey(key []byte) (id string, ok bool, err error) {
	if len(key) < 2 {
		return "", false, fmt.Errorf("%w: key of %d bytes", errMalformed, len(key))
	}
	if binary.BigEndian.Uint16(key) != transactionLogType {
		return "", false, nil
	}
	var k kmsg.TxnMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return "", false, fmt.Errorf("%w: key: %w", errMalformed, err)
	}
	return k.TransactionalID, true, nil
}

// readValue decodes a value; ok is false for versions of a later Kafka, which Kafka passes over too.
func readValue(value []byte) (m metadata, ok bool, err error) {
	if len(value) < 2 {
		return m, false, fmt.Errorf("%w: value of %d bytes", errMalformed, len(value))
	}
	if binary.BigEndian.Uint16(value) > maxValueVersion {
		return m, false, nil
	}
	v := kmsg.NewTxnMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return m, false, fmt.Errorf("%w: value: %w", errMalformed, err)
	}
	m = metadata{
		producerID: v.ProducerID, prevProducerID: v.PreviousProducerID, nextProducerID: v.NextProducerID,
		epoch: v.ProducerEpoch, lastEpoch: noEpoch, timeoutMs: v.TimeoutMillis, state: State(v.State),
		startMs: v.StartTimestamp, updateMs: v.LastUpdateTimestamp, clientVersion: v.ClientTransactionVersion,
	}
	if !m.state.known() {
		return m, false, fmt.Errorf("%w: state %d", errMalformed, v.State)
	}
	for _, t := range v.Topics {
		for _, p := range t.Partitions {
			m.partitions = append(m.partitions, Partition{t.Topic, p})
		}
	}
	slices.SortFunc(m.partitions, comparePartitions)
	return m, true, nil
}
