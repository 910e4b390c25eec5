package raftlog

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"grete/cluster/metadata"
	"grete/internal/sched"
)

// arrival is a message of another node, and the directory that the node has.
type arrival struct {
	message   *raftpb.Message
	directory metadata.UUID
}

// askedBy is the directory that m answers, zero when m answers nobody. An answer belongs to the directory that asked,
// whatever the configuration here says: a voter that lost its disk must not get what its former self asked for, and one
// that this node does not yet know by its new directory must get what it asks for.
func (a arrival) askedBy(m *raftpb.Message) metadata.UUID {
	if answers[m.GetType()] && a.message.GetFrom() == m.GetTo() {
		return a.directory
	}
	return metadata.ZeroUUID
}

// arrivals is when the last message of each node came, whatever becomes of it.
type arrivals struct {
	mu sched.Mutex
	by map[int32]time.Time // at most maxKnownPeers
}

func (a *arrivals) note(id int32, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = map[int32]time.Time{}
	}
	if _, known := a.by[id]; known || len(a.by) < maxKnownPeers {
		a.by[id] = now
	}
}

// Heard is when the last message of a node came, zero when none has.
func (n *Node) Heard(id int32) time.Time {
	n.arrivals.mu.Lock()
	defer n.arrivals.mu.Unlock()
	return n.arrivals.by[id]
}
