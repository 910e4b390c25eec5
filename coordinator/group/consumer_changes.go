package group

import "grete/coordinator"

// changes gathers an operation's records, which go into its Tx only once nothing can refuse it any more.
type changes struct {
	records []change
	applied []func(*coordinator.Tx)
	failed  []func(*coordinator.Tx, error)
}

type change struct {
	key, value []byte
	apply      func(*coordinator.Tx) // instead of replaying the record, or nil
}

func (c *changes) put(k consumerKey, value []byte) {
	c.records = append(c.records, change{key: k.bytes(), value: value})
}

func (c *changes) delete(k consumerKey) { c.put(k, nil) }

// whenApplied is called when the records have been applied; at once if there are none.
func (c *changes) whenApplied(f func(*coordinator.Tx)) { c.applied = append(c.applied, f) }

// whenFailed is called when the records could not be appended.
func (c *changes) whenFailed(f func(*coordinator.Tx, error)) { c.failed = append(c.failed, f) }

func (c *changes) commit(tx *coordinator.Tx) {
	if len(c.records) == 0 {
		for _, f := range c.applied {
			f(tx)
		}
		return
	}
	for _, r := range c.records {
		if r.apply != nil {
			tx.AppendApplied(r.key, r.value, r.apply)
		} else {
			tx.Append(r.key, r.value)
		}
	}
	for _, f := range c.applied {
		tx.OnApplied(f)
	}
	for _, f := range c.failed {
		tx.OnFailed(f)
	}
}

func (c *changes) member(groupID string, m *consumerMember) {
	c.put(consumerKey{consumerMemberType, groupID, m.id}, m.memberValue())
}

func (c *changes) current(groupID string, m *consumerMember) {
	c.put(consumerKey{currentMemberType, groupID, m.id}, m.currentValue())
}

func (c *changes) target(groupID, memberID string, p partitions) {
	c.put(consumerKey{targetMemberType, groupID, memberID}, p.targetValue())
}

func (c *changes) targetEpoch(groupID string, epoch int32, computedMs int64) {
	c.put(consumerKey{kind: targetMetadataType, group: groupID}, epochValue(epoch, computedMs))
}

func (c *changes) epoch(groupID string, epoch int32, metadataHash int64) {
	c.put(consumerKey{kind: consumerGroupType, group: groupID}, epochValue(epoch, metadataHash))
}

// removeMember deletes a member in the order that Kafka insists on when it reads: what it has, what it is to have, what
// it is.
func (c *changes) removeMember(groupID, memberID string) {
	c.delete(consumerKey{currentMemberType, groupID, memberID})
	c.delete(consumerKey{targetMemberType, groupID, memberID})
	c.delete(consumerKey{consumerMemberType, groupID, memberID})
}

// tombstones deletes all of g.
func (c *changes) tombstones(g *consumerGroup) {
	ids := g.memberIDs()
	for _, id := range ids {
		c.delete(consumerKey{currentMemberType, g.id, id})
	}
	for _, id := range ids {
		c.delete(consumerKey{targetMemberType, g.id, id})
	}
	c.delete(consumerKey{kind: targetMetadataType, group: g.id})
	for _, id := range ids {
		c.delete(consumerKey{consumerMemberType, g.id, id})
	}
	for _, regex := range g.sortedRegexes() {
		c.delete(consumerKey{regexType, g.id, regex})
	}
	c.delete(consumerKey{kind: partitionMetadataType, group: g.id})
	c.delete(consumerKey{kind: consumerGroupType, group: g.id})
}

// whole writes all of g.
func (c *changes) whole(g *consumerGroup) {
	ids := g.memberIDs()
	for _, id := range ids {
		c.member(g.id, g.members[id])
	}
	c.epoch(g.id, g.epoch, g.metadataHash)
	for _, id := range ids {
		c.target(g.id, id, g.target[id])
	}
	c.targetEpoch(g.id, g.assignmentEpoch, g.assignmentMs)
	for _, id := range ids {
		c.current(g.id, g.members[id])
	}
}
