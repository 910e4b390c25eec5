package raftlog

import (
	"cmp"
	"fmt"
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"grete/logstore"
	"grete/protocol/batch"
)

// Log is what Raft needs of the partition log that it lives on; *logstore.Log satisfies it.
type Log interface {
	StartOffset() int64
	EndOffset() int64
	SetHighWatermark(offset int64)
	Append(b batch.Batch, epoch int32) (logstore.AppendInfo, error)
	FlushAsync(offset int64, done func(error))
	Read(offset int64, o logstore.ReadOptions) (*logstore.Span, error)
	EpochAt(offset int64) int32
	TruncateTo(offset int64) error
	AdvanceStart(offset int64) error
	RestartAt(offset int64) error
}

// readChunkBytes bounds one read of the log; a batch larger than it is read whole.
const readChunkBytes = 1 << 20

// storage is raft.Storage over the log, whose entry at index i is the one that covers offset i-1. Only the node's
// goroutine uses it.
type storage struct {
	log  Log
	base snapshotID // the log's entries up to base.end are gone or not to be relied on
	hard *raftpb.HardState
	conf *raftpb.ConfState // the newest that is known at the start
	// snapshot reads the newest snapshot for a follower that needs what base has swallowed.
	snapshot func() (*raftpb.Snapshot, error)
	// patiently repeats a read that lacks descriptors until it has them; nil: it is not repeated.
	patiently func(read func() error) error
	// failure is the first read that went wrong, other than by a range that is not there: Raft panics on it.
	failure error
}

var _ raft.Storage = (*storage)(nil)

func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return s.hard, s.conf, nil
}

func (s *storage) FirstIndex() (uint64, error)         { return uint64(s.base.end) + 1, nil }
func (s *storage) LastIndex() (uint64, error)          { return uint64(s.log.EndOffset()), nil }
func (s *storage) Snapshot() (*raftpb.Snapshot, error) { return s.snapshot() }

func (s *storage) Term(index uint64) (uint64, error) {
	switch {
	case index < uint64(s.base.end):
		return 0, raft.ErrCompacted
	case index == uint64(s.base.end):
		return uint64(s.base.epoch), nil
	case index > uint64(s.log.EndOffset()):
		return 0, raft.ErrUnavailable
	}
	epoch := s.log.EpochAt(int64(index) - 1)
	if epoch < 0 {
		return 0, s.fail(fmt.Errorf("%w: no epoch at offset %d", ErrDamaged, index-1))
	}
	return uint64(epoch), nil
}

func (s *storage) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	if lo <= uint64(s.base.end) {
		return nil, raft.ErrCompacted
	}
	if hi > uint64(s.log.EndOffset())+1 {
		return nil, raft.ErrUnavailable
	}
	var entries []*raftpb.Entry
	var size uint64
	for next := lo; next < hi && (size < maxSize || len(entries) == 0); {
		more, err := s.chunkPatiently(next, maxSize-size)
		if err != nil {
			return nil, s.fail(err)
		}
		for _, e := range more {
			entries = append(entries, e)
			size += entrySize(e)
		}
		next = entries[len(entries)-1].GetIndex() + 1
	}
	return cut(entries, hi, maxSize), nil
}

func (s *storage) fail(err error) error {
	s.failure = cmp.Or(s.failure, err)
	return err
}

// entrySize is about what an entry takes in a message; an empty one is not nothing.
func entrySize(e *raftpb.Entry) uint64 { return uint64(len(e.Data)) + 16 }

// cut drops what lies at and above hi, and what exceeds maxSize but for the first entry.
func cut(entries []*raftpb.Entry, hi, maxSize uint64) []*raftpb.Entry {
	var size uint64
	for i, e := range entries {
		size += entrySize(e)
		if e.GetIndex() >= hi || i > 0 && size > maxSize {
			return entries[:i:i]
		}
	}
	return entries
}

func (s *storage) chunkPatiently(index, maxBytes uint64) (entries []*raftpb.Entry, err error) {
	read := func() error {
		entries, err = s.chunk(index, maxBytes)
		return err
	}
	if s.patiently == nil {
		err = read()
	} else {
		err = s.patiently(read)
	}
	return entries, err
}

// chunk reads the entries from index that one read of the log gives.
func (s *storage) chunk(index, maxBytes uint64) ([]*raftpb.Entry, error) {
	raw, err := readBatches(s.log, int64(index)-1, int(min(maxBytes, readChunkBytes)), math.MaxInt64)
	if err != nil {
		return nil, err
	}
	var entries []*raftpb.Entry
	for len(raw) > 0 {
		b, rest, err := batch.Next(raw)
		if err != nil {
			break // cut by the size limit
		}
		of, err := entriesOf(b, uint64(b.BaseOffset())+1, uint64(b.PartitionLeaderEpoch()))
		if err != nil {
			return nil, err
		}
		if skip := int64(index) - 1 - b.BaseOffset(); skip > 0 {
			of = of[min(skip, int64(len(of))):]
		}
		entries, raw = append(entries, of...), rest
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%w: no batch at offset %d", ErrDamaged, index-1)
	}
	return entries, nil
}

// readBatches copies batches from the one that holds offset up to bound, at least one whole.
func readBatches(log Log, offset int64, maxBytes int, bound int64) ([]byte, error) {
	span, err := log.Read(offset, logstore.ReadOptions{
		MaxBytes: maxBytes, Bound: min(bound, log.EndOffset()), MinOneBatch: true,
	})
	if err != nil {
		return nil, err
	}
	defer span.Release()
	return span.ReadAll()
}

// append writes entries, which begin with a batch and end with one, after cutting what they conflict with.
func (s *storage) append(entries []*raftpb.Entry) error {
	if first := int64(entries[0].GetIndex()) - 1; first < s.log.EndOffset() {
		if err := s.log.TruncateTo(first); err != nil {
			return err
		}
	}
	for len(entries) > 0 {
		head, n := entries[0], entryCount(entries[0])
		if end := s.log.EndOffset(); n > len(entries) || int64(head.GetIndex()) != end+1 {
			return fmt.Errorf("%w: %d entries from %d do not make a batch at %d", errNoBatch, len(entries), head.GetIndex(), end)
		}
		b, err := batchOf(head)
		if err != nil {
			return err
		}
		if _, err := s.log.Append(b, int32(head.GetTerm())); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}
