package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// consumerLeave takes a member out, or, for a static one with epoch -2, keeps its place until it comes back or its
// session ends.
func (s *shard) consumerLeave(tx *coordinator.Tx, req *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, error) {
	g, err := s.consumer(req.Group)
	if err != nil {
		return nil, err
	}
	m, err := g.leaving(req)
	if err != nil {
		return nil, err
	}
	var c changes
	if req.MemberEpoch == staticLeaveEpoch && req.InstanceID != nil {
		c.current(g.id, m.away())
		c.whenApplied(func(tx *coordinator.Tx) { tx.Cancel(&s.timersOf(g, m).rebalance) })
	} else {
		s.removeMembers(tx, &c, g, map[string]bool{m.id: true})
	}
	c.commit(tx)
	return heartbeatResponse(m.id, req.MemberEpoch), nil
}

func (g *consumerGroup) leaving(req *kmsg.ConsumerGroupHeartbeatRequest) (*consumerMember, error) {
	if req.InstanceID == nil {
		return g.member(req.MemberID, nil)
	}
	return g.staticByInstance(req.MemberID, *req.InstanceID)
}

// staticByInstance finds a static member by its instance id, as its member id.
func (g *consumerGroup) staticByInstance(memberID, instance string) (*consumerMember, error) {
	m := g.staticMember(&instance)
	switch {
	case m == nil:
		return nil, refuse(kerr.UnknownMemberID, "No member has instance id %s.", instance)
	case m.id != memberID:
		return nil, fenced(m, memberID, instance)
	}
	return m, nil
}

// away is a static member that will come back: it keeps its partitions for its successor, whatever epoch that gets.
func (m *consumerMember) away() *consumerMember {
	next := *m
	next.epoch, next.revoking, next.assigned = staticLeaveEpoch, nil, m.assigned.plain().atEpoch(0)
	return &next
}

// removeMembers takes members out. If only members of the classic protocol stay the group becomes a classic one,
// otherwise its new epoch leads to new targets.
func (s *shard) removeMembers(tx *coordinator.Tx, c *changes, g *consumerGroup, gone map[string]bool) {
	if len(gone) == 0 {
		return
	}
	leavers := g.pick(gone)
	if tallyWithout(g, leavers, s.downgradeable) {
		s.downgrade(tx, c, g, g.membersWithout(gone), nil, true)
		return
	}
	for _, m := range leavers {
		c.removeMember(g.id, m.id)
	}
	for _, regex := range tallyWithout(g, leavers, func(t *tally) []string { return t.without(leavers) }) {
		c.delete(consumerKey{regexType, g.id, regex})
	}
	hash := tallyWithout(g, leavers, func(t *tally) int64 { return t.metadataHash(s.image(), g.regexes) })
	c.epoch(g.id, g.epoch+1, hash)
	if len(leavers) == len(g.members) {
		c.targetEpoch(g.id, g.epoch+1, 0)
	}
	c.whenApplied(func(tx *coordinator.Tx) {
		for id := range gone {
			g.cancelTimers(tx, id)
		}
	})
}

// pick is the members of these ids, in order.
func (g *consumerGroup) pick(ids map[string]bool) []*consumerMember {
	out := make([]*consumerMember, 0, len(ids))
	for id := range ids {
		out = append(out, g.members[id])
	}
	return sortByID(out)
}

// without is the expressions of these members that no member has any more, sorted.
func (t *tally) without(members []*consumerMember) []string {
	var out []string
	for _, m := range members {
		if m.regex != "" && t.regexes[m.regex] == 0 {
			out = append(out, m.regex)
		}
	}
	return sortedUnique(out)
}
