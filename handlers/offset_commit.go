package handlers

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol"
)

// OffsetCommit serves versions 2–10: topics by name, and by id from 10 on. What does not exist is answered here, and
// first, as in Kafka's answer; the rest goes to the coordinator, which may refuse all of it.
func OffsetCommit(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.OffsetCommitRequest)
	answers := b.splitCommit(req)
	respond := func(topics []kmsg.OffsetCommitResponseTopic) {
		resp := kmsg.NewPtrOffsetCommitResponse()
		resp.Version, resp.Topics = r.Version, mergeCommits(answers, topics)
		r.Respond(resp)
	}
	if len(req.Topics) == 0 {
		respond(nil)
		return
	}
	b.Groups.CommitOffsets(req, respond)
}

// splitCommit leaves in req what exists, with both name and id, and returns the errors of the rest.
func (b *Broker) splitCommit(req *kmsg.OffsetCommitRequest) []kmsg.OffsetCommitResponseTopic {
	im := b.Image()
	var answers []kmsg.OffsetCommitResponseTopic
	valid := req.Topics[:0]
	for _, t := range req.Topics {
		known, code := b.commitTopic(im, req.Version, &t)
		bad := kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		t.Partitions = slices.DeleteFunc(t.Partitions, func(p kmsg.OffsetCommitRequestTopicPartition) bool {
			if has(known, p.Partition) {
				return false
			}
			bad.Partitions = append(bad.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
			return true
		})
		if len(bad.Partitions) > 0 || known == nil {
			answers = append(answers, bad)
		}
		if len(t.Partitions) > 0 {
			valid = append(valid, t)
		}
	}
	req.Topics = valid
	return answers
}

// commitTopic finds the topic and completes its name or id; code is what its unknown partitions get.
func (b *Broker) commitTopic(im *metadata.Image, version int16, t *kmsg.OffsetCommitRequestTopic) (known *metadata.Topic, code int16) {
	if version >= 10 {
		known = im.TopicByID(t.TopicID)
		if known == nil {
			return nil, kerr.UnknownTopicID.Code
		}
		t.Topic = known.Name
		return known, kerr.UnknownTopicOrPartition.Code
	}
	if known = im.Topic(t.Topic); known != nil {
		t.TopicID = known.ID
	}
	return known, kerr.UnknownTopicOrPartition.Code
}

// has tells whether t, which may be nil, has that partition.
func has(t *metadata.Topic, partition int32) bool {
	return t != nil && partition >= 0 && int(partition) < len(t.Partitions)
}

func mergeCommits(into, topics []kmsg.OffsetCommitResponseTopic) []kmsg.OffsetCommitResponseTopic {
	type topic struct {
		name string
		id   metadata.UUID
	}
	places := map[topic]int{}
	for i := range slices.Backward(into) { // of those that are there twice, the first
		places[topic{into[i].Topic, into[i].TopicID}] = i
	}
	for _, t := range topics {
		key := topic{t.Topic, t.TopicID}
		i, there := places[key]
		if !there {
			places[key] = len(into)
			into = append(into, t)
			continue
		}
		into[i].Partitions = append(into[i].Partitions, t.Partitions...)
	}
	return into
}
