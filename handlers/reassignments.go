package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// AlterPartitionReassignments is decided by the controller. What fails as a whole fails for each partition, too.
func AlterPartitionReassignments(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.AlterPartitionAssignmentsRequest)
	resp, err := b.change(ctx, r, req)
	if err == nil {
		r.Respond(resp)
		return
	}
	failed := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	failed.ErrorCode = codeOf(err)
	for _, t := range req.Topics {
		topic := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		topic.Topic = t.Topic
		for _, asked := range t.Partitions {
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition, p.ErrorCode = asked.Partition, failed.ErrorCode
			topic.Partitions = append(topic.Partitions, p)
		}
		failed.Topics = append(failed.Topics, topic)
	}
	r.Respond(failed)
}

// ListPartitionReassignments is answered by the controller, which knows of every reassignment first.
func ListPartitionReassignments(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.ListPartitionReassignmentsRequest)
	resp, err := b.change(ctx, r, req)
	if err != nil {
		failed := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
		failed.ErrorCode = codeOf(err)
		resp = failed
	}
	r.Respond(resp)
}
