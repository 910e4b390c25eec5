package group

import "grete/coordinator"

// downgradeable tells whether these members make a classic group: all of them speak that protocol.
func (s *shard) downgradeable(t *tally) bool {
	return t.members > 0 && t.classic == t.members && s.cfg.Consumer.Migration.Downgrade && t.members <= s.cfg.MaxSize
}

// downgrade converts a consumer group into a classic one of the members that stay, when the last member of the consumer
// protocol has gone, or been replaced by joined, a static member of the classic protocol. Their targets are their
// assignments; when those are out of date the classic group starts with a rebalance.
func (s *shard) downgrade(tx *coordinator.Tx, c *changes, g *consumerGroup, stay []*consumerMember, joined *consumerMember, rebalance bool) {
	to := s.toClassic(tx, g, stay, joined)
	c.tombstones(g)
	if joined != nil && g.members[joined.id] == nil {
		c.removeMember(g.id, joined.id) // its records come before these
	}
	c.records = append(c.records, change{
		key: groupMetadataKey(g.id), value: to.metadataValue(to.assignments()),
		apply: func(tx *coordinator.Tx) { s.becomeClassic(tx, g, to, rebalance) },
	})
}

func (s *shard) becomeClassic(tx *coordinator.Tx, from *consumerGroup, to *classicGroup, rebalance bool) {
	for id := range from.timers {
		from.cancelTimers(tx, id)
	}
	s.put(to.id, to)
	for _, m := range to.members {
		s.watchSession(to, m)
		m.keepAlive(tx)
	}
	if rebalance {
		s.prepareRebalance(tx, to)
	}
}

func (s *shard) toClassic(tx *coordinator.Tx, g *consumerGroup, stay []*consumerMember, joined *consumerMember) *classicGroup {
	to := newClassicGroup(g.id)
	to.state, to.sinceMs, to.generation, to.protocolType = stable, tx.NowMs, g.epoch, consumerProtocolType
	for _, m := range stay {
		to.add(classicMember(m))
	}
	to.protocol = to.selectProtocol()
	im := s.image()
	for _, m := range to.members {
		target := g.target[m.id]
		if joined != nil && m.id == joined.id {
			target, _ = g.targetOf(joined)
		}
		m.assignment = consumerAssignment(target, m.metadata(to.protocol), im)
		to.weigh(m)
	}
	to.computeSubscribed()
	return to
}

func classicMember(m *consumerMember) *member {
	return &member{
		id: m.id, instance: m.instance, clientID: m.clientID, clientHost: m.clientHost, rebalanceTimeoutMs: m.rebalanceTimeoutMs,
		sessionTimeoutMs: m.classic.sessionTimeoutMs, protocolType: consumerProtocolType, protocols: m.classic.protocols,
	}
}
