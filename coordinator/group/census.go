package group

import (
	"fmt"

	"grete/coordinator"
)

// errTooManyGroups: the broker has Config.MaxGroups groups. Clients take the code for a coordinator that is busy, and try again.
var errTooManyGroups = fmt.Errorf("group: the broker has as many groups as it may: %w", coordinator.ErrOverloaded)

// admitGroup is asked before a group is made that its shard does not have. Groups of the log are never refused. Groups that
// are decided and not applied yet do not count, so that the bound is exceeded by those of one append at most.
func (s *shard) admitGroup() error {
	if s.total.Load() >= int64(s.cfg.MaxGroups) {
		return errTooManyGroups
	}
	return nil
}

// put gives id its group, new or in the place of another.
func (s *shard) put(id string, g group) {
	if old := s.groups[id]; old != g {
		s.unindex(old)
		if c, ok := g.(*consumerGroup); ok {
			c.index(s.subscribers)
		}
	}
	s.groups[id] = g
	s.recount()
}

func (s *shard) drop(id string) {
	s.unindex(s.groups[id])
	delete(s.groups, id)
	s.recount()
}

func (s *shard) unindex(g group) {
	if c, ok := g.(*consumerGroup); ok {
		c.unindex()
	}
}

// recount follows the size of groups. While the shard loads it counts nothing: a load that is given up is not told.
func (s *shard) recount() {
	if s.loaded {
		s.count(len(s.groups) - s.counted)
	}
}

func (s *shard) count(more int) {
	s.counted += more
	s.total.Add(int64(more))
	s.cfg.Memory.Change(int64(more) * GroupBytes)
}
