package controller

import (
	"slices"

	"grete/cluster/metadata"
)

// withoutBroker takes a broker out of every ISR, and elects leaders for what it led.
func (v *view) withoutBroker(id int32) []metadata.Record {
	return v.reelect(id, func(p *metadata.Partition) bool { return slices.Contains(p.ISR, id) || p.Leader == id }, func(c *partitionChange) {
		c.isr = without(c.isr, id)
		c.mayLead = func(other int32) bool { return other != id && v.active(other) }
	})
}

// withoutUnclean takes a broker that may have lost the end of its logs out of every ISR, and out of who is eligible
// (KIP-966).
func (v *view) withoutUnclean(id int32) []metadata.Record {
	return v.reelect(id, func(p *metadata.Partition) bool { return slices.Contains(members(p), id) }, func(c *partitionChange) {
		c.isr, c.uncleanShutdown = without(c.isr, id), id
		c.mayLead = func(other int32) bool { return other != id && v.active(other) }
	})
}

// withBroker elects the broker, about to be unfenced, where nobody leads and it may.
func (v *view) withBroker(id int32) []metadata.Record {
	return v.reelect(noBroker, leaderless, func(c *partitionChange) {
		c.mayLead = func(other int32) bool { return other == id || v.active(other) }
	})
}

func leaderless(p *metadata.Partition) bool { return p.Leader == noBroker }

// reelect is ReplicationControlManager.generateLeaderAndIsrUpdates over the partitions of a broker, or of noBroker,
// that concern.
func (v *view) reelect(of int32, concerns func(*metadata.Partition) bool, prepare func(*partitionChange)) []metadata.Record {
	var records []metadata.Record
	var rules topicRules
	var last *metadata.Topic
	for t, index := range v.index.of(of).in(v.image) {
		if !concerns(&t.Partitions[index]) {
			continue
		}
		if t != last {
			last, rules = t, v.rulesOf(t)
		}
		c := v.change(t, index, rules)
		c.kind = rules.election()
		prepare(c)
		if r := c.record(); r != nil {
			records = append(records, r)
		}
	}
	return records
}
