package group

import "strings"

// pendingOffsets are offsets committed in transactions that have not ended, by producer. They count once the
// transaction's commit marker is in the log.
type pendingOffsets struct {
	byProducer map[int64]openTransaction
	producers  map[string]map[int64]struct{} // by group: whose transactions are open
	index      topicIndex
}

// openTransaction is what one producer's transaction commits, and the groups that it has committed for, those too whose
// offsets have been deleted since.
type openTransaction struct {
	offsets offsetTable
	groups  map[string]struct{}
}

func newPendingOffsets(index topicIndex) pendingOffsets {
	return pendingOffsets{
		byProducer: make(map[int64]openTransaction), producers: make(map[string]map[int64]struct{}), index: index,
	}
}

func (p *pendingOffsets) slot(producerID int64, groupID, topic string, partition int32) (c *committed, fresh bool) {
	t, ok := p.byProducer[producerID]
	if !ok {
		t = openTransaction{newOffsetTable(p.index), make(map[string]struct{})}
		p.byProducer[producerID] = t
	}
	if _, ok := t.groups[groupID]; !ok {
		p.opened(producerID, t, strings.Clone(groupID))
	}
	return t.offsets.slot(groupID, topic, partition)
}

func (p *pendingOffsets) opened(producerID int64, t openTransaction, groupID string) {
	t.groups[groupID] = struct{}{}
	if p.producers[groupID] == nil {
		p.producers[groupID] = make(map[int64]struct{})
	}
	p.producers[groupID][producerID] = struct{}{}
}

// remove forgets a partition in every open transaction, for it was deleted meanwhile, and tells how much memory comes
// free.
func (p *pendingOffsets) remove(groupID, topic string, partition int32) (bytes int64) {
	for producerID := range p.producers[groupID] {
		bytes += p.byProducer[producerID].offsets.remove(groupID, topic, partition)
	}
	return bytes
}

// has tells whether an open transaction commits the partition.
func (p *pendingOffsets) has(groupID, topic string, partition int32) bool {
	for producerID := range p.producers[groupID] {
		if p.byProducer[producerID].offsets.get(groupID, topic, partition) != nil {
			return true
		}
	}
	return false
}

// open tells whether any transaction of the group is open.
func (p *pendingOffsets) open(groupID string) bool { return len(p.producers[groupID]) > 0 }

// take ends a producer's transaction and returns it. It visits the transaction's own groups alone.
func (p *pendingOffsets) take(producerID int64) openTransaction {
	t := p.byProducer[producerID]
	delete(p.byProducer, producerID)
	for groupID := range t.groups {
		producers := p.producers[groupID]
		if delete(producers, producerID); len(producers) == 0 {
			delete(p.producers, groupID)
		}
	}
	t.offsets.forget()
	return t
}

// EndTransaction moves a producer's pending offsets to the committed ones, or drops them (coordinator.Machine). Of two
// commits of one partition the later record counts, also when compaction has left them in another order.
func (s *shard) EndTransaction(producerID int64, ok bool) {
	pending := s.pending.take(producerID)
	for groupID := range pending.groups {
		s.changed(groupID)
	}
	for groupID, of := range pending.offsets.groups {
		of.each(nil, func(topic string, partition int32, c *committed) bool {
			more := -c.bytes()
			if now := s.offsets.get(groupID, topic, partition); ok && (now == nil || c.recordOffset > now.recordOffset) {
				more -= now.bytes()
				now, _ = s.offsets.slot(groupID, topic, partition)
				before := now.bytes()
				*now = *c
				s.offsets.grow(groupID, now.bytes()-before)
				more += now.bytes()
			}
			s.owe(groupID, more)
			return true
		})
	}
}

// eachOffset visits what the group has committed for these topics (nil: all), and what open transactions would commit
// besides.
func (s *shard) eachOffset(groupID string, topics []string, visit visitor) {
	going := true
	s.offsets.groups[groupID].each(topics, func(topic string, partition int32, c *committed) bool {
		going = visit(topic, partition, c)
		return going
	})
	seen := newOffsetTable(nil)
	for producerID := range s.pending.producers[groupID] {
		of := s.pending.byProducer[producerID].offsets.groups[groupID]
		of.each(topics, func(topic string, partition int32, c *committed) bool {
			if going && s.offsets.get(groupID, topic, partition) == nil && seen.get(groupID, topic, partition) == nil {
				seen.slot(groupID, topic, partition)
				going = visit(topic, partition, c)
			}
			return going
		})
	}
}
