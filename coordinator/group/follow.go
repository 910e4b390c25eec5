package group

import (
	"grete/cluster/metadata"
	"grete/coordinator"
)

// Applied follows the metadata from old to next, which Options.Image returns from now on or soon. It returns at once: the
// shards look at the groups that the change concerns, in the background. A change that concerns no group costs nothing.
func (s *Service) Applied(old, next *metadata.Image, delta metadata.Delta) {
	deleted := make(map[string]topicID)
	for _, name := range delta.Topics {
		was, is := old.Topic(name), next.Topic(name)
		if was == nil && is != nil {
			s.created.Store(next.Offset())
		}
		if was != nil && (is == nil || is.ID != was.ID) {
			deleted[name] = was.ID
		}
	}
	if len(deleted) > 0 {
		s.eachShard(func(sh *shard, tx *coordinator.Tx) { sh.dropDeleted(tx, deleted) })
	}
}

// eachShard runs an operation on every shard that has loaded. A shard that is loading, or is not led any more, does
// without: what is left of deleted topics there goes by its retention.
func (s *Service) eachShard(run func(*shard, *coordinator.Tx)) {
	for _, p := range s.rt.Partitions() {
		s.rt.Submit(p, op{Run: run, Continues: true, Background: true, Refuse: func(error) {}})
	}
}
