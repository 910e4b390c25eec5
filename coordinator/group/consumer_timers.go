package group

import "grete/coordinator"

// fenceRetryMs is when a member is tried to be removed again whose removal could not be written (Kafka's
// CoordinatorTimerImpl).
const fenceRetryMs = 500

// memberTimers is what a member must do in time.
type memberTimers struct {
	session   coordinator.Timer // heartbeat
	rebalance coordinator.Timer // give up what it is to revoke
	join      coordinator.Timer // a classic member: rejoin when told that a rebalance is in progress
	sync      coordinator.Timer // a classic member: fetch its assignment after it joined
}

// timersOf finds or makes a member's timers; without changes each removes the member when it fires.
func (s *shard) timersOf(g *consumerGroup, m *consumerMember) *memberTimers {
	t := g.timers[m.id]
	if t == nil {
		t = &memberTimers{}
		for _, timer := range []*coordinator.Timer{&t.session, &t.join, &t.sync} {
			timer.Fire = func(tx *coordinator.Tx) { s.expireMember(tx, g.id, m.id, timer) }
		}
		g.timers[m.id] = t
	}
	return t
}

// keepAlive starts a member's session anew: that of the group's configuration, or of a classic member's own.
func (s *shard) keepAlive(tx *coordinator.Tx, groupID, memberID string, timeoutMs int32) {
	if g, m := s.consumerMember(groupID, memberID); m != nil {
		tx.Schedule(&s.timersOf(g, m).session, int64(timeoutMs))
	}
}

// watchRevocation gives a member its rebalance timeout to leave the epoch in which it has to revoke.
func (s *shard) watchRevocation(tx *coordinator.Tx, g *consumerGroup, m *consumerMember) {
	if m == nil {
		return
	}
	t := s.timersOf(g, m)
	if m.state != memberUnrevoked {
		tx.Cancel(&t.rebalance)
		return
	}
	t.rebalance.Fire = func(tx *coordinator.Tx) {
		if _, now := s.consumerMember(g.id, m.id); now != nil && now.epoch == m.epoch {
			s.expireMember(tx, g.id, m.id, &t.rebalance)
		}
	}
	tx.Schedule(&t.rebalance, int64(m.rebalanceTimeoutMs))
}

// awaitRejoin gives a classic member its rebalance timeout to join, from when it was first told to.
func (s *shard) awaitRejoin(tx *coordinator.Tx, g *consumerGroup, m *consumerMember) {
	if t := s.timersOf(g, m); !t.join.Set() {
		tx.Schedule(&t.join, int64(m.rebalanceTimeoutMs))
	}
}

// consumerMember finds a member as it is now; nil when it, or the group, is gone.
func (s *shard) consumerMember(groupID, memberID string) (*consumerGroup, *consumerMember) {
	g, ok := s.groups[groupID].(*consumerGroup)
	if !ok {
		return nil, nil
	}
	return g, g.members[memberID]
}

// expireMember removes a member that did not do something in time; fired is the timer that says so, and says so again
// if that could not be written.
func (s *shard) expireMember(tx *coordinator.Tx, groupID, memberID string, fired *coordinator.Timer) {
	g, m := s.consumerMember(groupID, memberID)
	if m == nil {
		return
	}
	var c changes
	s.removeMembers(tx, &c, g, map[string]bool{memberID: true})
	c.whenFailed(func(tx *coordinator.Tx, _ error) { tx.Schedule(fired, fenceRetryMs) })
	c.commit(tx)
}

// cancelTimers stops those of a member that is gone.
func (g *consumerGroup) cancelTimers(tx *coordinator.Tx, memberID string) {
	t := g.timers[memberID]
	if t == nil {
		return
	}
	for _, timer := range []*coordinator.Timer{&t.session, &t.rebalance, &t.join, &t.sync} {
		tx.Cancel(timer)
	}
	delete(g.timers, memberID)
}

// loaded starts the sessions of the members, classic ones too, with the group's timeout.
func (g *consumerGroup) loaded(tx *coordinator.Tx, s *shard) {
	timeoutMs := s.groupSettings(g.id).SessionTimeoutMs
	for _, m := range g.members {
		tx.Schedule(&s.timersOf(g, m).session, int64(timeoutMs))
		if m.state == memberUnrevoked {
			s.watchRevocation(tx, g, m)
		}
	}
}

// unload has nothing to answer: no request of a consumer group is parked.
func (g *consumerGroup) unload(*coordinator.Tx) {}
