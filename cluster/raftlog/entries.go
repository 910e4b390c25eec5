package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3/raftpb"

	"grete/protocol/batch"
)

// A batch of n records at offset o is n Raft entries, o+1 to o+n: the first carries the batch, the others nothing. So
// index = offset + 1 holds, and batches are as large as Kafka's. Three kinds of entry lead a batch:
//
//	Raft                      log
//	normal, with data         the data: a batch of metadata records, or a leader's LeaderChangeMessage
//	normal, without data      a control batch of one record of type electedType
//	configuration change      a control batch of one record of type confChangeType
//
// A batch is never split: proposals append it whole, and whole() completes what a message cut. Hence every
// node's log, commit index and snapshot end where a batch ends. What a batch holds depends on its entry alone, so that
// every node's log has the same bytes.

// Types of control records, beside Kafka's own 0 to 6, that only we write. Kafka's tools print them by number.
const (
	confChangeType = int16(1000) // value: raftpb.ConfChangeV2
	confStateType  = int16(1001) // value: raftpb.ConfState, in snapshots
	electedType    = int16(1002) // no value: Raft's first entry of a term
	membersType    = int16(1003) // value: Members, in snapshots
)

// Control records of Kafka (ControlRecordType).
const (
	leaderChangeType   = int16(2)
	snapshotHeaderType = int16(3)
	snapshotFooterType = int16(4)
)

var errNoBatch = errors.New("bytes in the metadata log are not a batch of it")

// entriesOf makes the entries of b, the first at index.
func entriesOf(b batch.Batch, index, term uint64) ([]*raftpb.Entry, error) {
	first := &raftpb.Entry{Term: &term, Index: &index, Type: raftpb.EntryNormal.Enum()}
	if !b.Control() {
		first.Data = b
		return append([]*raftpb.Entry{first}, fillers(index+1, term, int(b.LastOffsetDelta()))...), nil
	}
	kind, value, err := controlRecord(b)
	if err != nil {
		return nil, err
	}
	switch kind {
	case confChangeType:
		first.Type, first.Data = raftpb.EntryConfChangeV2.Enum(), value
	case leaderChangeType:
		first.Data = b
	}
	return []*raftpb.Entry{first}, nil
}

// fillers are the n entries of a batch after its first.
func fillers(index, term uint64, n int) []*raftpb.Entry {
	entries := make([]*raftpb.Entry, n)
	for i := range entries {
		at := index + uint64(i)
		entries[i] = &raftpb.Entry{Term: &term, Index: &at, Type: raftpb.EntryNormal.Enum()}
	}
	return entries
}

// entryCount is how many entries the batch takes that e leads.
func entryCount(e *raftpb.Entry) int {
	if e.GetType() == raftpb.EntryNormal && len(e.Data) > 0 {
		return int(batch.Batch(e.Data).LastOffsetDelta()) + 1
	}
	return 1
}

// batchOf is what the log stores for an entry that leads a batch.
func batchOf(e *raftpb.Entry) (batch.Batch, error) {
	switch {
	case e.GetType() == raftpb.EntryConfChangeV2:
		return controlBatch(batch.NoTimestamp, control{confChangeType, e.Data})
	case e.GetType() != raftpb.EntryNormal:
		return nil, fmt.Errorf("%w: entry type %v", errNoBatch, e.GetType())
	case len(e.Data) == 0:
		return controlBatch(batch.NoTimestamp, control{electedType, nil})
	}
	b, rest, err := batch.Next(e.Data)
	if err != nil || len(rest) > 0 || !b.ChecksumOK() {
		return nil, fmt.Errorf("%w: entry %d", errNoBatch, e.GetIndex())
	}
	return b, nil
}

func leaderChange(leader int32, voters Members) []byte {
	m := kmsg.NewLeaderChangeMessage()
	m.LeaderID = leader
	for _, voter := range voters {
		v := kmsg.NewLeaderChangeMessageVoter()
		v.VoterID = voter.NodeID
		m.Voters = append(m.Voters, v)
	}
	return m.AppendTo(nil)
}

// control is a control record.
type control struct {
	kind  int16
	value []byte
}

func controlBatch(nowMs int64, records ...control) (batch.Batch, error) {
	var built []batch.Record
	for i, r := range records {
		key := kbin.AppendInt16(kbin.AppendInt16(nil, 0), r.kind)
		built = append(built, batch.Record{Offset: int64(i), TimestampMs: nowMs, Key: key, Value: r.value})
	}
	return batch.Build(batch.BuildOptions{
		ProducerID: batch.NoProducerID, ProducerEpoch: -1, BaseSequence: batch.NoSequence, Control: true,
	}, built)
}

// controlRecord reads the first record of a control batch; its value is a copy.
func controlRecord(b batch.Batch) (kind int16, value []byte, err error) {
	for r, err := range b.Records() {
		if err != nil || len(r.Key) != 4 {
			break
		}
		return int16(binary.BigEndian.Uint16(r.Key[2:])), append([]byte{}, r.Value...), nil
	}
	return 0, nil, fmt.Errorf("%w: control batch at %d", errNoBatch, b.BaseOffset())
}

// whole completes the entries of a MsgApp when the message's size limit has cut them within a batch. The
// missing ones carry nothing and are known to exist: their leader appended them together with the first.
func whole(m *raftpb.Message) error {
	if m.GetType() != raftpb.MsgApp || len(m.Entries) == 0 {
		return nil
	}
	last := m.Entries[len(m.Entries)-1]
	for i := len(m.Entries) - 1; i >= 0; i-- {
		first := m.Entries[i]
		if first.GetType() != raftpb.EntryNormal || len(first.Data) == 0 {
			continue
		}
		if len(first.Data) < batch.HeaderSize {
			return fmt.Errorf("%w: entry %d", errNoBatch, first.GetIndex())
		}
		end := first.GetIndex() + uint64(entryCount(first)) - 1
		if end > last.GetIndex() {
			missing := fillers(last.GetIndex()+1, first.GetTerm(), int(end-last.GetIndex()))
			m.Entries = append(m.Entries, missing...)
		}
		return nil
	}
	return nil
}
