package raftlog

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3"
)

// Gone tells that nobody listens at the address of a node that was reached before. A leader that is gone is replaced at
// once, not after the election timeout; should it live after all, pre-vote and its next message keep it in office.
func (n *Node) Gone(id int32) {
	select {
	case n.gone <- id:
	case <-n.done:
	}
}

// MajorityGone says whether so many voters are gone that those that are there, this node among them, decide nothing. It
// is true of a node that has stopped.
func (n *Node) MajorityGone() bool {
	gone := true
	_ = n.call(func() {
		voters := n.confs.latest().Voters()
		there := 0
		for _, m := range voters {
			if !n.away[m.NodeID] {
				there++
			}
		}
		gone = there <= len(voters)/2
	})
	return gone
}

// leaderGone forgets the leader, so that this node grants votes, and sets the time of its own candidacy.
func (n *Node) leaderGone(id int32) {
	n.away[id] = true
	wait, votes := n.turn(id)
	if n.lead.NodeID != id || n.leads() || !votes {
		return
	}
	n.o.Logger.Info().Int32("leader", id).Msg("the leader of the metadata quorum is gone")
	_ = n.raw.ForgetLeader()
	n.o.Clock.AfterFunc(wait, func() {
		select {
		case n.campaign <- id:
		default:
		}
	})
}

// turn is how long this node leaves the candidacy to voters with lower ids: those that notice a death at the same
// moment must not split the votes. votes is false when this node has none.
func (n *Node) turn(dead int32) (wait time.Duration, votes bool) {
	voters := n.confs.latest().Voters().without(dead) // by id
	place := slices.IndexFunc(voters, func(m Member) bool { return m.NodeID == n.o.NodeID })
	election := time.Duration(n.o.ElectionMs) * time.Millisecond
	return election/100 + time.Duration(place)*election/10, place >= 0
}

// campaignEarly stands for election unless another leads by now. What dead had sent before its end may have come after,
// and is no sign of life.
func (n *Node) campaignEarly(dead int32) {
	st := n.raw.BasicStatus()
	if st.RaftState != raft.StateFollower || st.Lead != raft.None && st.Lead != raftID(dead) {
		return
	}
	_ = n.raw.ForgetLeader()
	_ = n.raw.Campaign() // not possible now: the election timeout follows
}
