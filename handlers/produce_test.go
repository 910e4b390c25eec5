package handlers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol/batch"
)

func TestProduceEveryVersion(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	w := r.dial()
	offset := int64(0)
	for version := int16(3); version <= 13; version++ {
		for _, acks := range []int16{-1, 1} {
			resp := call[*kmsg.ProduceResponse](w, version, produceRequest("t", 0, acks, records(t, plain, "a", "b")))
			topic := resp.Topics[0]
			p := topic.Partitions[0]
			if p.ErrorCode != 0 || p.BaseOffset != offset || p.LogAppendTime != -1 {
				t.Fatalf("version %d: %+v, want offset %d", version, p, offset)
			}
			if version >= 5 && p.LogStartOffset != 0 {
				t.Errorf("version %d: log start %d", version, p.LogStartOffset)
			}
			if version >= 13 && topic.TopicID != topicID("t") || version < 13 && topic.Topic != "t" {
				t.Errorf("version %d: topic %q %v", version, topic.Topic, topic.TopicID)
			}
			offset += 2
		}
	}
	got := call[*kmsg.FetchResponse](w, 12, fetchRequest("t", 0, 0)).Topics[0].Partitions[0]
	if n := len(values(t, got.RecordBatches)); n != int(offset) || got.HighWatermark != offset {
		t.Fatalf("%d records, high watermark %d, want %d", n, got.HighWatermark, offset)
	}
}

func TestProduceErrors(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	r.createTopic("compacted", 1, "cleanup.policy", "compact")
	r.createTopic("small", 1, "max.message.bytes", "200")
	r.createTopic("__consumer_offsets", 1)
	w := r.dial()
	good := func() []byte { return records(t, plain, "v") }
	badCRC := good()
	badCRC[len(badCRC)-1] ^= 1
	badMagic, badLength := good(), good()
	badMagic[16], badLength[8] = 3, 0xff
	transactional := plain
	transactional.Transactional, transactional.ProducerID, transactional.ProducerEpoch, transactional.BaseSequence = true, 5, 0, 0
	nullKey, err := batch.Build(plain, []batch.Record{{TimestampMs: time.Now().UnixMilli(), Value: []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		version   int16
		topic     string
		partition int32
		acks      int16
		raw       []byte
		code      int16
		logStart  int64
	}{
		{"unknown topic", 9, "none", 0, 1, good(), 3, -1},
		{"unknown id", 13, "none", 0, 1, good(), 100, -1},
		{"unknown partition", 9, "t", 1, 1, good(), 3, -1},
		{"unknown partition by id", 13, "t", 1, 1, good(), 3, -1},
		{"negative partition", 9, "t", -1, 1, good(), 3, -1},
		{"acks", 9, "t", 0, 2, good(), 21, -1},
		{"internal topic", 9, "__consumer_offsets", 0, 1, good(), 17, -1},
		{"checksum", 9, "t", 0, 1, badCRC, 2, -1},
		{"empty", 9, "t", 0, 1, nil, 87, -1},
		{"two batches", 9, "t", 0, 1, append(good(), good()...), 87, -1},
		{"too large", 9, "small", 0, 1, records(t, plain, strings.Repeat("x", 300)), 10, -1},
		{"null key", 9, "compacted", 0, 1, nullKey, 87, 0},
		{"transactional without id", 9, "t", 0, 1, records(t, transactional, "v"), 53, -1},
		{"magic of the future", 9, "t", 0, 1, badMagic, 2, -1},
		{"negative length", 9, "t", 0, 1, badLength, 2, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := call[*kmsg.ProduceResponse](w, c.version, produceRequest(c.topic, c.partition, c.acks, c.raw)).Topics[0].Partitions[0]
			if p.ErrorCode != c.code || p.BaseOffset != -1 || p.LogStartOffset != c.logStart {
				t.Errorf("%+v, want code %d and log start %d", p, c.code, c.logStart)
			}
			if c.name == "null key" && (len(p.ErrorRecords) != 1 || p.ErrorMessage == nil) {
				t.Errorf("no record errors: %+v", p)
			}
		})
	}
	if p := w.produce("t", 0, "v"); p.BaseOffset != 0 {
		t.Errorf("errors wrote something: next offset %d", p.BaseOffset)
	}
}

// Without a transaction coordinator nobody can say whether a partition is in a transaction.
func TestProduceInTransaction(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 2)
	o := plain
	o.Transactional, o.ProducerID, o.ProducerEpoch, o.BaseSequence = true, 5, 0, 0
	req := produceRequest("t", 0, -1, records(t, o, "v"))
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, produceRequest("t", 1, -1, records(t, plain, "v")).Topics[0].Partitions...)
	req.TransactionID = new("tx")
	parts := call[*kmsg.ProduceResponse](r.dial(), 12, req).Topics[0].Partitions
	if p := parts[0]; p.ErrorCode != 19 || p.ErrorMessage == nil || p.LogStartOffset != -1 {
		t.Errorf("transactional batch: %+v", p)
	}
	if p := parts[1]; p.ErrorCode != 0 {
		t.Errorf("plain batch: %+v", p)
	}
}

