package handlers

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/replica"
	"grete/protocol"
)

// timestampSince is the version from which each special timestamp is understood.
var timestampSince = map[int64]int16{
	replica.TimestampLatest:          1,
	replica.TimestampEarliest:        1,
	replica.TimestampMax:             7,
	replica.TimestampEarliestLocal:   8,
	replica.TimestampLatestTiered:    9,
	replica.TimestampEarliestPending: 11,
}

// ListOffsets serves versions 1–11. Nothing is tiered, so that nothing waits and the timeout of version 10 is not
// needed.
func ListOffsets(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Version = r.Version
	var topics lookup[string]
	var seen lookup[offsetKey]
	for i := range req.Topics {
		t := &req.Topics[i]
		if len(t.Partitions) == 0 {
			continue
		}
		at, again := topics.add(t.Topic)
		if !again {
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = t.Topic
			resp.Topics = append(resp.Topics, rt)
		}
		rt := &resp.Topics[at]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if _, twice := seen.add(offsetKey{at, p.Partition}); twice {
				refuseOffset(rt, p.Partition)
				continue
			}
			rt.Partitions = append(rt.Partitions, b.listOffset(req, t.Topic, p))
		}
	}
	r.Respond(resp)
}

type offsetKey struct {
	topicAt   int
	partition int32
}

// refuseOffset answers for a partition that the request names twice, once.
func refuseOffset(rt *kmsg.ListOffsetsResponseTopic, partition int32) {
	for i := range rt.Partitions {
		if rt.Partitions[i].Partition == partition {
			rt.Partitions[i] = failedOffset(partition, kerr.InvalidRequest.Code)
		}
	}
}

func (b *Broker) listOffset(req *kmsg.ListOffsetsRequest, topic string, p *kmsg.ListOffsetsRequestTopicPartition) kmsg.ListOffsetsResponseTopicPartition {
	if req.IsolationLevel < 0 || req.IsolationLevel > 1 {
		return failedOffset(p.Partition, kerr.UnknownServerError.Code)
	}
	if since, special := timestampSince[p.Timestamp]; p.Timestamp < 0 && (!special || req.Version < since) {
		return failedOffset(p.Partition, kerr.UnsupportedVersion.Code)
	}
	part, err := b.Replicas.Partition(topic, p.Partition)
	if err != nil {
		return failedOffset(p.Partition, codeOf(err))
	}
	found, err := part.OffsetFor(replica.OffsetRequest{
		TimestampMs: p.Timestamp, CurrentLeaderEpoch: p.CurrentLeaderEpoch,
		Isolation: offsetIsolation(req), LeaderOnly: req.ReplicaID != debuggingReplica,
	})
	if err != nil {
		return failedOffset(p.Partition, offsetCode(err, req.Version))
	}
	a := failedOffset(p.Partition, 0)
	a.Offset, a.Timestamp, a.LeaderEpoch = found.Offset, found.TimestampMs, found.LeaderEpoch
	return a
}

func offsetIsolation(req *kmsg.ListOffsetsRequest) replica.Isolation {
	switch {
	case req.ReplicaID != -1:
		return replica.ReadLogEnd
	case req.IsolationLevel == 1:
		return replica.ReadCommitted
	}
	return replica.ReadUncommitted
}

// offsetCode: OFFSET_NOT_AVAILABLE is known from version 5 on.
func offsetCode(err error, version int16) int16 {
	if version < 5 && errors.Is(err, replica.ErrOffsetNotAvailable) {
		return kerr.LeaderNotAvailable.Code
	}
	return codeOf(err)
}

func failedOffset(partition int32, code int16) kmsg.ListOffsetsResponseTopicPartition {
	a := kmsg.NewListOffsetsResponseTopicPartition()
	a.Partition, a.ErrorCode, a.Offset, a.Timestamp, a.LeaderEpoch = partition, code, -1, -1, -1
	return a
}
