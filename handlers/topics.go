package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol"
)

// changeInTime is change of a request that says how long it may take. One that may take no time has run out of it, as
// Kafka's controller finds before it looks at anything else.
func (b *Broker) changeInTime(ctx context.Context, r *protocol.Request, req kmsg.TimeoutRequest) (kmsg.Response, error) {
	if req.Timeout() <= 0 {
		return nil, kerr.RequestTimedOut
	}
	return b.change(ctx, r, req.(kmsg.Request))
}

// CreateTopics is decided by the controller. A topic named twice is its business too.
func CreateTopics(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.CreateTopicsRequest)
	resp, err := b.changeInTime(ctx, r, req)
	if err == nil {
		r.Respond(resp)
		return
	}
	failed := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.ErrorCode = t.Topic, codeOf(err)
		topic.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		failed.Topics = append(failed.Topics, topic)
	}
	r.Respond(failed)
}

// DeleteTopics is decided by the controller. Up to version 5 topics are plain names, later names or ids.
func DeleteTopics(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DeleteTopicsRequest)
	resp, err := b.changeInTime(ctx, r, req)
	if err == nil {
		r.Respond(resp)
		return
	}
	failed := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	fail := func(name *string, id metadata.UUID) {
		topic := kmsg.NewDeleteTopicsResponseTopic()
		topic.Topic, topic.TopicID, topic.ErrorCode = name, id, codeOf(err)
		failed.Topics = append(failed.Topics, topic)
	}
	for _, name := range req.TopicNames {
		fail(&name, metadata.UUID{})
	}
	for _, t := range req.Topics {
		fail(t.Topic, t.TopicID)
	}
	r.Respond(failed)
}

// CreatePartitions is decided by the controller.
func CreatePartitions(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.CreatePartitionsRequest)
	resp, err := b.changeInTime(ctx, r, req)
	if err == nil {
		r.Respond(resp)
		return
	}
	failed := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewCreatePartitionsResponseTopic()
		topic.Topic, topic.ErrorCode = t.Topic, codeOf(err)
		failed.Topics = append(failed.Topics, topic)
	}
	r.Respond(failed)
}
