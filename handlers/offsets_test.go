package handlers

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol/batch"
)

func listRequest(topic string, partition int32, timestampMs int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestampMs, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func listOne(w *wire, version int16, req *kmsg.ListOffsetsRequest) kmsg.ListOffsetsResponseTopicPartition {
	w.t.Helper()
	return call[*kmsg.ListOffsetsResponse](w, version, req).Topics[0].Partitions[0]
}

// timed writes one batch per timestamp.
func (w *wire) timed(topic string, timestampsMs ...int64) {
	w.t.Helper()
	for _, ms := range timestampsMs {
		raw, err := batch.Build(plain, []batch.Record{{TimestampMs: ms, Value: []byte("v")}})
		if err != nil {
			w.t.Fatal(err)
		}
		p := call[*kmsg.ProduceResponse](w, 9, produceRequest(topic, 0, -1, raw)).Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			w.t.Fatalf("%+v", p)
		}
	}
}

func TestListOffsets(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	r.createTopic("empty", 1)
	w := r.dial()
	now := time.Now().UnixMilli()
	w.timed("t", now-3000, now, now-2000, now-1000)
	for version := int16(1); version <= 11; version++ {
		for _, c := range []struct {
			topic       string
			timestampMs int64
			since       int16
			offset, ts  int64
			epoch       int32
		}{
			{"t", -1, 1, 4, -1, 0},
			{"t", -2, 1, 0, -1, 0},
			{"t", -3, 7, 1, now, 0},
			{"t", -4, 8, 0, -1, 0},
			{"t", -5, 9, -1, -1, -1},
			{"t", -6, 11, -1, -1, -1},
			{"t", now - 5000, 1, 0, now - 3000, 0},
			{"t", now - 2000, 1, 1, now, 0},
			{"t", now + 1, 1, -1, -1, -1},
			{"empty", -1, 1, 0, -1, 0},
			{"empty", -3, 7, -1, -1, -1},
			{"empty", now, 1, -1, -1, -1},
		} {
			name := fmt.Sprintf("v%d %s %d", version, c.topic, c.timestampMs)
			p := listOne(w, version, listRequest(c.topic, 0, c.timestampMs))
			if version < c.since {
				if p.ErrorCode != 35 || p.Offset != -1 || p.Timestamp != -1 {
					t.Errorf("%s: %+v, want UNSUPPORTED_VERSION", name, p)
				}
				continue
			}
			if version < 4 {
				c.epoch = -1
			}
			if p.ErrorCode != 0 || p.Offset != c.offset || p.Timestamp != c.ts || p.LeaderEpoch != c.epoch {
				t.Errorf("%s: %+v, want %+v", name, p, c)
			}
		}
	}
}

func TestListOffsetsErrors(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	c := metadata.NewPartitionChange(topicID("t"), 0)
	c.Leader = rigNode
	r.apply(c) // epoch 1
	w := r.dial()
	for _, c := range []struct {
		name      string
		topic     string
		partition int32
		ts        int64
		epoch     int32
		code      int16
	}{
		{"unknown topic", "none", 0, -1, -1, 3},
		{"unknown partition", "t", 3, -1, -1, 3},
		{"old epoch", "t", 0, -1, 0, 74},
		{"new epoch", "t", 0, -2, 2, 75},
		{"current epoch", "t", 0, -1, 1, 0},
		{"no such special timestamp", "t", 0, -7, -1, 35},
	} {
		req := listRequest(c.topic, c.partition, c.ts)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = c.epoch
		if p := listOne(w, 11, req); p.ErrorCode != c.code {
			t.Errorf("%s: %+v, want %d", c.name, p, c.code)
		}
	}
	req := listRequest("t", 0, -1)
	req.Topics = append(req.Topics, listRequest("t", 0, -2).Topics...)
	if topics := call[*kmsg.ListOffsetsResponse](w, 6, req).Topics; len(topics) != 1 || len(topics[0].Partitions) != 1 || topics[0].Partitions[0].ErrorCode != 42 {
		t.Errorf("named twice: %+v", topics)
	}
	req = listRequest("t", 0, -1)
	req.IsolationLevel = 5
	if p := listOne(w, 6, req); p.ErrorCode != -1 {
		t.Errorf("unknown isolation level: %+v", p)
	}
	r.moveLeader("t", 2)
	if p := listOne(w, 6, listRequest("t", 0, -1)); p.ErrorCode != 6 {
		t.Errorf("led elsewhere: %+v", p)
	}
}

