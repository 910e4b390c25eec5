package group

import "grete/coordinator"

// maxTombstones bounds the tombstones of one append, so that cleaning up never makes a batch that is too large.
const maxTombstones = 1000

// expire looks through all groups every offsets.retention.check.interval.ms.
func (s *shard) expire(tx *coordinator.Tx) {
	for id := range s.groups {
		tx.Then(id, func(tx *coordinator.Tx) { s.expireGroup(tx, id) })
	}
	tx.Schedule(&s.expiry, s.cfg.OffsetsRetentionCheckIntervalMs)
}

// expireGroup appends tombstones for what has expired; a group that is empty and has no offset left goes with them.
func (s *shard) expireGroup(tx *coordinator.Tx, id string) {
	g := s.groups[id]
	if g == nil {
		return
	}
	of := s.offsets[id]
	expired := s.tombstones(tx, id, func(topic string, partition int32, c *committed) bool {
		return s.expired(g, topic, c, tx.NowMs) && !s.pending.has(id, topic, partition)
	})
	switch {
	case expired == maxTombstones:
		tx.OnApplied(func(tx *coordinator.Tx) {
			tx.Then(id, func(tx *coordinator.Tx) { s.expireGroup(tx, id) })
		})
	case g.empty() && !s.pending.open(id) && (of == nil || expired == of.count):
		g.deleteRecords(tx)
	}
}

func (s *shard) expired(g group, topic string, c *committed, nowMs int64) bool {
	baseMs, ok := g.expiryBaseMs(c)
	switch {
	case !ok || g.subscribedTo(topic):
		return false
	case c.expireMs != unknownTimestampMs:
		return nowMs >= c.expireMs
	}
	return nowMs-baseMs >= s.cfg.OffsetsRetentionMs
}

// tombstones appends one for each of the group's offsets that match, up to the bound, and returns how many.
func (s *shard) tombstones(tx *coordinator.Tx, id string, match func(topic string, partition int32, c *committed) bool) int {
	n := 0
	s.eachOffset(id, func(topic string, partition int32, c *committed) bool {
		if match(topic, partition, c) {
			tx.Append(offsetCommitKey(id, topic, partition), nil)
			n++
		}
		return n < maxTombstones
	})
	return n
}

// TopicsDeleted drops the offsets of topics that are no more.
func (s *Service) TopicsDeleted(names []string) {
	gone := make(map[string]bool, len(names))
	for _, name := range names {
		gone[name] = true
	}
	for _, p := range s.rt.Partitions() {
		s.rt.Submit(p, op{
			Run: func(sh *shard, tx *coordinator.Tx) {
				for id := range sh.groups {
					tx.Then(id, func(tx *coordinator.Tx) { sh.dropTopics(tx, id, gone) })
				}
			},
			Continues: true,
			Refuse:    func(error) {}, // not led, or not loaded: what is left there goes by its retention
		})
	}
}

func (s *shard) dropTopics(tx *coordinator.Tx, id string, gone map[string]bool) {
	n := s.tombstones(tx, id, func(topic string, _ int32, _ *committed) bool { return gone[topic] })
	if n == maxTombstones {
		tx.OnApplied(func(tx *coordinator.Tx) {
			tx.Then(id, func(tx *coordinator.Tx) { s.dropTopics(tx, id, gone) })
		})
	}
}
