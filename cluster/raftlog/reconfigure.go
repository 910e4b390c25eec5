package raftlog

import (
	"context"
	"errors"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// change is a change of the configuration on its way.
type change struct {
	end   int64 // of its entry
	reply chan<- error
}

// Change is one step from one configuration of the quorum to the next: Raft takes one voter in or out at a time.
type Change struct {
	Set    *Member // added, promoted to voter, demoted to learner, or changed
	Remove *int32  // when Set is nil
	// Resign has the leader hand over to another voter instead, and answer ErrNotLeader: it is not to lead its own
	// removal.
	Resign bool
}

// Reconfigure has the leader of epoch change the configuration; decide sees the quorum as it is and refuses with an
// error, which is returned. It returns a channel that tells when the change is committed: nil; or ErrNotLeader, when
// that is not sure. ErrChangePending: an older change, or the leader's own first entry, is not yet committed. A nil
// channel: there is nothing to change.
func (n *Node) Reconfigure(epoch int32, decide func(Quorum) (Change, error)) (<-chan error, error) {
	var done <-chan error
	var err error
	if stopped := n.call(func() { done, err = n.reconfigure(epoch, decide) }); stopped != nil {
		return nil, stopped
	}
	return done, err
}

func (n *Node) reconfigure(epoch int32, decide func(Quorum) (Change, error)) (<-chan error, error) {
	if !n.leads() || n.lead.Epoch != epoch {
		return nil, ErrNotLeader
	}
	c, err := decide(n.quorum())
	if err != nil {
		return nil, err
	}
	if c.Resign {
		if next, ok := n.successor(); ok {
			n.raw.TransferLeader(raftID(next))
		}
		return nil, ErrNotLeader
	}
	if len(n.changes) > 0 || n.committed.Load() <= n.lead.Start {
		return nil, ErrChangePending
	}
	next, entry := n.changeEntry(c)
	if next == nil {
		return nil, nil
	}
	id, end := raftID(n.o.NodeID), n.o.Log.EndOffset()+1
	if err := n.raw.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &id, To: &id, Entries: []*raftpb.Entry{entry}}); err != nil {
		return nil, errors.Join(ErrChangePending, err)
	}
	reply := make(chan error, 1)
	n.changes = append(n.changes, change{end, reply})
	return reply, nil
}

// changeEntry is the configuration after c and the entry that makes it; nil when c changes nothing.
func (n *Node) changeEntry(c Change) (Members, *raftpb.Entry) {
	now := n.confs.latest()
	var next Members
	id, kind := int32(0), raftpb.ConfChangeRemoveNode
	switch {
	case c.Set != nil:
		old, known := now.Find(c.Set.NodeID)
		if known && old.Equal(*c.Set) {
			return nil, nil
		}
		next, id, kind = now.with(*c.Set), c.Set.NodeID, raftpb.ConfChangeAddLearnerNode
		if c.Set.Voter {
			kind = raftpb.ConfChangeAddNode
		}
	case c.Remove != nil:
		if _, known := now.Find(*c.Remove); !known {
			return nil, nil
		}
		next, id = now.without(*c.Remove), *c.Remove
	}
	of := raftID(id)
	data, _ := proto.Marshal(&raftpb.ConfChangeV2{ // plain fields cannot fail
		Changes: []*raftpb.ConfChangeSingle{{Type: kind.Enum(), NodeId: &of}}, Context: next.encode(),
	})
	return next, &raftpb.Entry{Type: raftpb.EntryConfChangeV2.Enum(), Data: data}
}

// reconfigured applies a committed change of the configuration. What counts is the configuration that it names: a node
// that has joined begins with none, and one that got a snapshot may have a newer one. For any other the difference is
// the change.
func (n *Node) reconfigured(e *raftpb.Entry) error {
	members, err := decodeChange(e.Data)
	if err != nil {
		return err
	}
	for _, single := range n.confs.latest().steps(members) {
		n.raw.ApplyConfChange(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{single}})
	}
	return n.setMembers(int64(e.GetIndex()), members)
}

// decodeChange is the configuration that a change makes.
func decodeChange(data []byte) (Members, error) {
	var c raftpb.ConfChangeV2
	if err := proto.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	return decodeMembers(c.Context)
}

// steps are the changes from one configuration to another, such that each leaves a voter.
func (ms Members) steps(to Members) (steps []*raftpb.ConfChangeSingle) {
	add := func(kind raftpb.ConfChangeType, id int32) {
		of := raftID(id)
		steps = append(steps, &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: &of})
	}
	differs := func(m Member) bool {
		old, known := ms.Find(m.NodeID)
		return !known || old.Voter != m.Voter
	}
	for _, m := range to {
		if m.Voter && differs(m) {
			add(raftpb.ConfChangeAddNode, m.NodeID)
		}
	}
	for _, m := range to {
		if !m.Voter && differs(m) {
			add(raftpb.ConfChangeAddLearnerNode, m.NodeID)
		}
	}
	for _, m := range ms {
		if _, stays := to.Find(m.NodeID); !stays {
			add(raftpb.ConfChangeRemoveNode, m.NodeID)
		}
	}
	return steps
}

// setMembers makes members the configuration from end on. It is on disk before the node does anything under it.
func (n *Node) setMembers(end int64, members Members) error {
	n.confs.add(end, members)
	n.state.setMembers(end, members)
	if err := n.persist(func() error { return n.state.save(n.o.FS, n.o.Dir) }); err != nil {
		return err
	}
	n.publishMembers()
	return nil
}

func (n *Node) publishMembers() {
	members := n.confs.latest()
	n.members.Store(&members)
	if n.o.OnMembers != nil {
		n.o.OnMembers(members)
	}
}

// Members are the quorum's configuration as this node knows it; not to be changed.
func (n *Node) Members() Members { return *n.members.Load() }

// answerChanges tells those whose changes are committed. Only the leader has any, and it has applied them before.
func (n *Node) answerChanges(committed int64) {
	for len(n.changes) > 0 && n.changes[0].end <= committed {
		n.changes[0].reply <- nil
		n.changes = n.changes[1:]
	}
}

// dropChanges: another leads now, and decides what becomes of them.
func (n *Node) dropChanges() {
	for _, c := range n.changes {
		c.reply <- ErrNotLeader
	}
	n.changes = nil
}

// AwaitChange waits for what Reconfigure returned.
func AwaitChange(ctx context.Context, done <-chan error) error {
	if done == nil {
		return nil
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
