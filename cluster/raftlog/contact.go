package raftlog

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"grete/internal/clock"
)

// contact is what the leader has heard of a follower (Kafka's LeaderState.ReplicaState, where a fetch stands for an
// answer here).
type contact struct {
	atMs       int64 // of the last answer
	end        int64 // of the leader's log then
	caughtUpMs int64 // the follower had everything that the leader had at this time; -1: never
}

// heard notes a follower's answer.
func (n *Node) heard(m *raftpb.Message) {
	if t := m.GetType(); !n.leads() || t != raftpb.MsgAppResp && t != raftpb.MsgHeartbeatResp {
		return
	}
	id := nodeID(m.GetFrom())
	c := n.contacts[id]
	if c == nil {
		c = &contact{end: -1, caughtUpMs: -1}
		n.contacts[id] = c
	}
	nowMs, end, has := clock.Millis(n.o.Clock), n.o.Log.EndOffset(), n.match(m.GetFrom())
	switch {
	case has >= end:
		c.caughtUpMs = nowMs
	case c.end >= 0 && has >= c.end:
		c.caughtUpMs = c.atMs
	}
	c.atMs, c.end = nowMs, end
}

// match is how far the leader knows a follower's log to be the same.
func (n *Node) match(id uint64) (end int64) {
	n.raw.WithProgress(func(of uint64, _ raft.ProgressType, pr tracker.Progress) {
		if of == id {
			end = int64(pr.Match)
		}
	})
	return end
}

// forgetFollowers begins a new term of a leader, or of none.
func (n *Node) forgetFollowers() {
	n.contacts = map[int32]*contact{}
	n.dropChanges()
}
