package raftlog

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"sync"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/logstore"
)

// snapshotEnd is the offset at which the newest snapshot ends, 0 when there is none.
func (n *Node) snapshotEnd() int64 {
	if n.newest == nil {
		return 0
	}
	return n.newest.id.end
}

// Snapshot is the state machine's records up to End, the last offset having Epoch, in batches.
type Snapshot struct {
	Raw   []byte
	End   int64
	Epoch int32
}

// TakeSnapshot gives the newest snapshot to the state machine, once and before Start; ok is false when there is none.
func (n *Node) TakeSnapshot() (s Snapshot, ok bool) {
	if n.newest == nil {
		return Snapshot{}, false
	}
	s = Snapshot{n.newest.raw, n.newest.id.end, n.newest.id.epoch}
	n.newest.raw = nil
	return s, true
}

// WriteSnapshot saves the state machine's records up to end, the last offset having epoch, and lets go of the log
// before the snapshot that was the newest until now: slower followers still find what lies between. It may run on any
// goroutine, one at a time.
func (n *Node) WriteSnapshot(end int64, epoch int32, values iter.Seq[[]byte]) error {
	id := snapshotID{end, epoch}
	var members Members
	var known bool
	if err := n.call(func() { members, known = n.confs.at(end) }); err != nil {
		return err
	}
	if !known {
		return nil // of before the start, where only the newest configuration is known: a later one will do
	}
	if err := writeSnapshot(n.o.FS, n.o.Dir, id, members, clock.Millis(n.o.Clock), values); err != nil {
		return fmt.Errorf("writing metadata snapshot %s: %w", id.fileName(), err)
	}
	var err error
	if stopped := n.call(func() { err = n.compact(&snapshot{id: id, members: members}) }); stopped != nil {
		return stopped
	}
	return err
}

// compact makes s the newest snapshot and the one before it the base of the log. The log's start moves before older
// snapshots go: a crash between leaves more than is needed, never less.
func (n *Node) compact(s *snapshot) error {
	previous := n.newest
	n.newest = s
	if previous == nil || previous.id.end <= n.storage.base.end {
		return nil
	}
	n.storage.base = previous.id
	if err := n.o.Log.AdvanceStart(previous.id.end); err != nil {
		return err
	}
	ids, err := listSnapshots(n.o.FS, n.o.Dir)
	for _, id := range ids {
		if id.end < previous.id.end {
			err = errors.Join(err, n.o.FS.Remove(path.Join(n.o.Dir, id.fileName())))
		}
	}
	return err
}

// snapshotReader reads a snapshot off Raft's goroutine, which goes on meanwhile: a large one takes longer than an
// election.
type snapshotReader struct {
	reading bool
	read    *snapshot // until a follower is given it, or none has asked for keepSnapshotTicks
	ticks   int       // since it was read
	err     error
	running sync.WaitGroup
}

// keepSnapshotTicks is how long a snapshot that was read waits for the follower that needed it.
const keepSnapshotTicks = 10 * ticksPerElection

// tick lets go of a snapshot whose follower does not come back.
func (r *snapshotReader) tick() {
	if r.ticks++; r.ticks >= keepSnapshotTicks {
		r.read = nil
	}
}

// take returns the snapshot id if it has been read. Otherwise, or where descriptors lacked for it, it has it read; Raft
// asks again with the follower's next heartbeat.
func (r *snapshotReader) take(n *Node, id snapshotID) (*snapshot, error) {
	s, err := r.read, r.err
	r.read, r.err = nil, nil
	switch {
	case err != nil && !logstore.Heals(err):
		return nil, n.storage.fail(err)
	case s != nil && s.id == id:
		return s, nil
	case !r.reading:
		r.reading = true
		r.running.Go(func() { n.readAside(id) })
	}
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

// readAside reads id and brings it to Raft's goroutine. What went wrong with a snapshot that is not the newest any more
// is of no interest: it may have been removed.
func (n *Node) readAside(id snapshotID) {
	s, err := readSnapshot(n.o.FS, n.o.Dir, id)
	_ = n.call(func() {
		n.reader.reading, n.reader.ticks = false, 0
		if n.newest.id == id {
			n.reader.read, n.reader.err = s, err
		}
	})
}

// raftSnapshot is the newest snapshot for a follower that needs what the log no longer has. Who joined after it is a
// learner in it: Raft refuses a snapshot whose configuration does not have the node itself.
func (n *Node) raftSnapshot() (*raftpb.Snapshot, error) {
	if n.newest == nil {
		return &raftpb.Snapshot{}, nil
	}
	s, err := n.reader.take(n, n.newest.id)
	if err != nil {
		return nil, err
	}
	index, term := uint64(s.id.end), uint64(s.id.epoch)
	members := s.members
	for _, m := range n.confs.latest() {
		if _, known := members.Find(m.NodeID); !known {
			members = members.with(Member{NodeID: m.NodeID})
		}
	}
	return &raftpb.Snapshot{
		Data:     s.raw,
		Metadata: &raftpb.SnapshotMetadata{ConfState: members.conf(), Index: &index, Term: &term},
	}, nil
}

// install replaces state and log by a leader's snapshot.
func (n *Node) install(received *raftpb.Snapshot) error {
	id := snapshotID{int64(received.Metadata.GetIndex()), int32(received.Metadata.GetTerm())}
	s, err := checkSnapshot(id, received.Data)
	if err != nil {
		return fmt.Errorf("snapshot %s of the leader: %w", id.fileName(), err)
	}
	for _, m := range membersOf(received.Metadata.GetConfState()) {
		if _, known := s.members.Find(m.NodeID); !known {
			s.members = s.members.with(m)
		}
	}
	n.state.Installing = id.end
	if err := n.persist(func() error { return n.state.save(n.o.FS, n.o.Dir) }); err != nil {
		return err
	}
	err = n.persist(func() error {
		return vfs.ReplaceFile(n.o.FS, path.Join(n.o.Dir, id.fileName()), partSuffix, func(w io.Writer) error {
			_, err := w.Write(received.Data)
			return err
		})
	})
	if err != nil {
		return err
	}
	if n.o.OnSnapshot != nil { // first, so that who reads the log knows why it has gone
		n.o.OnSnapshot(Snapshot{received.Data, id.end, id.epoch})
	}
	if err := n.persist(func() error { return n.o.Log.RestartAt(id.end) }); err != nil {
		return err
	}
	n.newest, n.storage.base = &snapshot{id: id, members: s.members}, id
	n.state.Installing = 0
	if err := n.setMembers(id.end, s.members); err != nil {
		return err
	}
	n.advanceCommitted(id.end)
	return nil
}
