package group

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"grete/coordinator"
)

const (
	// GroupBytes is what a group with a member takes.
	GroupBytes = 4 << 10
	// memberBytes is what a member takes, beside its texts, what it offers and what it is assigned.
	memberBytes = 500
	// offsetBytes is what a committed offset takes, beside its metadata.
	offsetBytes = 200
)

// errTooManyGroups: the process has as many groups and offsets as their share of the memory has room for
// (Config.Memory). Clients take the code for a coordinator that is busy, and try again.
var errTooManyGroups = fmt.Errorf("group: there is no memory for more groups or offsets: %w", coordinator.ErrOverloaded)

// weight is what a group's members take, and who is told of changes: the shard that has the group.
type weight struct {
	bytes int64
	told  func(more int64) // nil: no shard has the group
}

func (w *weight) change(more int64) {
	w.bytes += more
	if w.told != nil {
		w.told(more)
	}
}

// weigher is a group that knows what its members take.
type weigher interface{ weighs() *weight }

func (g *classicGroup) weighs() *weight  { return &g.weight }
func (g *consumerGroup) weighs() *weight { return &g.weight }

// admitMember is asked before a member joins, or offers more than it did: more bytes of it are to be kept.
func (s *shard) admitMember(more int64) error {
	if more > 0 && !s.cfg.Memory.Has(more) {
		return errTooManyGroups
	}
	return nil
}

// admitGroup is asked before a group is made that its shard does not have. Groups of the log are never refused. Groups
// that are decided and not applied yet do not count, so that the bound is exceeded by those of one append at most.
func (s *shard) admitGroup() error {
	if !s.cfg.Memory.Has(GroupBytes) {
		return errTooManyGroups
	}
	return nil
}

// put gives id its group, new or in the place of another.
func (s *shard) put(id string, g group) {
	old := s.groups[id]
	if old == g {
		return
	}
	s.unindex(old)
	if c, ok := g.(*consumerGroup); ok {
		c.index(s.subscribers)
	}
	s.groups[id] = g
	if w, ok := g.(weigher); ok {
		w.weighs().told = s.oweMembers
		s.membersBytes += w.weighs().bytes
	}
	s.recount()
	s.changed(id)
}

func (s *shard) drop(id string) {
	s.unindex(s.groups[id])
	s.expiring.remove(id)
	delete(s.groups, id)
	s.recount()
}

func (s *shard) unindex(g group) {
	if w, ok := g.(weigher); ok {
		w.weighs().told = nil
		s.membersBytes -= w.weighs().bytes
	}
	if c, ok := g.(*consumerGroup); ok {
		c.unindex()
	}
}

func (s *shard) oweMembers(more int64) {
	if s.membersBytes += more; more != 0 {
		s.recount()
	}
}

// owe follows the size of the group's committed offsets, or pending ones.
func (s *shard) owe(groupID string, more int64) {
	if more == 0 {
		return
	}
	s.offsetsBytes += more
	s.recount()
	if s.loaded {
		s.tell(groupID)
	}
}

// recount tells the ledger what groups and offsets take. While the shard loads it tells nothing: a load that is given
// up is not told.
func (s *shard) recount() {
	if s.loaded {
		s.count(int64(len(s.groups))*GroupBytes + s.offsetsBytes + s.membersBytes)
	}
}

func (s *shard) count(bytes int64) {
	groups := int64(0)
	if bytes > 0 {
		groups = int64(len(s.groups))
	}
	s.sizes.groups.Add(groups - s.countedGroups)
	s.countedGroups = groups
	s.cfg.Memory.Change(bytes - s.countedBytes)
	s.countedBytes = bytes
}

// toldBytes are how far what a group has committed may be from what sizes say of it.
const toldBytes = 64 << 10

// sizes are what can be said of a broker's groups without asking their shards.
type sizes struct {
	groups  atomic.Int64
	offsets sync.Map // by group id: bytes of what it has committed, roughly; none when it is little
}

// tell has sizes say what the group has committed.
func (s *shard) tell(groupID string) {
	of := s.offsets.groups[groupID]
	if of == nil {
		s.sizes.offsets.Delete(groupID)
	} else if d := of.bytes - of.toldBytes; d >= toldBytes || d <= -toldBytes {
		of.toldBytes = of.bytes
		s.sizes.offsets.Store(strings.Clone(groupID), of.bytes)
	}
}

// bytes is what c takes where it is kept; nil takes nothing.
func (c *committed) bytes() int64 {
	if c == nil {
		return 0
	}
	return offsetBytes + int64(len(c.metadata))
}