// One partition whose bytes are no batch, or end before the producer id, fails them all before anything is written.
func TestProduceOfGarbageWritesNothing(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 2)
	w := r.dial()
	badMagic, short := records(t, plain, "v"), records(t, plain, "v")[:50]
	badMagic[16] = 9
	short[11] = 50 - batch.Overhead
	for _, c := range []struct {
		raw     []byte
		code    int16
		message string
	}{
		{badMagic, 2, "Invalid magic found in record: 9"},
		{short, -1, ""},
	} {
		req := produceRequest("t", 0, -1, records(t, plain, "v"))
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, produceRequest("t", 1, -1, c.raw).Topics[0].Partitions...)
		for _, p := range call[*kmsg.ProduceResponse](w, 9, req).Topics[0].Partitions {
			if p.ErrorCode != c.code || (p.ErrorMessage != nil) != (c.message != "") || c.message != "" && *p.ErrorMessage != c.message {
				t.Errorf("%+v, want %d %q", p, c.code, c.message)
			}
		}
	}
	if p := w.produce("t", 0, "v"); p.BaseOffset != 0 {
		t.Errorf("something was written: next offset %d", p.BaseOffset)
	}
}

func TestProduceNotLeader(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	r.apply(&metadata.RegisterBrokerRecord{BrokerID: 2, BrokerEpoch: 2, Rack: new("r"), Endpoints: []metadata.Endpoint{{Listener: "PLAINTEXT", Host: "other", Port: 7}}})
	r.apply(&metadata.UnfenceBrokerRecord{BrokerID: 2, BrokerEpoch: 2})
	r.moveLeader("t", 2)
	w := r.dial()
	for _, version := range []int16{9, 10, 13} {
		resp := call[*kmsg.ProduceResponse](w, version, produceRequest("t", 0, 1, records(t, plain, "v")))
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != 6 {
			t.Fatalf("version %d: %+v", version, p)
		}
		if version < 10 {
			continue
		}
		if p.CurrentLeader.LeaderID != 2 || p.CurrentLeader.LeaderEpoch != 1 {
			t.Errorf("version %d: leader %+v", version, p.CurrentLeader)
		}
		if len(resp.Brokers) != 1 || resp.Brokers[0].Host != "other" || resp.Brokers[0].Port != 7 || *resp.Brokers[0].Rack != "r" {
			t.Errorf("version %d: brokers %+v", version, resp.Brokers)
		}
	}
}

