package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/replica"
	"grete/protocol"
)

// OffsetForLeaderEpoch serves versions 2–4.
func OffsetForLeaderEpoch(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.OffsetForLeaderEpochRequest)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	resp.Version = r.Version
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			a := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			a.Partition = p.Partition
			end, err := b.epochEnd(t.Topic, p)
			a.LeaderEpoch, a.EndOffset, a.ErrorCode = end.Epoch, end.EndOffset, codeOf(err)
			rt.Partitions = append(rt.Partitions, a)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	r.Respond(resp)
}

func (b *Broker) epochEnd(topic string, p *kmsg.OffsetForLeaderEpochRequestTopicPartition) (replica.EpochEnd, error) {
	part, err := b.Replicas.Partition(topic, p.Partition)
	if err != nil {
		return replica.EpochEnd{Epoch: -1, EndOffset: -1}, err
	}
	return part.EpochEndOffset(p.CurrentLeaderEpoch, p.LeaderEpoch)
}
