package controller

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// Kinds of election, as ElectLeaders numbers them from v1 on.
const (
	preferredElection = 0
	uncleanElection   = 1
)

// Messages of Kafka's Errors.
const (
	notNeeded            = "Leader election not needed for topic partition."
	preferredUnavailable = "The preferred leader was not available."
	eligibleUnavailable  = "Eligible topic partition leaders are not available."
)

// electLeaders is ReplicationControlManager.electLeaders. Without topics it tries every partition, and leaves out of
// the answer those that need no election.
func (v *view) electLeaders(req *kmsg.ElectLeadersRequest) ([]metadata.Record, *kmsg.ElectLeadersResponse) {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	kind := int8(preferredElection)
	if req.Version > 0 {
		kind = req.ElectionType
	}
	if kind != preferredElection && kind != uncleanElection {
		return nil, electNone(req, refuse(kerr.InvalidRequest, "Unknown election type %d", kind))
	}
	var records []metadata.Record
	elect := func(topic string, partitions []int32, all bool) {
		answered := kmsg.NewElectLeadersResponseTopic()
		answered.Topic = topic
		for _, index := range partitions {
			record, f := v.electLeader(topic, index, kind)
			if record != nil {
				records = append(records, record)
			}
			if all && f != nil && f.code == kerr.ElectionNotNeeded {
				continue
			}
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition = index
			p.ErrorCode, p.ErrorMessage = f.fields()
			answered.Partitions = append(answered.Partitions, p)
		}
		resp.Topics = append(resp.Topics, answered)
	}
	if req.Topics == nil {
		for t := range v.image.Topics() {
			elect(t.Name, indexes(t), true)
		}
		return records, resp
	}
	for _, t := range req.Topics {
		elect(t.Topic, t.Partitions, false)
	}
	return records, resp
}

// electNone answers f for the whole and for each partition that was named.
func electNone(req *kmsg.ElectLeadersRequest, f *fault) *kmsg.ElectLeadersResponse {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	resp.ErrorCode = f.code.Code
	for _, t := range req.Topics {
		topic := kmsg.NewElectLeadersResponseTopic()
		topic.Topic = t.Topic
		for _, index := range t.Partitions {
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition = index
			p.ErrorCode, p.ErrorMessage = f.fields()
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func indexes(t *metadata.Topic) []int32 {
	all := make([]int32, len(t.Partitions))
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// electLeader makes the record of one election, or says why there is none.
func (v *view) electLeader(name string, index int32, kind int8) (metadata.Record, *fault) {
	t := v.image.Topic(name)
	if t == nil {
		return nil, refuse(kerr.UnknownTopicOrPartition, "No such topic as %s", name)
	}
	if index < 0 || int(index) >= len(t.Partitions) {
		return nil, refuse(kerr.UnknownTopicOrPartition, "No such partition as %s", fmt.Sprintf("%s-%d", name, index))
	}
	p := &t.Partitions[index]
	if kind == preferredElection && p.Leader == p.Replicas[0] || kind == uncleanElection && p.Leader != noBroker {
		return nil, refuse(kerr.ElectionNotNeeded, notNeeded)
	}
	c := v.change(t, index, v.rulesOf(t))
	c.kind = preferFirst
	if kind == uncleanElection {
		c.kind = loseData
	}
	if r := c.record(); r != nil {
		return r, nil
	}
	if kind == preferredElection {
		return nil, refuse(kerr.PreferredLeaderNotAvailable, preferredUnavailable)
	}
	return nil, refuse(kerr.EligibleLeadersNotAvailable, eligibleUnavailable)
}

// balance gives leadership back to preferred replicas, for at most electionsPerRound partitions.
func (v *view) balance() []metadata.Record {
	return v.electRound(preferredElection, v.index.unpreferred, func(*metadata.Topic) bool { return true })
}

// rescue elects leaders, for at most electionsPerRound partitions, where nobody leads and records may be lost.
func (v *view) rescue() []metadata.Record {
	return v.electRound(uncleanElection, v.index.of(noBroker), func(t *metadata.Topic) bool { return v.rulesOf(t).unclean })
}

func (v *view) electRound(kind int8, among partitionSet, concerns func(*metadata.Topic) bool) []metadata.Record {
	var records []metadata.Record
	for t, index := range among.in(v.image) {
		if !concerns(t) {
			continue
		}
		if r, _ := v.electLeader(t.Name, index, kind); r != nil {
			records = append(records, r)
		}
		if len(records) == electionsPerRound {
			return records
		}
	}
	return records
}
