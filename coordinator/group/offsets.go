package group

import (
	"maps"
	"slices"
	"strings"
)

// offsetTable is committed offsets by group id; no group in it is empty.
type offsetTable map[string]*groupOffsets

// groupOffsets is what one group has committed: topics, and partitions in them.
type groupOffsets struct {
	topics map[string]map[int32]*committed
	count  int
}

// slot finds or makes the place of one offset. The strings may alias a buffer: they are copied when kept.
func (t offsetTable) slot(groupID, topic string, partition int32) *committed {
	of := t[groupID]
	if of == nil {
		of = &groupOffsets{topics: make(map[string]map[int32]*committed)}
		t[strings.Clone(groupID)] = of
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

func (t offsetTable) remove(groupID, topic string, partition int32) {
	of := t[groupID]
	if of == nil || of.topics[topic][partition] == nil {
		return
	}
	delete(of.topics[topic], partition)
	of.count--
	if len(of.topics[topic]) == 0 {
		delete(of.topics, topic)
	}
	if of.count == 0 {
		delete(t, groupID)
	}
}

// get returns what is committed, or nil.
func (t offsetTable) get(groupID, topic string, partition int32) *committed {
	if of := t[groupID]; of != nil {
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
