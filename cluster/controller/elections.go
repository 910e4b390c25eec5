package controller

import (
	"slices"

	"grete/cluster/metadata"
)

// noBroker stands for no broker where a broker id is expected.
const noBroker = int32(-1)

// withoutBroker takes a broker out of every ISR that has another member, and elects leaders for what it led.
func (v *view) withoutBroker(id int32) []metadata.Record {
	return v.reelect(id, noBroker, func(p *metadata.Partition) bool { return slices.Contains(p.ISR, id) || p.Leader == id })
}

// withBroker elects the broker, about to be unfenced, where nobody leads and it may.
func (v *view) withBroker(id int32) []metadata.Record {
	return v.reelect(noBroker, id, func(p *metadata.Partition) bool { return p.Leader == noBroker })
}

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
func (v *view) reelect(remove, add int32, concerns func(*metadata.Partition) bool) []metadata.Record {
	var records []metadata.Record
	for t := range v.image.Topics() {
		for i := range t.Partitions {
			if p := &t.Partitions[i]; concerns(p) {
				e := election{view: v, topic: t, partition: p, remove: remove, add: add}
				if r := e.record(int32(i)); r != nil {
					records = append(records, r)
				}
			}
		}
	}
	return records
}

// election is PartitionChangeBuilder's, for one partition: without reassignments, without eligible leader replicas.
type election struct {
	view        *view
	topic       *metadata.Topic
	partition   *metadata.Partition
	remove, add int32
	preferred   bool // the first replica is to lead, if it may, even where another leads
	unclean     bool // data may be lost, whatever the topic says
}

func (e *election) record(index int32) *metadata.PartitionChangeRecord {
	p := e.partition
	isr := slices.DeleteFunc(slices.Clone(p.ISR), func(id int32) bool { return id == e.remove })
	if len(isr) == 0 {
		isr = p.ISR // the last member stays: it alone has everything
	}
	leader, unclean := e.leader(isr)
	r := metadata.NewPartitionChange(e.topic.ID, index)
	if unclean {
		isr, r.LeaderRecoveryState = []int32{leader}, 1
	}
	if leader != p.Leader {
		r.Leader = leader
	}
	if !slices.Equal(isr, p.ISR) {
		r.ISR = isr
	}
	if r.Leader == metadata.LeaderUnchanged && r.ISR == nil {
		return nil
	}
	return r
}

// leader keeps the leader while it may lead, else takes the first replica in sync; else any, where the topic allows data
// to be lost; else nobody leads.
func (e *election) leader(isr []int32) (id int32, unclean bool) {
	p := e.partition
	if first := p.Replicas[0]; e.preferred && slices.Contains(isr, first) && e.eligible(first) {
		return first, false
	}
	if slices.Contains(isr, p.Leader) && e.eligible(p.Leader) {
		return p.Leader, false
	}
	for _, id := range p.Replicas {
		if slices.Contains(isr, id) && e.eligible(id) {
			return id, false
		}
	}
	if e.unclean || e.view.uncleanAllowed(e.topic.Name) {
		if i := slices.IndexFunc(p.Replicas, e.eligible); i >= 0 {
			return p.Replicas[i], true
		}
	}
	return noBroker, false
}

func (e *election) eligible(id int32) bool {
	return id != e.remove && (id == e.add || e.view.active(id))
}

func (v *view) uncleanAllowed(topic string) bool {
	text, _ := v.config.TopicText("unclean.leader.election.enable", v.image.Configs(metadata.TopicResource, topic))
	return text == "true"
}
