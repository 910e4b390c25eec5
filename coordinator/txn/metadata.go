package txn

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Partition is one that a transaction writes to.
type Partition struct {
	Topic string
	Index int32
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}

const (
	noProducerID = int64(-1)
	noEpoch      = int16(-1)
	// epochBumpVersion is the transaction.version from which each transaction ends with a new epoch (KIP-890 part 2).
	epochBumpVersion = 2
)

// metadata is what the log holds of a transactional id, and lastEpoch, which it does not (Kafka's TransactionMetadata).
// It is replaced, never changed: next makes the successor.
type metadata struct {
	producerID     int64
	prevProducerID int64 // before the last transition
	nextProducerID int64 // takes over when the transaction is complete; noProducerID when the id stays
	epoch          int16
	lastEpoch      int16 // with which the producer may repeat its last request; noEpoch after it was fenced
	timeoutMs      int32
	state          State
	partitions     []Partition // sorted
	startMs        int64       // -1 before the first transaction
	updateMs       int64
	clientVersion  int16 // transaction.version of the client that began or ended the last transaction
}

// newMetadata is a transactional id without a producer yet.
func newMetadata(producerID int64) metadata {
	return metadata{
		producerID: producerID, prevProducerID: noProducerID, nextProducerID: noProducerID,
		epoch: noEpoch, lastEpoch: noEpoch, startMs: -1,
	}
}

func (m *metadata) next(s State) metadata {
	n := *m
	n.state, n.prevProducerID = s, m.producerID
	return n
}

// epochExhausted: the last epoch is kept for fencing.
func epochExhausted(epoch int16) bool { return epoch >= math.MaxInt16-1 }

// bumpEpoch initialises the producer once more. A producer that names the epoch it has, or had before a bump whose
// answer it lost, goes on; any other is fenced (KIP-360).
func (m *metadata) bumpEpoch(expected *ProducerEpoch, timeoutMs int32, nowMs int64) (metadata, error) {
	n := m.next(Empty)
	switch {
	case epochExhausted(m.epoch):
		return n, kerr.UnknownServerError // as Kafka: the caller rotates the id where it may
	case expected == nil:
		n.epoch, n.lastEpoch = m.epoch+1, noEpoch
	case m.epoch == noEpoch || expected.Epoch == m.epoch:
		n.epoch, n.lastEpoch = m.epoch+1, m.epoch
	case expected.Epoch == m.lastEpoch: // it repeats a request that succeeded
	default:
		return n, kerr.ProducerFenced
	}
	return n.emptied(timeoutMs, nowMs), nil
}

// rotate gives the producer a new id when its epochs are used up.
func (m *metadata) rotate(newID int64, keepLastEpoch bool, timeoutMs int32, nowMs int64) metadata {
	n := m.next(Empty)
	n.producerID, n.epoch, n.lastEpoch = newID, 0, noEpoch
	if keepLastEpoch {
		n.lastEpoch = m.epoch
	}
	return n.emptied(timeoutMs, nowMs)
}

func (m metadata) emptied(timeoutMs int32, nowMs int64) metadata {
	m.timeoutMs, m.partitions, m.startMs, m.updateMs = timeoutMs, nil, -1, nowMs
	return m
}

func (m *metadata) add(partitions []Partition, clientVersion int16, nowMs int64) metadata {
	n := m.next(Ongoing)
	if m.state != Ongoing {
		n.startMs = nowMs
	}
	n.partitions = slices.Concat(m.partitions, partitions)
	slices.SortFunc(n.partitions, comparePartitions)
	n.partitions = slices.Compact(n.partitions)
	n.updateMs, n.clientVersion = nowMs, clientVersion
	return n
}

// prepare decides the outcome. From transaction.version 2 on the markers carry the next epoch already.
func (m *metadata) prepare(commit bool, clientVersion int16, nextID, nowMs int64) metadata {
	n := m.next(PrepareAbort)
	if commit {
		n.state = PrepareCommit
	}
	if clientVersion >= epochBumpVersion {
		n.lastEpoch = m.epoch
		if m.epoch < math.MaxInt16 {
			n.epoch = m.epoch + 1
		}
	}
	if m.state != Ongoing { // an abort of nothing
		n.startMs = nowMs
	}
	n.nextProducerID, n.updateMs, n.clientVersion = nextID, nowMs, clientVersion
	return n
}

// fence is prepare for an abort that the producer did not ask for: whatever it sends from now on has an old epoch.
func (m *metadata) fence(version int16, nextID, nowMs int64) metadata {
	if version >= epochBumpVersion {
		return m.prepare(false, version, nextID, nowMs)
	}
	n := m.prepare(false, 0, noProducerID, nowMs)
	n.lastEpoch = noEpoch
	if m.epoch < math.MaxInt16 {
		n.epoch = m.epoch + 1
	}
	return n
}

// complete follows the last marker.
func (m *metadata) complete(nowMs int64) metadata {
	n := m.next(CompleteAbort)
	if m.state == PrepareCommit {
		n.state = CompleteCommit
	}
	if m.clientVersion >= epochBumpVersion && m.nextProducerID != noProducerID {
		n.producerID, n.epoch = m.nextProducerID, 0
	}
	n.nextProducerID, n.partitions, n.updateMs = noProducerID, nil, nowMs
	return n
}

func (m *metadata) has(p Partition) bool {
	_, found := slices.BinarySearchFunc(m.partitions, p, comparePartitions)
	return found
}

func (m *metadata) hasAll(partitions []Partition) bool {
	return !slices.ContainsFunc(partitions, func(p Partition) bool { return !m.has(p) })
}
