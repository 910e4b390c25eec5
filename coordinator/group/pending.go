package group

import "strings"

// pendingOffsets are offsets committed in transactions that have not ended, by producer. They count once the
// transaction's commit marker is in the log.
type pendingOffsets struct {
	byProducer map[int64]offsetTable
	producers  map[string]map[int64]struct{} // by group: whose transactions are open
}

func newPendingOffsets() pendingOffsets {
	return pendingOffsets{byProducer: make(map[int64]offsetTable), producers: make(map[string]map[int64]struct{})}
}

func (p *pendingOffsets) slot(producerID int64, groupID, topic string, partition int32) *committed {
	t := p.byProducer[producerID]
	if t == nil {
		t = make(offsetTable)
		p.byProducer[producerID] = t
	}
	if p.producers[groupID] == nil {
		p.producers[strings.Clone(groupID)] = make(map[int64]struct{})
	}
	p.producers[groupID][producerID] = struct{}{}
	return t.slot(groupID, topic, partition)
}

// remove forgets a partition in every open transaction: it was deleted meanwhile.
func (p *pendingOffsets) remove(groupID, topic string, partition int32) {
	for producerID := range p.producers[groupID] {
		p.byProducer[producerID].remove(groupID, topic, partition)
	}
}

// has tells whether an open transaction commits the partition.
func (p *pendingOffsets) has(groupID, topic string, partition int32) bool {
	for producerID := range p.producers[groupID] {
		if p.byProducer[producerID].get(groupID, topic, partition) != nil {
			return true
		}
	}
	return false
}

// open tells whether any transaction of the group is open.
func (p *pendingOffsets) open(groupID string) bool { return len(p.producers[groupID]) > 0 }

// take ends a producer's transaction and returns what it committed.
func (p *pendingOffsets) take(producerID int64) offsetTable {
	t := p.byProducer[producerID]
	delete(p.byProducer, producerID)
	for groupID, producers := range p.producers {
		if delete(producers, producerID); len(producers) == 0 {
			delete(p.producers, groupID)
		}
	}
	return t
}

// EndTransaction moves a producer's pending offsets to the committed ones, or drops them (coordinator.Machine). Of two
// commits of one partition the later record counts, also when compaction has left them in another order.
func (s *shard) EndTransaction(producerID int64, ok bool) {
	pending := s.pending.take(producerID)
	if !ok {
		return
	}
	for groupID, of := range pending {
		of.each(func(topic string, partition int32, c *committed) bool {
			if now := s.offsets.get(groupID, topic, partition); now == nil || c.recordOffset > now.recordOffset {
				*s.offsets.slot(groupID, topic, partition) = *c
			}
			return true
		})
	}
}

// eachOffset visits what the group has committed, and what open transactions would commit besides.
func (s *shard) eachOffset(groupID string, visit func(topic string, partition int32, c *committed) bool) {
	going := true
	s.offsets[groupID].each(func(topic string, partition int32, c *committed) bool {
		going = visit(topic, partition, c)
		return going
	})
	seen := make(offsetTable)
	for producerID := range s.pending.producers[groupID] {
		s.pending.byProducer[producerID][groupID].each(func(topic string, partition int32, c *committed) bool {
			if going && s.offsets.get(groupID, topic, partition) == nil && seen.get(groupID, topic, partition) == nil {
				seen.slot(groupID, topic, partition)
				going = visit(topic, partition, c)
			}
			return going
		})
	}
}
