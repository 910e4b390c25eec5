package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// DeleteRecords serves versions 0–2. With one replica the low watermark is reached at once.
func DeleteRecords(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DeleteRecordsRequest)
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.Version = r.Version
	var topics lookup[string]
	for i := range req.Topics {
		t := &req.Topics[i]
		at, again := topics.add(t.Topic)
		if !again {
			rt := kmsg.NewDeleteRecordsResponseTopic()
			rt.Topic = t.Topic
			resp.Topics = append(resp.Topics, rt)
		}
		rt := &resp.Topics[at]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			a := kmsg.NewDeleteRecordsResponseTopicPartition()
			a.Partition = p.Partition
			a.LowWatermark, a.ErrorCode = b.deleteRecords(t.Topic, p.Partition, p.Offset)
			rt.Partitions = append(rt.Partitions, a)
		}
	}
	r.Respond(resp)
}

func (b *Broker) deleteRecords(topic string, index int32, offset int64) (lowWatermark int64, code int16) {
	p, err := b.Replicas.Partition(topic, index)
	if err != nil {
		return -1, codeOf(err)
	}
	if isInternal(topic) {
		return -1, kerr.InvalidTopicException.Code
	}
	low, err := p.DeleteRecords(offset)
	return low, codeOf(err)
}
