package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// createMissing creates topics that a client named. It is told that they are unknown all the same, as Kafka does, and
// finds them when it asks again; one that cannot be created stays unknown.
func (b *Broker) createMissing(ctx context.Context, r *protocol.Request, names []string) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = req.MaxVersion()
	req.TimeoutMillis = int32(b.config().Int("request.timeout.ms"))
	for _, name := range names {
		if isInternal(name) { // these are made with settings of their own
			b.CoordinatorTopics.create(name)
			continue
		}
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1 // the controller's defaults
		req.Topics = append(req.Topics, topic)
	}
	if len(req.Topics) == 0 {
		return
	}
	if _, err := b.change(ctx, r, req); err != nil {
		b.Log.Warn().Err(err).Strs("topics", names).Msg("automatic creation failed")
	}
}
