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
	of := s.offsets.groups[id]
	expired := s.tombstones(tx, id, nil, func(topic string, partition int32, c *committed) bool {
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

// tombstones appends one for each of the group's offsets of these topics (nil: all) that match, up to the bound, and
// returns how many.
func (s *shard) tombstones(tx *coordinator.Tx, id string, topics []string, match visitor) int {
	n := 0
	s.eachOffset(id, topics, func(topic string, partition int32, c *committed) bool {
		if match(topic, partition, c) {
			tx.Append(offsetCommitKey(id, topic, partition), nil)
			n++
		}
		return n < maxTombstones
	})
	return n
}