func deleteRequest(topic string, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func TestDeleteRecords(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	r.createTopic("compacted", 1, "cleanup.policy", "compact")
	r.createTopic("__consumer_offsets", 1)
	w := r.dial()
	w.produce("t", 0, "a", "b", "c", "d")
	for i, c := range []struct {
		topic     string
		partition int32
		offset    int64
		low       int64
		code      int16
	}{
		{"t", 0, 1, 1, 0},
		{"t", 0, 0, 1, 0}, // below the start: nothing to do
		{"t", 0, 5, -1, 1},
		{"t", 0, -2, -1, 1},
		{"t", 0, -1, 4, 0},
		{"t", 7, 0, -1, 3},
		{"none", 0, 0, -1, 3},
		{"compacted", 0, 0, -1, 44},
		{"__consumer_offsets", 0, 0, -1, 17},
	} {
		for version := int16(0); version <= 2; version++ {
			p := call[*kmsg.DeleteRecordsResponse](w, version, deleteRequest(c.topic, c.partition, c.offset)).Topics[0].Partitions[0]
			if p.LowWatermark != c.low || p.ErrorCode != c.code {
				t.Errorf("%d, version %d: %+v, want %+v", i, version, p, c)
			}
		}
	}
	twice := deleteRequest("t", 0, 1)
	twice.Topics = append(twice.Topics, deleteRequest("t", 0, 99).Topics...)
	if topics := call[*kmsg.DeleteRecordsResponse](w, 2, twice).Topics; len(topics) != 1 || len(topics[0].Partitions) != 1 || topics[0].Partitions[0].ErrorCode != 1 {
		t.Errorf("named twice: %+v", topics)
	}
	if p := fetchOne(w, 12, fetchRequest("t", 0, 3)); p.ErrorCode != 1 {
		t.Errorf("fetch of a deleted offset: %+v", p)
	}
	if p := fetchOne(w, 12, fetchRequest("t", 0, 4)); p.ErrorCode != 0 || p.LogStartOffset != 4 {
		t.Errorf("fetch at the new start: %+v", p)
	}
	if p := listOne(w, 6, listRequest("t", 0, -2)); p.Offset != 4 {
		t.Errorf("earliest: %+v", p)
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	w := r.dial()
	w.produce("t", 0, "a", "b")
	for range 2 {
		c := metadata.NewPartitionChange(topicID("t"), 0)
		c.Leader = rigNode
		r.apply(c)
	}
	w.produce("t", 0, "c") // epoch 2
	for version := int16(2); version <= 4; version++ {
		for _, c := range []struct {
			topic          string
			current, epoch int32
			code           int16
			found          int32
			end            int64
		}{
			{"t", -1, 0, 0, 0, 2},
			{"t", 2, 1, 0, 0, 2},
			{"t", 2, 2, 0, 2, 3},
			{"t", 2, 5, 0, -1, -1},
			{"t", 1, 0, 74, -1, -1},
			{"t", 3, 0, 75, -1, -1},
			{"none", -1, 0, 3, -1, -1},
		} {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.ReplicaID = -1
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = c.topic
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.CurrentLeaderEpoch, rp.LeaderEpoch = c.current, c.epoch
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			p := call[*kmsg.OffsetForLeaderEpochResponse](w, version, req).Topics[0].Partitions[0]
			if p.ErrorCode != c.code || p.LeaderEpoch != c.found || p.EndOffset != c.end {
				t.Errorf("version %d: %+v, want %+v", version, p, c)
			}
		}
	}
}
