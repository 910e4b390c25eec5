package controller

import (
	"slices"

	"grete/cluster/metadata"
)

// withoutBroker takes a broker out of every ISR, and elects leaders for what it led.
func (v *view) withoutBroker(id int32) []metadata.Record {
	return v.reelect(func(p *metadata.Partition) bool { return slices.Contains(p.ISR, id) || p.Leader == id }, func(c *partitionChange) {
		c.isr = without(c.isr, id)
		c.mayLead = func(other int32) bool { return other != id && v.active(other) }
	})
}

// withoutUnclean takes a broker that may have lost the end of its logs out of every ISR, and out of who is eligible (KIP-966).
func (v *view) withoutUnclean(id int32) []metadata.Record {
	return v.reelect(func(p *metadata.Partition) bool {
		return slices.Contains(p.ISR, id) || slices.Contains(p.ELR, id) || p.Leader == id
	}, func(c *partitionChange) {
		c.isr, c.uncleanShutdown = without(c.isr, id), id
		c.mayLead = func(other int32) bool { return other != id && v.active(other) }
	})
}

// withBroker elects the broker, about to be unfenced, where nobody leads and it may.
func (v *view) withBroker(id int32) []metadata.Record {
	return v.reelect(leaderless, func(c *partitionChange) {
		c.mayLead = func(other int32) bool { return other == id || v.active(other) }
	})
}

func leaderless(p *metadata.Partition) bool { return p.Leader == noBroker }

// leadsAny says whether a broker leads a partition.
func (v *view) leadsAny(id int32) bool {
	for t := range v.image.Topics() {
		if slices.ContainsFunc(t.Partitions, func(p metadata.Partition) bool { return p.Leader == id }) {
			return true
		}
	}
	return false
}

// reelect is ReplicationControlManager.generateLeaderAndIsrUpdates over the partitions that concern.
func (v *view) reelect(concerns func(*metadata.Partition) bool, prepare func(*partitionChange)) []metadata.Record {
	var records []metadata.Record
	for t := range v.image.Topics() {
		var rules *topicRules
		for i := range t.Partitions {
			if !concerns(&t.Partitions[i]) {
				continue
			}
			if rules == nil {
				of := v.rulesOf(t)
				rules = &of
			}
			c := v.change(t, int32(i), *rules)
			c.kind = rules.election()
			prepare(c)
			if r := c.record(); r != nil {
				records = append(records, r)
			}
		}
	}
	return records
}
