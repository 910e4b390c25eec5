package group

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// replaceStatic gives old's place to the new process of the same instance id (KIP-345). In a stable group whose
// protocol does not change by it nobody else notices: the new member id is made durable, and that is all.
func (j *join) replaceStatic(g *classicGroup, old *member, id string) {
	leader := g.leader
	fence(j.tx, g, old)
	if g.state == stable && j.keepsProtocol(g, old) {
		j.renameStatic(g, old, id, leader)
		return
	}
	m := g.rename(j.tx, j.s, old, id)
	j.park(g, m)
	switch g.state {
	case stable, completingRebalance:
		// The leader may have been told the old member id already: assigning must start again.
		j.s.prepareRebalance(j.tx, g)
	default:
		j.s.maybeCompleteJoin(j.tx, g)
	}
}

// fence tells whoever still waits under the old member id that another one has come.
func fence(tx *coordinator.Tx, g *classicGroup, old *member) {
	g.answerJoin(tx, old, joinError(old.id, kerr.FencedInstanceID))
	g.answerSync(tx, old, syncError(kerr.FencedInstanceID))
}

// keepsProtocol tells whether the group would still choose its protocol with what the new process offers.
func (j *join) keepsProtocol(g *classicGroup, old *member) bool {
	was := old.protocols
	g.countProtocols(old, -1)
	old.protocols = cloneProtocols(j.req.Protocols)
	g.countProtocols(old, 1)
	next := g.selectProtocol()
	g.countProtocols(old, -1)
	old.protocols = was
	g.countProtocols(old, 1)
	return next != nil && g.protocol != nil && *next == *g.protocol
}

// renameStatic appends the group with the new member id; the member changes when that is in the log.
func (j *join) renameStatic(g *classicGroup, old *member, id, leader string) {
	next := newMember(j.rc, id, j.req)
	value := g.metadataWith(old, next)
	skips := j.rc.Version >= 9
	j.tx.AppendApplied(groupMetadataKey(g.id), value, func(tx *coordinator.Tx) {
		m := g.rename(tx, j.s, old, id)
		g.countProtocols(m, -1)
		m.update(j.req)
		g.countProtocols(m, 1)
		g.weigh(m)
		m.keepAlive(tx)
		replyJoin(tx, j.answer, g.rejoinedStatic(m, leader, skips))
	})
	j.tx.OnFailed(func(tx *coordinator.Tx, err error) {
		resp := joinError("", nil)
		resp.ErrorCode, resp.Generation, resp.LeaderID = coordinator.Code(err), g.generation, leader
		replyJoin(tx, j.answer, resp)
	})
}

// metadataWith is the group's record as it will be with next in old's place.
func (g *classicGroup) metadataWith(old, next *member) []byte {
	var v kmsg.GroupMetadataValue
	if err := v.ReadFrom(g.metadataValue(g.assignments())); err != nil {
		panic(err) // written one line above
	}
	if g.leader == old.id {
		v.Leader = &next.id
	}
	for i := range v.Members {
		if m := &v.Members[i]; m.MemberID == old.id {
			m.MemberID = next.id
			m.RebalanceTimeoutMillis, m.SessionTimeoutMillis = next.rebalanceTimeoutMs, next.sessionTimeoutMs
			m.Subscription = bytes.Clone(next.metadata(g.protocol))
		}
	}
	return v.AppendTo(nil)
}

// rejoinedStatic: from version 9 on the new leader learns that it leads but need not assign (KIP-814); older ones are
// told of the leader there was before, so that they do not.
func (g *classicGroup) rejoinedStatic(m *member, leaderBefore string, skips bool) *kmsg.JoinGroupResponse {
	if !skips {
		resp := g.joined(m)
		resp.Members, resp.LeaderID = nil, leaderBefore
		return resp
	}
	resp := g.joined(m)
	resp.SkipAssignment = g.leader == m.id
	return resp
}

// rename puts a member with a new id, and all else the same, in old's place.
func (g *classicGroup) rename(tx *coordinator.Tx, s *shard, old *member, id string) *member {
	m := &member{
		id: id, instance: old.instance, clientID: old.clientID, clientHost: old.clientHost,
		rebalanceTimeoutMs: old.rebalanceTimeoutMs, sessionTimeoutMs: old.sessionTimeoutMs,
		protocolType: old.protocolType, protocols: old.protocols, assignment: old.assignment,
	}
	tx.Cancel(&old.session)
	g.setSyncPending(old, false)
	delete(g.byID, old.id)
	g.byID[id] = m
	g.static[*m.instance] = m
	for i := range g.members {
		if g.members[i] == old {
			g.members[i] = m
		}
	}
	if g.leader == old.id {
		g.leader = id
	}
	g.weight.change(-old.counted)
	old.counted = 0
	g.weigh(m)
	s.watchSession(g, m)
	return m
}
