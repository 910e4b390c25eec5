package raftlog

import (
	"path"

	"go.etcd.io/raft/v3/raftpb"

	"grete/internal/vfs"
)

// load reads what an earlier run left, or begins a new log. It repairs nothing and deletes nothing.
func (n *Node) load() error {
	state, found, err := loadQuorumState(n.o.FS, n.o.Dir)
	if err != nil {
		return err
	}
	ids, err := listSnapshots(n.o.FS, n.o.Dir)
	if err != nil {
		return err
	}
	if !found {
		if state, err = n.begin(ids); err != nil {
			return err
		}
	}
	n.state = state
	base := snapshotID{}
	if len(ids) > 0 {
		if base, err = n.loadSnapshots(ids); err != nil {
			return err
		}
	}
	if err := n.checkLog(base); err != nil {
		return err
	}
	if err := n.loadMembers(); err != nil {
		return err
	}
	n.storage = &storage{log: n.o.Log, base: base, hard: n.hardState(found), conf: n.confs.latest().conf(), snapshot: n.raftSnapshot}
	return nil
}

// begin is the state of a new log.
func (n *Node) begin(snapshots []snapshotID) (quorumState, error) {
	if n.o.Log.EndOffset() > 0 || len(snapshots) > 0 {
		return quorumState{}, damaged(path.Join(n.o.Dir, quorumStateFile), "the vote file is missing though the log is not empty")
	}
	var members Members
	for _, id := range n.o.Voters {
		m := Member{NodeID: id, Voter: true}
		if id == n.o.NodeID {
			m.DirectoryID, m.Listeners = n.o.DirectoryID, n.o.Listeners
		}
		members = members.with(m)
	}
	return newQuorumState(members), n.o.FS.SyncDir(path.Dir(n.o.Dir)) // the vote is no more durable than its directory
}

// loadSnapshots reads the newest, and finishes what a crash has interrupted: the log's replacement by a snapshot of the
// leader.
func (n *Node) loadSnapshots(ids []snapshotID) (base snapshotID, err error) {
	newest := ids[len(ids)-1]
	if n.newest, err = readSnapshot(n.o.FS, n.o.Dir, newest); err != nil {
		return base, err
	}
	if newest.end == n.state.Installing && n.o.Log.EndOffset() < newest.end {
		if err := n.o.Log.RestartAt(newest.end); err != nil {
			return base, err
		}
	}
	return n.baseOf(ids)
}

// loadMembers takes the newest configuration that is known to be committed: the newest snapshot's, the vote file's or
// one of the log's.
func (n *Node) loadMembers() error {
	members, err := n.state.members()
	if err != nil {
		return err
	}
	if n.newest != nil {
		n.confs.add(n.newest.id.end, n.newest.members)
	}
	if n.newest == nil || n.state.MembersEnd > n.newest.id.end {
		n.confs.states = []confAt{{n.state.MembersEnd, members}}
	}
	if err := n.replayChanges(); err != nil {
		return err
	}
	n.publishMembers()
	return nil
}

// loadedCommit is how far the log is known to be committed at the start.
func (n *Node) loadedCommit() int64 { return max(n.snapshotEnd(), n.state.MembersEnd) }

// hardState is Raft's state from the vote file; the commit index is at least the newest snapshot's end.
func (n *Node) hardState(found bool) *raftpb.HardState {
	if !found {
		return nil
	}
	term, commit := uint64(n.state.LeaderEpoch), uint64(n.loadedCommit())
	h := &raftpb.HardState{Term: &term, Commit: &commit}
	if n.state.VotedID >= 0 {
		vote := raftID(n.state.VotedID)
		h.Vote = &vote
	}
	return h
}

// baseOf is the oldest snapshot from which the log goes on: below it the log is gone.
func (n *Node) baseOf(ids []snapshotID) (snapshotID, error) {
	start := n.o.Log.StartOffset()
	if start == 0 {
		return snapshotID{}, nil
	}
	for _, id := range ids {
		if id.end >= start {
			return id, nil
		}
	}
	newest := ids[len(ids)-1]
	return newest, damaged(path.Join(n.o.Dir, newest.fileName()),
		"the log starts at offset %d, after the newest snapshot's end: a newer snapshot is missing", start)
}

// checkLog holds what every crash leaves true: the log reaches the newest snapshot, and no record is of a later term
// than the vote.
func (n *Node) checkLog(base snapshotID) error {
	log, end := path.Join(n.o.Dir, "*.log"), n.o.Log.EndOffset()
	switch {
	case end < n.snapshotEnd():
		return damaged(log, "the log ends at offset %d, before the newest snapshot's end %d", end, n.snapshotEnd())
	case end < n.state.MembersEnd:
		return damaged(log, "the log ends at offset %d, before %d, from which on the vote file's voters are valid", end, n.state.MembersEnd)
	case n.o.Log.StartOffset() > 0 && base.end == 0:
		return damaged(log, "the log starts at offset %d and no snapshot holds what was before", n.o.Log.StartOffset())
	case end > base.end && n.o.Log.EpochAt(end-1) > n.state.LeaderEpoch:
		return damaged(path.Join(n.o.Dir, quorumStateFile), "the log has epoch %d, the vote file only %d",
			n.o.Log.EpochAt(end-1), n.state.LeaderEpoch)
	}
	return nil
}

// Begun says whether dir, a partition's directory, has a metadata log.
func Begun(fsys vfs.FS, dir string) (bool, error) {
	_, found, err := loadQuorumState(fsys, dir)
	return found, err
}

// Begin makes dir a metadata log with these members, empty; none for a node that is to be made a member. One that has
// taken part in an election stays as it is.
func Begin(fsys vfs.FS, dir string, members Members) error {
	state, found, err := loadQuorumState(fsys, dir)
	if err != nil || found && state.LeaderEpoch > 0 {
		return err
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := newQuorumState(members).save(fsys, dir); err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(dir))
}
