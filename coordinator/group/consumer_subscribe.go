package group

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// consumer finds a group of the consumer protocol.
func (s *shard) consumer(id string) (*consumerGroup, error) {
	switch g := s.groups[id].(type) {
	case *consumerGroup:
		return g, nil
	case nil:
		return nil, refuse(kerr.GroupIDNotFound, "There is no group %s.", id)
	}
	return nil, refuse(kerr.GroupIDNotFound, "Group %s is not a consumer group.", id)
}

// findGroup finds the group, or, for a member that joins, makes it: from nothing, in place of a classic one that is
// empty, or of a classic one that lives.
func (t *turn) findGroup(id string, joins bool) error {
	switch g := t.s.groups[id].(type) {
	case *consumerGroup:
		t.g = g
		return nil
	case *classicGroup:
		if joins {
			return t.replaceClassic(g)
		}
	case nil:
		if !joins {
			return refuse(kerr.GroupIDNotFound, "There is no consumer group %s.", id)
		}
		if err := t.s.admitGroup(); err != nil {
			return err
		}
		t.g = newConsumerGroup(strings.Clone(id))
		return nil
	}
	return refuse(kerr.GroupIDNotFound, "Group %s is not a consumer group.", id)
}

func (t *turn) replaceClassic(g *classicGroup) error {
	if !g.empty() {
		return t.upgrade(g)
	}
	t.c.put(consumerKey{kind: groupMetadataType, group: g.id}, nil)
	t.c.whenApplied(func(tx *coordinator.Tx) { g.cancelTimers(tx) })
	t.g = newConsumerGroup(g.id)
	return nil
}

// findMember finds who sends a heartbeat, or makes it if it joins. Up to version 0 the coordinator may give the id.
func (t *turn) findMember(req *kmsg.ConsumerGroupHeartbeatRequest) error {
	id, joins, owned := req.MemberID, req.MemberEpoch == joiningEpoch, ownedOf(req)
	if id == "" {
		id = t.s.newMemberID()
	}
	switch {
	case req.InstanceID != nil && joins:
		return t.joinStatic(id, req.InstanceID, true)
	case req.InstanceID != nil:
		m, err := t.g.staticByInstance(id, *req.InstanceID)
		if err != nil {
			return err
		}
		t.old = m
		return m.checkEpoch(req.MemberEpoch, owned)
	}
	t.old = t.g.members[id]
	if t.old == nil {
		if !joins {
			return t.g.unknown(id)
		}
		t.old = newConsumerMember(strings.Clone(id))
	}
	return t.old.checkEpoch(req.MemberEpoch, owned)
}

// joinStatic takes over the place of a static member that is away, or that speaks the classic protocol on either side.
func (t *turn) joinStatic(id string, instance *string, consumerProtocol bool) error {
	was := t.g.staticMember(instance)
	switch {
	case was == nil:
		t.old = t.g.members[id]
		if t.old == nil {
			t.old = newConsumerMember(strings.Clone(id))
		}
		return nil
	case consumerProtocol && was.classic == nil && was.epoch != staticLeaveEpoch:
		return refuse(kerr.UnreleasedInstanceID, "Instance id %s is in use by member %s; member %s cannot have it.", *instance, was.id, id)
	}
	next := *was
	next.id, next.epoch, next.previousEpoch = strings.Clone(id), 0, 0
	target, _ := t.g.targetOf(was)
	t.c.removeMember(t.g.id, was.id)
	t.c.member(t.g.id, &next)
	t.c.target(t.g.id, next.id, target)
	t.c.current(t.g.id, &next)
	g := t.g
	t.c.whenApplied(func(tx *coordinator.Tx) {
		if was.id != next.id {
			g.cancelTimers(tx, was.id)
		}
	})
	t.old = &next
	return nil
}

// checkEpoch fences a member of another epoch (110). One epoch back is forgiven: the answer may have been lost, and
// what the member has is still its own.
func (m *consumerMember) checkEpoch(epoch int32, owned partitions) error {
	const text = "The member's epoch %d is not the coordinator's, %d: it must give up its partitions and join again."
	switch {
	case epoch == joiningEpoch || epoch == m.epoch:
		return nil
	case epoch > m.epoch:
		return refuse(kerr.FencedMemberEpoch, text, epoch, m.epoch)
	case epoch != m.previousEpoch || !m.assigned.contains(owned):
		return refuse(kerr.FencedMemberEpoch, text, epoch, m.epoch)
	}
	return nil
}

// contains tells whether all of p is there; nil is not known, and so is not.
func (o ownership) contains(p partitions) bool {
	if p == nil {
		return false
	}
	for id, ps := range p {
		if o[id] == nil {
			return false
		}
		for _, partition := range ps {
			if !o.has(id, partition) {
				return false
			}
		}
	}
	return true
}
