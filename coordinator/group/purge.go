package group

import (
	"maps"
	"slices"

	"grete/coordinator"
)

// groupsPerSlice is how many groups a shard cleans up in one round: requests that wait are served between the rounds.
const groupsPerSlice = 256

// purge drops the offsets of deleted topics from the groups that have some.
type purge struct {
	deleted map[string]topicID  // by name, with the ids that they had
	topics  map[string][]string // names by group
	left    []string            // groups that have not had their turn
}

// dropDeleted drops the offsets of deleted topics, one slice of groups after another.
func (s *shard) dropDeleted(tx *coordinator.Tx, deleted map[string]topicID) {
	p := &purge{deleted: deleted, topics: make(map[string][]string)}
	for name := range deleted {
		for id := range s.readers[name] {
			p.topics[id] = append(p.topics[id], name)
		}
	}
	p.left = slices.Collect(maps.Keys(p.topics))
	s.purgeSlice(tx, p)
}

func (s *shard) purgeSlice(tx *coordinator.Tx, p *purge) {
	n := min(len(p.left), groupsPerSlice)
	for _, id := range p.left[:n] {
		tx.Then(id, func(tx *coordinator.Tx) { s.purgeGroup(tx, p, id) })
	}
	if p.left = p.left[n:]; len(p.left) > 0 {
		tx.Later("", func(tx *coordinator.Tx) { s.purgeSlice(tx, p) })
	}
}

// purgeGroup keeps what was committed for a topic that has been made anew under the same name.
func (s *shard) purgeGroup(tx *coordinator.Tx, p *purge, id string) {
	n := s.tombstones(tx, id, p.topics[id], func(topic string, _ int32, c *committed) bool {
		return !otherTopic(c.topicID, p.deleted[topic])
	})
	if n == maxTombstones {
		tx.OnApplied(func(tx *coordinator.Tx) {
			tx.Then(id, func(tx *coordinator.Tx) { s.purgeGroup(tx, p, id) })
		})
	}
}