// A produce that waits for its followers when the leader moves is told where to.
func TestProduceLosesItsLeader(t *testing.T) {
	r := newRig(t)
	id := r.createTopic("t", 1)
	r.apply(&metadata.RegisterBrokerRecord{BrokerID: 2, BrokerEpoch: 2, Endpoints: []metadata.Endpoint{{Listener: "PLAINTEXT", Host: "other", Port: 7}}})
	r.apply(&metadata.UnfenceBrokerRecord{BrokerID: 2, BrokerEpoch: 2})
	c := metadata.NewPartitionChange(id, 0)
	c.ISR, c.Replicas = []int32{rigNode, 2}, []int32{rigNode, 2}
	r.apply(c)
	w := r.dial()
	req := produceRequest("t", 0, -1, records(t, plain, "v"))
	req.SetVersion(10)
	correlation := w.send(req)
	p, err := r.broker.Replicas.Partition("t", 0)
	for err == nil && p.Log().EndOffset() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.moveLeader("t", 2)
	resp := w.receive(req, correlation).(*kmsg.ProduceResponse)
	a := resp.Topics[0].Partitions[0]
	if a.ErrorCode != 6 || a.CurrentLeader.LeaderID != 2 || a.CurrentLeader.LeaderEpoch != 1 || len(resp.Brokers) != 1 || resp.Brokers[0].Host != "other" {
		t.Errorf("%+v", resp)
	}
}

func TestProduceWithoutAcks(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	w := r.dial()
	req := produceRequest("t", 0, 0, records(t, plain, "a"))
	req.SetVersion(9)
	w.send(req)
	if p := w.produce("t", 0, "b"); p.BaseOffset != 1 { // also: no response in between
		t.Fatalf("offset %d after a produce without acks", p.BaseOffset)
	}
	bad := produceRequest("none", 0, 0, records(t, plain, "a"))
	bad.SetVersion(9)
	w.send(bad)
	w.expectClose()
}

func TestProduceBelowVersion3Closes(t *testing.T) {
	for version := int16(0); version < 3; version++ {
		r := newRig(t)
		r.createTopic("t", 1)
		w := r.dial()
		req := produceRequest("t", 0, 1, records(t, plain, "a"))
		req.SetVersion(version)
		w.send(req)
		w.expectClose()
	}
}

