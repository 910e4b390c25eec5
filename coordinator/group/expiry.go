package group

import "grete/coordinator"

// maxTombstones bounds the tombstones of one append, so that cleaning up never makes a batch that is too large.
const maxTombstones = 1000

// expire looks every offsets.retention.check.interval.ms at the groups that are due.
func (s *shard) expire(tx *coordinator.Tx) {
	s.expireSlice(tx, tx.NowMs)
	tx.Schedule(&s.expiry, s.cfg.OffsetsRetentionCheckIntervalMs)
}

// expireSlice looks at some of the groups that are due at dueMs, and at the others in later rounds.
func (s *shard) expireSlice(tx *coordinator.Tx, dueMs int64) {
	for range groupsPerSlice {
		id, ok := s.expiring.next(dueMs)
		if !ok {
			return
		}
		tx.Then(id, func(tx *coordinator.Tx) { s.expireGroup(tx, id) })
	}
	tx.Later("", func(tx *coordinator.Tx) { s.expireSlice(tx, dueMs) })
}

// expireGroup appends tombstones for what has expired; a group that is empty and has no offset left goes with them.
// Then nobody looks at the group before the next of its offsets may expire, or the group changes.
func (s *shard) expireGroup(tx *coordinator.Tx, id string) {
	g := s.groups[id]
	if g == nil {
		return
	}
	due, nextMs := s.nextExpiry(g, id, tx.NowMs)
	s.expiring.at(id, nextMs)
	n := 0
	if due {
		n = s.tombstones(tx, id, nil, func(topic string, partition int32, c *committed) bool {
			return s.expiryMs(g, topic, c) <= tx.NowMs && !s.pending.has(id, topic, partition)
		})
	}
	deletes := s.deletable(g, id, n)
	switch {
	case n == maxTombstones:
		tx.OnApplied(func(tx *coordinator.Tx) {
			tx.Then(id, func(tx *coordinator.Tx) { s.expireGroup(tx, id) })
		})
	case deletes:
		g.deleteRecords(tx)
	}
	if n > 0 || deletes {
		tx.OnFailed(func(tx *coordinator.Tx, _ error) { s.expiring.at(id, tx.NowMs+1) })
	}
}

// deletable tells whether nothing keeps the group once n of its offsets are gone.
func (s *shard) deletable(g group, id string, n int) bool {
	of := s.offsets.groups[id]
	return g.empty() && !s.pending.open(id) && (of == nil || n == of.count)
}

// nextExpiry tells whether any of the group's offsets has expired, and when the next of the others does if the group
// does not change. Offsets that open transactions commit too are left to the end of these.
func (s *shard) nextExpiry(g group, id string, nowMs int64) (due bool, nextMs int64) {
	nextMs = never
	of := s.offsets.groups[id]
	if of == nil {
		return false, nextMs
	}
	for topic, partitions := range of.topics {
		if g.subscribedTo(topic) {
			continue
		}
		for partition, c := range partitions {
			switch ms := s.retainedUntilMs(g, c); {
			case s.pending.has(id, topic, partition):
			case ms <= nowMs:
				due = true
			default:
				nextMs = min(nextMs, ms)
			}
		}
	}
	return due, nextMs
}

// expiryMs is when an offset expires if its group does not change.
func (s *shard) expiryMs(g group, topic string, c *committed) int64 {
	if g.subscribedTo(topic) {
		return never
	}
	return s.retainedUntilMs(g, c)
}

// retainedUntilMs is expiryMs of a topic that the group's members do not use.
func (s *shard) retainedUntilMs(g group, c *committed) int64 {
	baseMs, ok := g.expiryBaseMs(c)
	switch {
	case !ok:
		return never
	case c.expireMs != unknownTimestampMs:
		return c.expireMs
	}
	return baseMs + s.cfg.OffsetsRetentionMs
}

// changed has a group looked at at the next check: what keeps its offsets, or itself, may be gone. While the shard
// loads nothing is kept, and then all groups are looked at once.
func (s *shard) changed(id string) {
	if s.loaded && s.groups[id] != nil {
		s.expiring.at(id, 0)
	}
}

// kept notes when an offset expires that was committed now.
func (s *shard) kept(groupID, topic string, c *committed) {
	if g := s.groups[groupID]; s.loaded && g != nil {
		s.expiring.at(groupID, s.expiryMs(g, topic, c))
	}
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
