package raftlog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"grete/internal/vfs"
	"grete/protocol/batch"
)

// snapshotID is Kafka's OffsetAndEpoch: the snapshot covers the offsets below end, the last of which has epoch.
type snapshotID struct {
	end   int64
	epoch int32
}

const (
	snapshotSuffix     = ".checkpoint"
	partSuffix         = ".part"
	snapshotBatchBytes = 64 << 10 // records are gathered up to this size
)

func (id snapshotID) fileName() string {
	return fmt.Sprintf("%020d-%010d%s", id.end, id.epoch, snapshotSuffix)
}

func parseSnapshotName(name string) (snapshotID, bool) {
	digits, ok := strings.CutSuffix(name, snapshotSuffix)
	if !ok || len(digits) != 31 || digits[20] != '-' {
		return snapshotID{}, false
	}
	end, err1 := strconv.ParseInt(digits[:20], 10, 64)
	epoch, err2 := strconv.ParseInt(digits[21:], 10, 32)
	id := snapshotID{end, int32(epoch)}
	return id, err1 == nil && err2 == nil && id.fileName() == name
}

// listSnapshots returns the snapshots of dir, oldest first.
func listSnapshots(fsys vfs.FS, dir string) ([]snapshotID, error) {
	names, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []snapshotID
	for _, e := range names {
		if id, ok := parseSnapshotName(e.Name()); ok {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b snapshotID) int { return cmp.Compare(a.end, b.end) })
	return ids, err
}

// writeSnapshot writes id's file in Kafka's format: a control batch with the header (and, for Raft, the
// configuration), batches of records, a control batch with the footer.
func writeSnapshot(fsys vfs.FS, dir string, id snapshotID, members Members, nowMs int64, values iter.Seq[[]byte]) error {
	confRaw, err := proto.Marshal(members.conf())
	if err != nil {
		return err
	}
	header := kbin.AppendInt64(kbin.AppendInt16(nil, 0), nowMs)
	header = append(header, 0) // no tagged fields
	footer := append(kbin.AppendInt16(nil, 0), 0)
	return vfs.ReplaceFile(fsys, path.Join(dir, id.fileName()), partSuffix, func(w io.Writer) error {
		s := snapshotWriter{w: w, epoch: id.epoch, nowMs: nowMs}
		s.control(control{snapshotHeaderType, header}, control{confStateType, confRaw}, control{membersType, members.encode()})
		for v := range values {
			s.add(v)
		}
		s.flush()
		s.control(control{snapshotFooterType, footer})
		return s.err
	})
}

// snapshotWriter gathers records in batches, whose offsets count from 0.
type snapshotWriter struct {
	w       io.Writer
	epoch   int32
	nowMs   int64
	next    int64
	pending []batch.Record
	bytes   int
	err     error
}

func (s *snapshotWriter) add(value []byte) {
	s.pending = append(s.pending, batch.Record{TimestampMs: s.nowMs, Value: value})
	if s.bytes += len(value); s.bytes >= snapshotBatchBytes {
		s.flush()
	}
}

func (s *snapshotWriter) flush() {
	if len(s.pending) > 0 && s.err == nil {
		b, err := Batch(s.pending)
		s.write(b, err)
	}
	s.pending, s.bytes = s.pending[:0], 0
}

func (s *snapshotWriter) control(records ...control) { s.write(controlBatch(s.nowMs, records...)) }

func (s *snapshotWriter) write(b batch.Batch, err error) {
	if s.err = cmp.Or(s.err, err); s.err != nil {
		return
	}
	b.SetBaseOffset(s.next)
	b.SetPartitionLeaderEpoch(s.epoch)
	s.next = b.LastOffset() + 1
	_, s.err = s.w.Write(b)
}

// Batch builds a batch of metadata records as Propose takes it.
func Batch(records []batch.Record) (batch.Batch, error) {
	for i := range records {
		records[i].Offset = int64(i)
	}
	return batch.Build(batch.BuildOptions{
		ProducerID: batch.NoProducerID, ProducerEpoch: -1, BaseSequence: batch.NoSequence,
	}, records)
}

// snapshot is a snapshot file read and checked whole.
type snapshot struct {
	id      snapshotID
	members Members
	raw     []byte
}

func readSnapshot(fsys vfs.FS, dir string, id snapshotID) (*snapshot, error) {
	name := path.Join(dir, id.fileName())
	raw, err := vfs.ReadFile(fsys, name, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	s, err := checkSnapshot(id, raw)
	if err != nil {
		return nil, damaged(name, "the metadata snapshot is damaged: %w", err)
	}
	return s, nil
}

// checkSnapshot verifies every batch, and that the header comes first and the footer last.
func checkSnapshot(id snapshotID, raw []byte) (*snapshot, error) {
	s := &snapshot{id: id, raw: raw}
	footer, next := false, int64(0)
	for rest := raw; len(rest) > 0; {
		b, after, err := batch.Next(rest)
		switch {
		case err != nil:
			return nil, err
		case !b.ChecksumOK() || b.BaseOffset() != next || footer:
			return nil, fmt.Errorf("bad batch at %d", next)
		}
		rest, next = after, b.LastOffset()+1
		if !b.Control() {
			continue
		}
		if footer, err = s.control(b); err != nil {
			return nil, err
		}
	}
	if len(s.members) == 0 || !footer {
		return nil, errors.New("header or footer is missing")
	}
	return s, nil
}

// control reads the header, or says that this is the footer.
func (s *snapshot) control(b batch.Batch) (footer bool, err error) {
	for r, err := range b.Records() {
		if err != nil {
			return false, err
		}
		key := kbin.Reader{Src: r.Key}
		switch _, kind := key.Int16(), key.Int16(); kind {
		case snapshotFooterType:
			return true, nil
		case confStateType: // alone in snapshots of former times
			conf := &raftpb.ConfState{}
			if err := proto.Unmarshal(r.Value, conf); err != nil {
				return false, err
			}
			s.members = membersOf(conf)
		case membersType:
			members, err := decodeMembers(r.Value)
			if err != nil || !slices.Equal(members.conf().Voters, s.members.conf().Voters) {
				return false, errNoMembers
			}
			s.members = members
		}
	}
	return false, nil
}
