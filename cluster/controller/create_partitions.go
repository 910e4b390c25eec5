package controller

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// createPartitions is ReplicationControlManager.createPartitions.
func (v *view) createPartitions(req *kmsg.CreatePartitionsRequest) ([]metadata.Record, *kmsg.CreatePartitionsResponse) {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	topics, twice := withoutRepeated(req.Topics, func(t kmsg.CreatePartitionsRequestTopic) string { return t.Topic })
	answer := func(name string, f *fault) {
		r := kmsg.NewCreatePartitionsResponseTopic()
		r.Topic = name
		r.ErrorCode, r.ErrorMessage = f.fields()
		resp.Topics = append(resp.Topics, r)
	}
	for _, name := range twice {
		answer(name, refuse(kerr.InvalidRequest, "Duplicate topic name."))
	}
	var records []metadata.Record
	tooMany := v.checkAdditional(topics)
	for _, t := range topics {
		made, f := []metadata.Record(nil), tooMany
		if f == nil {
			made, f = v.addPartitions(t)
		}
		records = append(records, made...)
		answer(t.Topic, f)
	}
	if req.ValidateOnly {
		records = nil
	}
	return records, resp
}

func (v *view) checkAdditional(topics []kmsg.CreatePartitionsRequestTopic) *fault {
	var sum int64
	for _, t := range topics {
		if known := v.image.Topic(t.Topic); known != nil {
			sum += max(0, int64(t.Count)-int64(len(known.Partitions)))
		}
	}
	if sum > partitionsPerOp {
		return refuse(kerr.PolicyViolation, "Excessively large number of additional partitions per request.")
	}
	return nil
}

func (v *view) addPartitions(t kmsg.CreatePartitionsRequestTopic) ([]metadata.Record, *fault) {
	topic := v.image.Topic(t.Topic)
	if topic == nil {
		return nil, bare(kerr.UnknownTopicOrPartition)
	}
	have := len(topic.Partitions)
	additional := int(t.Count) - have
	switch {
	case additional == 0:
		return nil, refuse(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case additional < 0:
		return nil, refuse(kerr.InvalidPartitions,
			"The topic %s currently has %d partition(s); %d would not be an increase.", t.Topic, have, t.Count)
	case t.Assignment != nil && len(t.Assignment) != additional:
		return nil, refuse(kerr.InvalidReplicaAssignment,
			"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", additional, len(t.Assignment))
	}
	partitions, f := v.layOutMore(t, have, additional, len(topic.Partitions[0].Replicas))
	if f != nil {
		return nil, f
	}
	var records []metadata.Record
	for i, p := range partitions {
		records = append(records, &metadata.PartitionRecord{Index: int32(have + i), TopicID: topic.ID, Partition: p})
	}
	return records, nil
}

func (v *view) layOutMore(t kmsg.CreatePartitionsRequestTopic, have, additional, factor int) ([]metadata.Partition, *fault) {
	if t.Assignment == nil {
		placed, reason := v.place(additional, factor)
		if reason != "" {
			return nil, refuse(kerr.InvalidReplicationFactor, "%s", reason)
		}
		return v.partitionsOf(placed, func(int) *fault { return allInactive(factor) })
	}
	placed := make([][]int32, len(t.Assignment))
	for i, a := range t.Assignment {
		if f := v.checkManual(a.Replicas, factor); f != nil {
			return nil, f
		}
		placed[i] = a.Replicas
	}
	return v.partitionsOf(placed, func(i int) *fault { return manualInactive(have + i) })
}
