package group

import (
	"slices"
	"sync/atomic"

	"grete/cluster/metadata"
	"grete/coordinator"
)

// followed is how far the coordinator has followed the metadata. Shards read it.
type followed struct {
	offset  atomic.Int64 // of the newest image
	created atomic.Int64 // of the image in which topics were last created: expressions may match them
	racks   atomic.Int64 // counts the changes of brokers' racks, from 1
}

// standing is what a group keeps that has compared its hash with im. It is 0, so that the group compares again, if a
// newer image has been told of that Options.Image does not return yet.
func (f *followed) standing(im *metadata.Image) int64 {
	racks := f.racks.Load() // first: Applied stores it after the offset
	if im.Offset() < f.offset.Load() {
		return 0
	}
	return racks
}

// Applied follows the metadata from old to next, which Options.Image returns from now on or soon. It returns at once:
// the shards look at the groups that the change concerns, in the background. A change that concerns no group costs
// nothing.
func (s *Service) Applied(old, next *metadata.Image, delta metadata.Delta) {
	s.followed.offset.Store(next.Offset())
	for _, id := range delta.Brokers {
		if rack(old, id) != rack(next, id) {
			s.followed.racks.Add(1)
		}
	}
	var changed []string
	deleted := make(map[string]topicID)
	for _, name := range delta.Topics {
		was, is := old.Topic(name), next.Topic(name)
		if was == nil && is != nil {
			s.followed.created.Store(next.Offset())
		}
		if was != nil && (is == nil || is.ID != was.ID) {
			deleted[name] = was.ID
		}
		if !samePlaces(was, is) {
			changed = append(changed, name)
		}
	}
	if len(changed) > 0 {
		s.eachShard(func(sh *shard, tx *coordinator.Tx) {
			sh.recheck(changed)
			sh.dropDeleted(tx, deleted)
		})
	}
}

// eachShard runs an operation on every shard that has loaded. A shard that is loading, or is not led any more, does
// without: its groups compare their topics once they are loaded, and what is left of deleted topics goes by its
// retention.
func (s *Service) eachShard(run func(*shard, *coordinator.Tx)) {
	for _, p := range s.rt.Partitions() {
		s.rt.Submit(p, op{Run: run, Continues: true, Background: true, Refuse: func(error) {}})
	}
}

// recheck has the groups that subscribe to these topics compare them at the next heartbeat.
func (s *shard) recheck(topics []string) {
	for _, name := range topics {
		for id := range s.subscribers[name] {
			if g, ok := s.groups[id].(*consumerGroup); ok {
				g.checked = 0
			}
		}
	}
}

// samePlaces tells whether two versions of a topic are the same to assignments: its partitions, and where they are.
// Racks are the brokers'.
func samePlaces(a, b *metadata.Topic) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && slices.EqualFunc(a.Partitions, b.Partitions, func(p, q metadata.Partition) bool {
		return slices.Equal(p.Replicas, q.Replicas)
	})
}

func rack(im *metadata.Image, broker int32) string {
	if b := im.Broker(broker); b != nil {
		return b.Rack
	}
	return ""
}
