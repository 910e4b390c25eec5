package handlers

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol"
)

// DescribeTopicPartitions describes partitions in order of topic name and index, in pages (KIP-966).
func DescribeTopicPartitions(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DescribeTopicPartitionsRequest)
	d := &partitionPage{
		b: b, r: r, im: b.Image(), listener: r.Conn.Listener, cursor: req.Cursor,
		remaining: max(1, min(int(b.config().Int("max.request.partition.size.limit")), int(req.ResponsePartitionLimit))),
		resp:      req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse),
	}
	names, refusal := d.names(req)
	if refusal != 0 {
		d.refuse(req, refusal)
		r.Respond(d.resp)
		return
	}
	for _, name := range names {
		if !d.add(name, len(req.Topics) == 0) {
			break
		}
	}
	d.resp.Topics = append(d.resp.Topics, d.denied...)
	r.Respond(d.resp)
}

type partitionPage struct {
	b         *Broker
	r         *protocol.Request
	im        *metadata.Image
	listener  string
	cursor    *kmsg.DescribeTopicPartitionsRequestCursor
	remaining int
	resp      *kmsg.DescribeTopicPartitionsResponse
	denied    []kmsg.DescribeTopicPartitionsResponseTopic // that the client names and may not describe; they come last
}

// names lists the topics from the cursor's on, each once, in order, or returns the code to refuse the request with: the
// cursor does not fit it, or it names the empty topic, which Kafka takes for the cursor that is not there.
func (d *partitionPage) names(req *kmsg.DescribeTopicPartitionsRequest) (names []string, refusal int16) {
	from := ""
	if d.cursor != nil {
		from = d.cursor.Topic
		if d.cursor.Partition < 0 {
			return nil, kerr.InvalidRequest.Code
		}
	}
	if len(req.Topics) == 0 {
		for t := range d.im.TopicsFrom(from) {
			if !d.b.topicAllows(d.r, kmsg.ACLOperationDescribe, t.Name) {
				continue
			}
			names = append(names, t.Name)
			if len(names) > d.remaining { // each has a partition at least, and the one after is the next cursor
				break
			}
		}
		return names, 0
	}
	for _, t := range req.Topics {
		if t.Topic == "" && d.cursor == nil {
			return nil, kerr.UnknownServerError.Code
		}
		if t.Topic >= from {
			names = append(names, t.Topic)
		}
	}
	slices.Sort(names)
	names = d.withoutDenied(slices.Compact(names))
	if d.cursor != nil && !slices.Contains(names, from) {
		return nil, kerr.InvalidRequest.Code
	}
	return names, 0
}

func (d *partitionPage) mayDescribe(name string) bool {
	return d.b.mayTopic(d.r, kmsg.ACLOperationDescribe, name)
}

func (d *partitionPage) withoutDenied(names []string) []string {
	kept, refused := withhold(names, func(name *string) bool { return d.mayDescribe(*name) })
	for _, name := range refused {
		t := kmsg.NewDescribeTopicPartitionsResponseTopic()
		t.Topic, t.ErrorCode = &name, topicUnauthorized
		d.denied = append(d.denied, t)
	}
	return kept
}

func (d *partitionPage) refuse(req *kmsg.DescribeTopicPartitionsRequest, code int16) {
	for _, t := range req.Topics {
		failed := kmsg.NewDescribeTopicPartitionsResponseTopic()
		failed.Topic, failed.ErrorCode = &t.Topic, code
		d.resp.Topics = append(d.resp.Topics, failed)
	}
}

// add describes a topic as far as the page goes; false when the page is full.
func (d *partitionPage) add(name string, onlyExisting bool) bool {
	if d.remaining == 0 {
		d.setNext(name, 0)
		return false
	}
	t := d.im.Topic(name)
	if t == nil {
		if !onlyExisting {
			d.resp.Topics = append(d.resp.Topics, d.absent(name))
		}
		return true
	}
	start := 0
	if d.cursor != nil && d.cursor.Topic == name {
		start = min(int(d.cursor.Partition), len(t.Partitions))
	}
	end := min(start+d.remaining, len(t.Partitions))
	d.resp.Topics = append(d.resp.Topics, d.describe(t, start, end))
	d.remaining -= end - start
	if end < len(t.Partitions) {
		d.setNext(name, int32(end))
		return false
	}
	return true
}

func (d *partitionPage) setNext(topic string, partition int32) {
	next := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	next.Topic, next.Partition = topic, partition
	d.resp.NextCursor = &next
}

func (d *partitionPage) absent(name string) kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.IsInternal, t.AuthorizedOperations = &name, isInternal(name), d.b.topicPermissions(d.r, name)
	t.ErrorCode = kerr.UnknownTopicOrPartition.Code
	if checkTopicName(name) != "" {
		t.ErrorCode = kerr.InvalidTopicException.Code
	}
	return t
}

func (d *partitionPage) describe(t *metadata.Topic, start, end int) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.TopicID, out.IsInternal, out.AuthorizedOperations = &t.Name, t.ID, isInternal(t.Name), d.b.topicPermissions(d.r, t.Name)
	for i := start; i < end; i++ {
		p := &t.Partitions[i]
		v := viewPartition(d.im, p, d.listener)
		part := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		part.Partition, part.LeaderID, part.LeaderEpoch = int32(i), v.leader, p.LeaderEpoch
		part.Replicas, part.ISR, part.OfflineReplicas = p.Replicas, p.ISR, v.offline
		part.EligibleLeaderReplicas, part.LastKnownELR = notNull(p.ELR), notNull(p.LastKnownELR)
		out.Partitions = append(out.Partitions, part)
	}
	return out
}

// notNull makes an empty list of none, where the protocol tells them apart.
func notNull(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}
