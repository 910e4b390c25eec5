package group

import (
	"maps"
	"slices"
	"strings"
)

// groupOffsets is what one group has committed: topics, and partitions in them.
type groupOffsets struct {
	topics map[string]map[int32]*committed
	count  int
}

// offsetSlot finds or makes the place of one offset. The strings may alias a buffer: they are copied when kept.
func (s *shard) offsetSlot(groupID, topic string, partition int32) *committed {
	of := s.offsets[groupID]
	if of == nil {
		of = &groupOffsets{topics: make(map[string]map[int32]*committed)}
		s.offsets[strings.Clone(groupID)] = of
	}
	ps := of.topics[topic]
	if ps == nil {
		ps = make(map[int32]*committed)
		of.topics[strings.Clone(topic)] = ps
	}
	c := ps[partition]
	if c == nil {
		c = &committed{}
		ps[partition] = c
		of.count++
	}
	return c
}

func (s *shard) removeOffset(groupID, topic string, partition int32) {
	of := s.offsets[groupID]
	if of == nil || of.topics[topic][partition] == nil {
		return
	}
	delete(of.topics[topic], partition)
	of.count--
	if len(of.topics[topic]) == 0 {
		delete(of.topics, topic)
	}
	if of.count == 0 {
		delete(s.offsets, groupID)
	}
}

// offset returns what is committed, or nil.
func (s *shard) offset(groupID, topic string, partition int32) *committed {
	if of := s.offsets[groupID]; of != nil {
		return of.topics[topic][partition]
	}
	return nil
}

// each visits a group's offsets by topic and partition until visit returns false: records come in an order that does
// not depend on a map's.
func (of *groupOffsets) each(visit func(topic string, partition int32, c *committed) bool) {
	if of == nil {
		return
	}
	for _, topic := range slices.Sorted(maps.Keys(of.topics)) {
		ps := of.topics[topic]
		for _, p := range slices.Sorted(maps.Keys(ps)) {
			if !visit(topic, p, ps[p]) {
				return
			}
		}
	}
}
