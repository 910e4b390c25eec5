package group

import (
	"maps"
	"slices"
	"strings"
)

// offsetTable is committed offsets by group id; no group in it is empty. Its index knows which groups have offsets of a
// topic: one reason for each table.
type offsetTable struct {
	groups map[string]*groupOffsets
	index  topicIndex
}

// groupOffsets is what one group has committed: topics, and partitions in them.
type groupOffsets struct {
	id     string
	topics map[string]map[int32]*committed
	count  int

	bytes, toldBytes int64 // that they take; that sizes say
}

func newOffsetTable(index topicIndex) offsetTable {
	return offsetTable{groups: make(map[string]*groupOffsets), index: index}
}

// slot finds or makes the place of one offset, and says whether it is fresh. The strings may alias a buffer: they are
// copied when kept.
func (t offsetTable) slot(groupID, topic string, partition int32) (c *committed, fresh bool) {
	of := t.groups[groupID]
	if of == nil {
		of = &groupOffsets{id: strings.Clone(groupID), topics: make(map[string]map[int32]*committed)}
		t.groups[of.id] = of
	}
	ps := of.topics[topic]
	if ps == nil {
		ps = make(map[int32]*committed)
		topic = strings.Clone(topic)
		of.topics[topic] = ps
		t.index.add(topic, of.id)
	}
	if c = ps[partition]; c != nil {
		return c, false
	}
	c = &committed{}
	ps[partition] = c
	of.count++
	of.bytes += c.bytes()
	return c, true
}

// remove tells how much memory comes free.
func (t offsetTable) remove(groupID, topic string, partition int32) (bytes int64) {
	of := t.groups[groupID]
	if of == nil || of.topics[topic][partition] == nil {
		return 0
	}
	bytes = of.topics[topic][partition].bytes()
	delete(of.topics[topic], partition)
	of.count--
	of.bytes -= bytes
	if len(of.topics[topic]) == 0 {
		delete(of.topics, topic)
		t.index.remove(topic, groupID)
	}
	if of.count == 0 {
		delete(t.groups, groupID)
	}
	return bytes
}

// forget takes the table's groups out of its index, for a table that is given up.
func (t offsetTable) forget() {
	for id, of := range t.groups {
		for topic := range of.topics {
			t.index.remove(topic, id)
		}
	}
}

// grow follows the size of an offset of the group.
func (t offsetTable) grow(groupID string, more int64) { t.groups[groupID].bytes += more }

// get returns what is committed, or nil.
func (t offsetTable) get(groupID, topic string, partition int32) *committed {
	if of := t.groups[groupID]; of != nil {
		return of.topics[topic][partition]
	}
	return nil
}

// visitor sees one offset; it returns false to see no more.
type visitor func(topic string, partition int32, c *committed) bool

// each visits the group's offsets of these topics, of all where topics is nil. They come by topic and partition:
// records come in an order that does not depend on a map's.
func (of *groupOffsets) each(topics []string, visit visitor) {
	if of == nil {
		return
	}
	if topics == nil {
		topics = slices.Sorted(maps.Keys(of.topics))
	}
	for _, topic := range topics {
		ps := of.topics[topic]
		for _, p := range slices.Sorted(maps.Keys(ps)) {
			if !visit(topic, p, ps[p]) {
				return
			}
		}
	}
}
