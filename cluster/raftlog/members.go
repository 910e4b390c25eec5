package raftlog

import (
	"context"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"grete/internal/clock"
)

// report is what the transport has seen of a node.
type report struct {
	id                  int32
	snapshot, delivered bool
}

// Report tells that a node could not be reached, or what became of a snapshot sent to it: until it is told, Raft sends
// the node nothing else.
func (n *Node) Report(id int32, snapshot, delivered bool) {
	select {
	case n.reports <- report{id, snapshot, delivered}:
	case <-n.done:
	}
}

func (n *Node) take(r report) {
	switch {
	case !r.snapshot:
		n.raw.ReportUnreachable(raftID(r.id))
	case r.delivered:
		n.raw.ReportSnapshot(raftID(r.id), raft.SnapshotFinish)
	default:
		n.raw.ReportSnapshot(raftID(r.id), raft.SnapshotFailure)
	}
}

// forgetSilentLeader: a voter stands for election when its leader is silent; a learner would believe in it for ever.
func (n *Node) forgetSilentLeader() {
	if n.silentTicks++; n.silentTicks > 2*ticksPerElection && !n.leads() && n.lead.NodeID >= 0 {
		_ = n.raw.ForgetLeader()
	}
}

// plausible refuses a message that speaks of a log that this node does not have: Raft panics on it, since only a faulty
// node sends it.
func (n *Node) plausible(m *raftpb.Message) bool {
	end := uint64(n.o.Log.EndOffset())
	switch m.GetType() {
	case raftpb.MsgHeartbeat:
		if m.GetCommit() > end {
			n.tailLost(int64(m.GetCommit()))
		}
		return m.GetCommit() <= end
	case raftpb.MsgAppResp:
		return m.GetIndex() <= end
	}
	return true
}

// tailLost: a leader's heartbeat names only what it knows this node to have. Here that is gone, and the leader sends
// only what comes after it. The next leader begins with what this node has.
func (n *Node) tailLost(had int64) {
	if n.lost.Swap(had) == 0 {
		n.o.Logger.Error().Int64("had", had).Int64("has", n.o.Log.EndOffset()).Msg("the end of this node's metadata log is lost: the leader knows that it went further; " +
			"the node waits until another one leads the metadata quorum, or until its data directory is moved away and it starts again")
	}
}

// LostTail says how far the leader knows this node's log to have gone, and how far it goes. ok is false where nothing
// is lost.
func (n *Node) LostTail() (had, has int64, ok bool) {
	had, has = n.lost.Load(), n.o.Log.EndOffset()
	return had, has, had > has
}

// MemberState is a member of the quorum as its leader sees it.
type MemberState struct {
	Member
	End    int64 // of its log; -1: unknown, as to every node but the leader
	Active bool  // takes entries as they come
	// HeardMs is when it was last heard of, CaughtUpMs when it last had everything that the leader had; -1: never since
	// this leader took office. Of the leader itself both are now.
	HeardMs, CaughtUpMs int64
}

// Quorum describes the quorum: members by id, voters and learners.
type Quorum struct {
	Leader  Leader
	SinceMs int64 // since when it leads, as this node knows
	Commit  int64
	Members []MemberState
}

// Find returns the member of that id.
func (q Quorum) Find(id int32) (MemberState, bool) {
	for _, m := range q.Members {
		if m.NodeID == id {
			return m, true
		}
	}
	return MemberState{}, false
}

// Quorum answers ErrStopped once the node has stopped.
func (n *Node) Quorum() (Quorum, error) {
	var q Quorum
	err := n.call(func() { q = n.quorum() })
	return q, err
}

func (n *Node) quorum() Quorum {
	q := Quorum{Leader: n.lead, SinceMs: n.leadMs, Commit: n.CommittedEnd()}
	for _, m := range n.confs.latest() {
		q.Members = append(q.Members, n.memberState(m))
	}
	n.raw.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		for i := range q.Members {
			if m := &q.Members[i]; n.leads() && m.NodeID == nodeID(id) {
				m.End, m.Active = int64(pr.Match), pr.State == tracker.StateReplicate || m.NodeID == n.o.NodeID
			}
		}
	})
	return q
}

func (n *Node) memberState(m Member) MemberState {
	s := MemberState{Member: m, End: -1, HeardMs: -1, CaughtUpMs: -1}
	if c := n.contacts[m.NodeID]; c != nil {
		s.HeardMs, s.CaughtUpMs = c.atMs, c.caughtUpMs
	}
	if n.leads() && m.NodeID == n.o.NodeID {
		s.HeardMs = clock.Millis(n.o.Clock)
		s.CaughtUpMs = s.HeardMs
	}
	return s
}

func (n *Node) leads() bool { return n.lead.NodeID == n.o.NodeID }

// Resign, called by a leader that is about to stop, has the voter lead that has most of the log, and returns when
// another leads or ctx ends. Followers and lone voters resign at once.
func (n *Node) Resign(ctx context.Context) error {
	const every = 5 * time.Millisecond
	asked := int32(-1)
	for ctx.Err() == nil {
		over := false
		err := n.callWithin(ctx, func() {
			next, ok := n.successor()
			if over = !n.leads() || !ok; !over && asked != next {
				n.raw.TransferLeader(raftID(next))
				asked = next
			}
		})
		if err != nil || over {
			return err
		}
		_ = clock.Pause(ctx, n.o.Clock, every)
	}
	return ctx.Err()
}

// successor is the voter that has most of the log, of those that take entries as they come.
func (n *Node) successor() (id int32, ok bool) {
	best := int64(-1)
	for _, m := range n.quorum().Members {
		if m.Voter && m.Active && !n.away[m.NodeID] && m.NodeID != n.o.NodeID && m.End > best {
			id, ok, best = m.NodeID, true, m.End
		}
	}
	return id, ok
}
