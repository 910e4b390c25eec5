package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// DeleteRecords serves versions 0–2. With one replica the low watermark is reached at once.
func DeleteRecords(b *Broker, _ context.Context, r *protocol.Request) {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.Version = r.Version
	resp.Topics = deletions(r.Body.(*kmsg.DeleteRecordsRequest))
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			p.LowWatermark, p.ErrorCode = b.deleteRecords(t.Topic, p.Partition, p.LowWatermark)
		}
	}
	r.Respond(resp)
}

// deletions lays out the response, for now with each partition's wanted offset as its low watermark. Of a partition
// that is named twice the last counts.
func deletions(req *kmsg.DeleteRecordsRequest) []kmsg.DeleteRecordsResponseTopic {
	var out []kmsg.DeleteRecordsResponseTopic
	var topics lookup[string]
	var places []lookup[int32] // of each topic's partitions
	for i := range req.Topics {
		t := &req.Topics[i]
		if len(t.Partitions) == 0 {
			continue
		}
		at, again := topics.add(t.Topic)
		if !again {
			rt := kmsg.NewDeleteRecordsResponseTopic()
			rt.Topic = t.Topic
			out, places = append(out, rt), append(places, lookup[int32]{})
		}
		for _, p := range t.Partitions {
			k, twice := places[at].add(p.Partition)
			if !twice {
				a := kmsg.NewDeleteRecordsResponseTopicPartition()
				a.Partition = p.Partition
				out[at].Partitions = append(out[at].Partitions, a)
			}
			out[at].Partitions[k].LowWatermark = p.Offset
		}
	}
	return out
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
