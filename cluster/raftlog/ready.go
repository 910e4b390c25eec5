package raftlog

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"grete/internal/clock"
)

// ready does what Raft asks for, in the order that its safety needs: vote, log, both durable, only then messages and
// commits. Proposals that arrive meanwhile share the next round's fsync.
func (n *Node) ready(rd raft.Ready) error {
	if !raft.IsEmptySnap(rd.Snapshot) {
		if err := n.install(rd.Snapshot); err != nil {
			return err
		}
	}
	if err := n.saveVote(rd.HardState); err != nil {
		return err
	}
	leader := n.leaderAfter(rd)
	if len(rd.Entries) > 0 {
		if err := n.persist(func() error { return n.appendDurably(rd.Entries) }); err != nil {
			return err
		}
	}
	n.setLeader(leader)
	n.send(rd.Messages)
	if err := n.commit(rd.CommittedEntries); err != nil {
		return err
	}
	n.raw.Advance(rd)
	return nil
}

// saveVote writes quorum-state when term or vote changed. The commit index needs no fsync: it is found again.
func (n *Node) saveVote(h *raftpb.HardState) error {
	if raft.IsEmptyHardState(h) {
		return nil
	}
	term, voted := int32(h.GetTerm()), nodeID(h.GetVote())
	if term == n.state.LeaderEpoch && voted == n.state.VotedID {
		return nil
	}
	n.state.LeaderEpoch, n.state.VotedID, n.state.LeaderID = term, voted, -1
	return n.persist(func() error { return n.state.save(n.o.FS, n.o.Dir) })
}

// announce has a new leader say in the log who it is, as Kafka's do, right after Raft's own first entry of the term.
func (n *Node) announce() error {
	st := n.raw.BasicStatus()
	term := int32(st.HardState.GetTerm())
	if st.RaftState != raft.StateLeader || n.announced == term {
		return nil
	}
	n.announced = term
	message := control{leaderChangeType, leaderChange(n.o.NodeID, n.confs.latest().Voters())}
	b, err := controlBatch(clock.Millis(n.o.Clock), message)
	if err != nil {
		return err
	}
	return n.stepProposal(b)
}

// leaderAfter is who leads once rd is done. A new leader's start is what it has announced.
func (n *Node) leaderAfter(rd raft.Ready) Leader {
	if rd.SoftState == nil {
		return n.lead
	}
	l := Leader{NodeID: nodeID(rd.SoftState.Lead), Epoch: n.state.LeaderEpoch, Start: -1}
	if rd.SoftState.RaftState != raft.StateLeader {
		return l
	}
	if n.lead.Epoch == l.Epoch && n.lead.Start >= 0 {
		l.Start = n.lead.Start
		return l
	}
	l.Start = int64(rd.Entries[len(rd.Entries)-1].GetIndex()) - 1
	return l
}

// appendDurably may be repeated: what it had appended is cut first.
func (n *Node) appendDurably(entries []*raftpb.Entry) error {
	if err := n.storage.append(entries); err != nil {
		return err
	}
	flushed := make(chan error, 1)
	n.o.Log.FlushAsync(n.o.Log.EndOffset(), func(err error) { flushed <- err })
	return <-flushed
}

func (n *Node) send(messages []*raftpb.Message) {
	if n.o.Transport == nil {
		return
	}
	for _, m := range messages {
		n.o.Transport.Send(m, n.asker.askedBy(m))
	}
}

// commit applies configuration changes and publishes the commit index. Raft pages long runs of entries, so that these
// may stop within a batch or before the commit index, but the index itself is always a batch's end.
func (n *Node) commit(entries []*raftpb.Entry) error {
	for _, e := range entries {
		if e.GetType() == raftpb.EntryConfChangeV2 {
			if err := n.reconfigured(e); err != nil {
				return err
			}
		}
	}
	if end := int64(n.raw.BasicStatus().HardState.GetCommit()); end > n.committed.Load() {
		n.advanceCommitted(end)
		n.answerChanges(end)
	}
	return nil
}

func (n *Node) advanceCommitted(end int64) {
	n.o.Log.SetHighWatermark(end)
	n.committed.Store(end)
	if n.o.OnCommit != nil {
		n.o.OnCommit(end)
	}
}
