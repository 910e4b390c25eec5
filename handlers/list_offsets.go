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

// ListOffsets serves versions 1–11. Nothing is tiered, so that nothing waits and the timeout of version 10 is not needed.
func ListOffsets(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Version = r.Version
	twice := duplicateOffsets(req)
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if twice[offsetKey{t.Topic, p.Partition}] {
				rt.Partitions = append(rt.Partitions, failedOffset(p.Partition, kerr.InvalidRequest.Code))
				continue
			}
			rt.Partitions = append(rt.Partitions, b.listOffset(req, t.Topic, p))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	r.Respond(resp)
}

type offsetKey struct {
	topic     string
	partition int32
}

// duplicateOffsets are the partitions that a request names twice: each is refused.
func duplicateOffsets(req *kmsg.ListOffsetsRequest) map[offsetKey]bool {
	var seen lookup[offsetKey]
	var twice map[offsetKey]bool
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			k := offsetKey{req.Topics[i].Topic, req.Topics[i].Partitions[j].Partition}
			if _, dup := seen.add(k); !dup {
				continue
			}
			if twice == nil {
				twice = map[offsetKey]bool{}
			}
			twice[k] = true
		}
	}
	return twice
}

func (b *Broker) listOffset(req *kmsg.ListOffsetsRequest, topic string, p *kmsg.ListOffsetsRequestTopicPartition) kmsg.ListOffsetsResponseTopicPartition {
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