func TestProduceOfManyPartitions(t *testing.T) {
	r := newRig(t)
	r.createTopic("a", 3)
	r.createTopic("b", 40)
	req := produceRequest("a", 2, -1, records(t, plain, "v"))
	add := func(topic string, partition int32, raw []byte) {
		req.Topics = append(req.Topics, produceRequest(topic, partition, -1, raw).Topics...)
	}
	for i := range int32(40) {
		add("b", i, records(t, plain, fmt.Sprint(i)))
	}
	req.Topics = append(req.Topics, kmsg.ProduceRequestTopic{Topic: "without-partitions"})
	add("a", 7, records(t, plain, "v"))
	add("a", 2, records(t, plain, "last", "wins"))
	w := r.dial()
	resp := call[*kmsg.ProduceResponse](w, 9, req)
	if len(resp.Topics) != 2 || len(resp.Topics[0].Partitions) != 2 || len(resp.Topics[1].Partitions) != 40 {
		t.Fatalf("shape %+v", resp)
	}
	if p := resp.Topics[0].Partitions[1]; p.Partition != 7 || p.ErrorCode != 3 {
		t.Errorf("unknown partition: %+v", p)
	}
	for i, p := range resp.Topics[1].Partitions {
		if p.Partition != int32(i) || p.ErrorCode != 0 || p.BaseOffset != 0 {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	got := call[*kmsg.FetchResponse](w, 12, fetchRequest("a", 2, 0)).Topics[0].Partitions[0]
	if v := values(t, got.RecordBatches); len(v) != 2 || v[0] != "last" {
		t.Errorf("of a partition named twice, %v was written", v)
	}
}

func TestProduceLogAppendTime(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1, "message.timestamp.type", "LogAppendTime")
	before := time.Now().UnixMilli()
	p := r.dial().produce("t", 0, "v")
	if p.ErrorCode != 0 || p.LogAppendTime < before || p.LogAppendTime > time.Now().UnixMilli() {
		t.Fatalf("%+v", p)
	}
}

func TestProduceIdempotent(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	w := r.dial()
	write := func(epoch int16, sequence int32) kmsg.ProduceResponseTopicPartition {
		o := plain
		o.ProducerID, o.ProducerEpoch, o.BaseSequence = 9, epoch, sequence
		return call[*kmsg.ProduceResponse](w, 9, produceRequest("t", 0, -1, records(t, o, "a", "b"))).Topics[0].Partitions[0]
	}
	for i, c := range []struct {
		epoch    int16
		sequence int32
		code     int16
		base     int64
	}{{1, 0, 0, 0}, {1, 2, 0, 2}, {1, 0, 0, 0}, {1, 2, 0, 2}, {1, 5, 45, -1}, {0, 4, 47, -1}, {2, 0, 0, 4}} {
		if p := write(c.epoch, c.sequence); p.ErrorCode != c.code || p.BaseOffset != c.base {
			t.Errorf("write %d: %+v, want code %d base %d", i, p, c.code, c.base)
		}
	}
}

func TestMinISRIsCappedAtReplicas(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1, "min.insync.replicas", "2")
	if p := r.dial().produce("t", 0, "v"); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
	// With two replicas assigned and one in sync it counts.
	c := metadata.NewPartitionChange(topicID("t"), 0)
	c.Replicas = []int32{rigNode, 2}
	r.apply(c)
	w := r.dial()
	if p := w.produce("t", 0, "v"); p.ErrorCode != 19 {
		t.Fatalf("%+v, want NOT_ENOUGH_REPLICAS", p)
	}
	resp := call[*kmsg.ProduceResponse](w, 9, produceRequest("t", 0, 1, records(t, plain, "v")))
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Fatalf("acks=1: %+v", p)
	}
}

// A second replica in the ISR holds the high watermark, so that acks=all waits; acks=1 does not.
func TestAcksAllWaits(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	c := metadata.NewPartitionChange(topicID("t"), 0)
	c.Replicas, c.ISR = []int32{rigNode, 2}, []int32{rigNode, 2}
	r.apply(c)

	w := r.dial()
	req := produceRequest("t", 0, -1, records(t, plain, "v"))
	req.TimeoutMillis = 100
	started := time.Now()
	if p := call[*kmsg.ProduceResponse](w, 9, req).Topics[0].Partitions[0]; p.ErrorCode != 7 {
		t.Fatalf("%+v, want REQUEST_TIMED_OUT", p)
	}
	if took := time.Since(started); took < 100*time.Millisecond {
		t.Errorf("timed out after %v", took)
	}

	req = produceRequest("t", 0, -1, records(t, plain, "v"))
	req.SetVersion(9)
	id := w.send(req)
	if p := call[*kmsg.ProduceResponse](r.dial(), 9, produceRequest("t", 0, 1, records(t, plain, "v"))).Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Fatalf("acks=1: %+v", p)
	}
	shrink := metadata.NewPartitionChange(topicID("t"), 0)
	shrink.ISR = []int32{rigNode}
	r.apply(shrink)
	if p := w.receive(req, id).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Fatalf("after the ISR shrank: %+v", p)
	}
}

func TestLostLeadershipFailsWaitingProduce(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	c := metadata.NewPartitionChange(topicID("t"), 0)
	c.Replicas, c.ISR = []int32{rigNode, 2}, []int32{rigNode, 2}
	r.apply(c)
	w := r.dial()
	req := produceRequest("t", 0, -1, records(t, plain, "v"))
	req.SetVersion(9)
	id := w.send(req)
	time.Sleep(20 * time.Millisecond)
	r.moveLeader("t", 2)
	if p := w.receive(req, id).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 6 {
		t.Fatalf("%+v", p)
	}
}
