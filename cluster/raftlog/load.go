package raftlog

import (
	"path"

	"go.etcd.io/raft/v3/raftpb"
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
		if n.o.Log.EndOffset() > 0 || len(ids) > 0 {
			return damaged(path.Join(n.o.Dir, quorumStateFile), "the vote file is missing though the log is not empty")
		}
		state = newQuorumState(n.o.Voters)
		if err := n.o.FS.SyncDir(path.Dir(n.o.Dir)); err != nil { // the vote is no more durable than its directory
			return err
		}
	}
	n.state = state
	conf := confOf(state.voters())
	base := snapshotID{}
	if len(ids) > 0 {
		if base, err = n.baseOf(ids); err != nil {
			return err
		}
		if n.newest, err = readSnapshot(n.o.FS, n.o.Dir, ids[len(ids)-1]); err != nil {
			return err
		}
		conf = n.newest.conf
	}
	if err := n.checkLog(base); err != nil {
		return err
	}
	n.confs.add(n.snapshotEnd(), conf)
	n.storage = &storage{log: n.o.Log, base: base, hard: n.hardState(found), conf: conf, snapshot: n.raftSnapshot}
	return nil
}

// hardState is Raft's state from the vote file; the commit index is at least the newest snapshot's end.
func (n *Node) hardState(found bool) *raftpb.HardState {
	if !found {
		return nil
	}
	term, commit := uint64(n.state.LeaderEpoch), uint64(n.snapshotEnd())
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

// checkLog holds what every crash leaves true: the log reaches the newest snapshot, and no record is of a later term than
// the vote.
func (n *Node) checkLog(base snapshotID) error {
	log, end := path.Join(n.o.Dir, "*.log"), n.o.Log.EndOffset()
	switch {
	case end < n.snapshotEnd():
		return damaged(log, "the log ends at offset %d, before the newest snapshot's end %d", end, n.snapshotEnd())
	case n.o.Log.StartOffset() > 0 && base.end == 0:
		return damaged(log, "the log starts at offset %d and no snapshot holds what was before", n.o.Log.StartOffset())
	case end > base.end && n.o.Log.EpochAt(end-1) > n.state.LeaderEpoch:
		return damaged(path.Join(n.o.Dir, quorumStateFile), "the log has epoch %d, the vote file only %d",
			n.o.Log.EpochAt(end-1), n.state.LeaderEpoch)
	}
	return nil
}
