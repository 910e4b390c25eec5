package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// ElectLeaders is decided by the controller. Version 0 has no error for the whole: each partition gets it.
func ElectLeaders(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.ElectLeadersRequest)
	resp, err := kmsg.Response(nil), context.DeadlineExceeded
	if req.TimeoutMillis > 0 { // else it is over before the controller begins
		resp, err = b.change(ctx, r, req)
	}
	if err == nil {
		r.Respond(resp)
		return
	}
	failed := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	failed.ErrorCode = codeOf(err)
	for _, t := range req.Topics {
		topic := kmsg.NewElectLeadersResponseTopic()
		topic.Topic = t.Topic
		for _, index := range t.Partitions {
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition, p.ErrorCode = index, failed.ErrorCode
			topic.Partitions = append(topic.Partitions, p)
		}
		failed.Topics = append(failed.Topics, topic)
	}
	r.Respond(failed)
}
