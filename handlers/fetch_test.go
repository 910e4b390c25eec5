package handlers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

func fetchOne(w *wire, version int16, req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	w.t.Helper()
	resp := call[*kmsg.FetchResponse](w, version, req)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		w.t.Fatalf("version %d: %+v", version, resp)
	}
	return resp.Topics[0].Partitions[0]
}

func TestFetchEveryVersion(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 2)
	w := r.dial()
	w.produce("t", 1, "a", "b")
	w.produce("t", 1, "c")
	for version := int16(4); version <= 18; version++ {
		p := fetchOne(w, version, fetchRequest("t", 1, 0))
		if p.ErrorCode != 0 || p.HighWatermark != 3 || p.LastStableOffset != 3 || version >= 5 && p.LogStartOffset != 0 ||
			p.AbortedTransactions != nil || p.PreferredReadReplica != -1 {
			t.Errorf("version %d: %+v", version, p)
		}
		if got := values(t, p.RecordBatches); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("version %d: records %v", version, got)
		}
		req := fetchRequest("t", 1, 3)
		req.IsolationLevel = 1
		p = fetchOne(w, version, req)
		if p.ErrorCode != 0 || p.RecordBatches == nil || len(p.RecordBatches) != 0 || p.AbortedTransactions == nil {
			t.Errorf("version %d, at the end, read_committed: %+v", version, p)
		}
	}
}

func TestFetchErrors(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	r.createTopic("moved", 1)
	r.apply(&metadata.RegisterBrokerRecord{BrokerID: 2, BrokerEpoch: 2, Endpoints: []metadata.Endpoint{{Listener: "PLAINTEXT", Host: "other", Port: 7}}})
	r.apply(&metadata.UnfenceBrokerRecord{BrokerID: 2, BrokerEpoch: 2})
	r.moveLeader("moved", 2)
	c := metadata.NewPartitionChange(topicID("t"), 0) // epoch 1
	c.Leader = rigNode
	r.apply(c)
	w := r.dial()
	w.produce("t", 0, "a")
	for _, c := range []struct {
		name    string
		version int16
		topic   string
		index   int32
		offset  int64
		epoch   int32
		code    int16
	}{
		{"unknown topic", 12, "none", 0, 0, -1, 3},
		{"unknown id", 13, "none", 0, 0, -1, 100},
		{"unknown partition", 12, "t", 4, 0, -1, 3},
		{"unknown partition by id", 13, "t", 4, 0, -1, 3},
		{"past the end", 12, "t", 0, 2, -1, 1},
		{"negative offset", 12, "t", 0, -1, -1, 1},
		{"old epoch", 12, "t", 0, 0, 0, 74},
		{"new epoch", 12, "t", 0, 0, 2, 75},
		{"led elsewhere", 10, "moved", 0, 0, -1, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := fetchRequest(c.topic, c.index, c.offset)
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = c.epoch
			p := fetchOne(w, c.version, req)
			if p.ErrorCode != c.code || p.HighWatermark != -1 || p.LogStartOffset != -1 || p.RecordBatches == nil {
				t.Errorf("%+v, want code %d", p, c.code)
			}
		})
	}
	r.apply(&metadata.TopicRecord{Name: "far", ID: topicID("far")}, &metadata.PartitionRecord{TopicID: topicID("far"), Partition: metadata.Partition{
		Replicas: []int32{2}, ISR: []int32{2}, Leader: 2, LeaderEpoch: 5,
	}})
	resp := call[*kmsg.FetchResponse](w, 16, fetchRequest("far", 0, 0))
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 6 || p.CurrentLeader.LeaderID != 2 || p.CurrentLeader.LeaderEpoch != 5 || len(resp.Brokers) != 1 || resp.Brokers[0].Host != "other" {
		t.Errorf("leader is not told: %+v", resp)
	}
}

// No follower is assigned to a partition of a single broker; what it is told depends on whether it knows the epoch.
func TestFetchOfFollower(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	w := r.dial()
	for epoch, code := range map[int32]int16{-1: 6, 0: 75} {
		req := fetchRequest("t", 0, 0)
		req.ReplicaState.ID = 7
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		resp := call[*kmsg.FetchResponse](w, 17, req)
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != code || len(resp.Brokers) != 0 {
			t.Errorf("epoch %d: %+v", epoch, resp)
		}
	}
}

// Of what the cluster does not know, unknown ids are answered first, then unknown partitions, after the good ones.
func TestFetchOrderOfErrors(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	req := fetchRequest("t", 9, 0)
	req.Topics = append(req.Topics, fetchTopic("none", 0, 0), fetchTopic("t", 0, 0))
	var got []string
	for _, topic := range call[*kmsg.FetchResponse](r.dial(), 13, req).Topics {
		for _, p := range topic.Partitions {
			got = append(got, fmt.Sprintf("%c%d:%d", topic.TopicID[0], p.Partition, p.ErrorCode))
		}
	}
	if want := []string{"t0:0", "n0:100", "t9:3"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestFetchOddNumbers(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	w := r.dial()
	w.produce("t", 0, "a")
	req := fetchRequest("t", 0, 0)
	req.IsolationLevel = 5
	resp := call[*kmsg.FetchResponse](w, 12, req)
	if resp.ErrorCode != -1 || resp.Topics[0].Partitions[0].ErrorCode != -1 {
		t.Errorf("unknown isolation level: %+v", resp)
	}
	if resp = call[*kmsg.FetchResponse](w, 13, req); resp.ErrorCode != -1 || len(resp.Topics) != 0 {
		t.Errorf("unknown isolation level: %+v", resp)
	}
	for offset, code := range map[int64]int16{0: -1, 1: 0} { // only where there is something to read
		req = fetchRequest("t", 0, offset)
		req.MaxBytes = -1
		if p := fetchOne(w, 12, req); p.ErrorCode != code {
			t.Errorf("negative size at offset %d: %+v", offset, p)
		}
	}
}

func TestFetchDivergingEpoch(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	w := r.dial()
	w.produce("t", 0, "a", "b") // epoch 0: offsets 0, 1
	for range 2 {
		c := metadata.NewPartitionChange(topicID("t"), 0)
		c.Leader = rigNode
		r.apply(c)
	}
	w.produce("t", 0, "c") // epoch 2: offset 2
	fetch := func(offset int64, lastEpoch int32) kmsg.FetchResponseTopicPartition {
		req := fetchRequest("t", 0, offset)
		req.MaxWaitMillis = 60_000 // a divergence ends the wait
		req.Topics[0].Partitions[0].LastFetchedEpoch = lastEpoch
		return fetchOne(w, 12, req)
	}
	if p := fetch(3, 0); p.ErrorCode != 0 || p.DivergingEpoch.Epoch != 0 || p.DivergingEpoch.EndOffset != 2 || len(p.RecordBatches) != 0 {
		t.Errorf("past the end of epoch 0: %+v", p)
	}
	if p := fetch(2, 1); p.DivergingEpoch.Epoch != 0 || p.DivergingEpoch.EndOffset != 2 {
		t.Errorf("of an epoch that wrote nothing: %+v", p)
	}
	if p := fetch(2, 0); p.DivergingEpoch.Epoch != -1 || len(p.RecordBatches) == 0 {
		t.Errorf("in agreement: %+v", p)
	}
	if p := fetch(2, 9); p.ErrorCode != 1 {
		t.Errorf("epoch of the future: %+v", p)
	}
}

func TestFetchLimits(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 3)
	w := r.dial()
	big := strings.Repeat("x", 10_000)
	for p := range int32(3) {
		for range 3 {
			w.produce("t", p, big)
		}
	}
	request := func(maxBytes, partitionMax int32) *kmsg.FetchRequest {
		req := fetchRequest("t", 0, 0)
		for p := int32(1); p < 3; p++ {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchTopic("t", p, 0).Partitions...)
		}
		req.MaxBytes = maxBytes
		for i := range req.Topics[0].Partitions {
			req.Topics[0].Partitions[i].PartitionMaxBytes = partitionMax
		}
		return req
	}
	for _, c := range []struct {
		maxBytes, partitionMax int32
		want                   [3]int // records
	}{
		{0, 0, [3]int{1, 0, 0}},         // the first batch comes whole
		{1 << 20, 0, [3]int{1, 0, 0}},   // also against the partition's limit
		{1 << 20, 100, [3]int{1, 0, 0}}, // a cut first batch is none
		{15_000, 1 << 20, [3]int{1, 0, 0}},
		{1 << 20, 1 << 20, [3]int{3, 3, 3}},
		{1 << 20, 25_000, [3]int{2, 2, 2}},
	} {
		resp := call[*kmsg.FetchResponse](w, 12, request(c.maxBytes, c.partitionMax))
		var got [3]int
		for i, p := range resp.Topics[0].Partitions {
			got[i] = len(values(t, p.RecordBatches))
			if limit := max(int(c.partitionMax), 10_200); len(p.RecordBatches) > limit {
				t.Errorf("%+v: partition %d sent %d bytes", c, i, len(p.RecordBatches))
			}
		}
		if got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

func TestFetchLongPoll(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 2)
	w, producer := r.dial(), r.dial()
	parked := func(minBytes, maxWaitMs int32, req *kmsg.FetchRequest) (*kmsg.FetchRequest, int32, time.Time) {
		req.MinBytes, req.MaxWaitMillis = minBytes, maxWaitMs
		req.SetVersion(12)
		started := time.Now() // before it is sent: the broker's wait may begin before send returns
		return req, w.send(req), started
	}
	finish := func(req *kmsg.FetchRequest, id int32) *kmsg.FetchResponse {
		t.Helper()
		return w.receive(req, id).(*kmsg.FetchResponse)
	}

	t.Run("data wakes it", func(t *testing.T) {
		req, id, started := parked(1, 30_000, fetchRequest("t", 0, 0))
		time.Sleep(20 * time.Millisecond)
		producer.produce("t", 0, "a")
		resp := finish(req, id)
		if got := values(t, resp.Topics[0].Partitions[0].RecordBatches); len(got) != 1 || time.Since(started) > 5*time.Second {
			t.Fatalf("%v after %v", got, time.Since(started))
		}
	})
	t.Run("time is up", func(t *testing.T) {
		req, id, started := parked(1, 100, fetchRequest("t", 1, 0))
		resp := finish(req, id)
		if took := time.Since(started); took < 100*time.Millisecond || took > 5*time.Second {
			t.Errorf("answered after %v", took)
		}
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) != 0 || p.HighWatermark != 0 {
			t.Errorf("%+v", p)
		}
	})
	t.Run("min bytes over two partitions", func(t *testing.T) {
		req := fetchRequest("t", 0, 1)
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchTopic("t", 1, 0).Partitions...)
		req, id, started := parked(2000, 30_000, req)
		producer.produce("t", 0, strings.Repeat("x", 1000))
		if frame, err := w.frame(50 * time.Millisecond); err == nil {
			t.Fatalf("answered too early: %x", frame[:20])
		}
		producer.produce("t", 1, strings.Repeat("y", 1000))
		resp := finish(req, id)
		parts := resp.Topics[0].Partitions
		if len(values(t, parts[0].RecordBatches)) != 1 || len(values(t, parts[1].RecordBatches)) != 1 || time.Since(started) > 5*time.Second {
			t.Fatalf("%d and %d bytes after %v", len(parts[0].RecordBatches), len(parts[1].RecordBatches), time.Since(started))
		}
	})
	t.Run("an unknown partition does not end it", func(t *testing.T) {
		req := fetchRequest("t", 0, 2)
		req.Topics = append(req.Topics, fetchTopic("none", 0, 0))
		req, id, started := parked(1, 100, req)
		resp := finish(req, id)
		if took := time.Since(started); took < 100*time.Millisecond {
			t.Errorf("answered after %v", took)
		}
		if len(resp.Topics) != 2 || resp.Topics[1].Partitions[0].ErrorCode != 3 {
			t.Errorf("%+v", resp)
		}
	})
	t.Run("out of range ends it", func(t *testing.T) {
		req, id, started := parked(1, 30_000, fetchRequest("t", 0, 99))
		if p := finish(req, id).Topics[0].Partitions[0]; p.ErrorCode != 1 || time.Since(started) > 5*time.Second {
			t.Errorf("%+v after %v", p, time.Since(started))
		}
	})
	t.Run("lost leadership ends it", func(t *testing.T) {
		r.createTopic("moving", 1)
		req := fetchRequest("moving", 0, 0)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = 0 // as consumers do; without it, any replica serves
		req, id, _ := parked(1, 30_000, req)
		time.Sleep(20 * time.Millisecond)
		r.moveLeader("moving", 2)
		if p := finish(req, id).Topics[0].Partitions[0]; p.ErrorCode != 74 {
			t.Errorf("%+v", p)
		}
	})
	t.Run("deletion ends it", func(t *testing.T) {
		id := r.createTopic("gone", 1)
		req, correlation, _ := parked(1, 30_000, fetchRequest("gone", 0, 0))
		time.Sleep(20 * time.Millisecond)
		r.apply(&metadata.RemoveTopicRecord{ID: id})
		if p := finish(req, correlation).Topics[0].Partitions[0]; p.ErrorCode != 6 && p.ErrorCode != 3 {
			t.Errorf("%+v", p)
		}
	})
}

// A parked fetch whose client is gone leaves nothing behind.
func TestParkedFetchOfClosedConnection(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	w := r.dial()
	req := fetchRequest("t", 0, 0)
	req.MaxWaitMillis = 3_600_000
	req.SetVersion(12)
	w.send(req)
	p, err := r.broker.Replicas.Partition("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "parked", func() bool { return p.Waiting() == 1 })
	w.c.Close()
	eventually(t, "dropped", func() bool { return p.Waiting() == 0 })
}

// A broker that stops answers parked fetches with what there is, rather than to wait for them.
func TestDrainEndsParkedFetches(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	w := r.dial()
	req := fetchRequest("t", 0, 0)
	req.MaxWaitMillis = 3_600_000
	req.SetVersion(12)
	id := w.send(req)
	p, err := r.broker.Replicas.Partition("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "parked", func() bool { return p.Waiting() == 1 })
	r.broker.Replicas.Drain()
	if a := w.receive(req, id).(*kmsg.FetchResponse).Topics[0].Partitions[0]; a.ErrorCode != 0 || len(a.RecordBatches) != 0 {
		t.Errorf("%+v", a)
	}
	w.receive(req, w.send(req)) // and parks no more
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never %s", what)
}

func TestFetchSession(t *testing.T) {
	for _, version := range []int16{7, 12, 13, 18} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			r := newRig(t)
			r.createTopic("a", 2)
			r.createTopic("b", 1)
			w := r.dial()
			req := fetchRequest("a", 0, 0)
			req.SessionEpoch = 0
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchTopic("a", 1, 0).Partitions...)
			req.Topics = append(req.Topics, fetchTopic("b", 0, 0))
			full := call[*kmsg.FetchResponse](w, version, req)
			if full.SessionID == 0 || len(full.Topics) != 2 {
				t.Fatalf("full fetch: %+v", full)
			}
			id, epoch := full.SessionID, int32(0)
			next := func(change func(*kmsg.FetchRequest)) *kmsg.FetchResponse {
				t.Helper()
				epoch++
				req := fetchRequest("a", 0, 0)
				req.Topics = nil
				req.SessionID, req.SessionEpoch = id, epoch
				if change != nil {
					change(req)
				}
				return call[*kmsg.FetchResponse](w, version, req)
			}
			if resp := next(nil); resp.SessionID != id || len(resp.Topics) != 0 || resp.ErrorCode != 0 {
				t.Fatalf("nothing changed, but %+v", resp)
			}
			r.dial().produce("a", 1, "x")
			resp := next(nil)
			if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != 1 {
				t.Fatalf("one partition changed, but %+v", resp)
			}
			resp = next(func(req *kmsg.FetchRequest) { req.Topics = []kmsg.FetchRequestTopic{fetchTopic("a", 1, 1)} })
			if len(resp.Topics) != 0 {
				t.Fatalf("read to the end, but %+v", resp)
			}
			resp = next(func(req *kmsg.FetchRequest) { req.Topics = []kmsg.FetchRequestTopic{fetchTopic("a", 0, 9)} })
			if len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 1 {
				t.Fatalf("out of range: %+v", resp)
			}
			if resp = next(nil); len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 1 {
				t.Fatalf("an error must be repeated: %+v", resp)
			}
			forget := func(topic string, partitions ...int32) func(*kmsg.FetchRequest) {
				return func(req *kmsg.FetchRequest) {
					f := kmsg.NewFetchRequestForgottenTopic()
					f.Topic, f.TopicID, f.Partitions = topic, topicID(topic), partitions
					req.ForgottenTopics = append(req.ForgottenTopics, f)
				}
			}
			if resp = next(forget("a", 0)); len(resp.Topics) != 0 {
				t.Fatalf("forgotten, but %+v", resp)
			}
			if resp = call[*kmsg.FetchResponse](r.dial(), version, incremental(id, epoch)); resp.ErrorCode != 71 || resp.SessionID != 0 {
				t.Fatalf("old epoch: %+v", resp)
			}
			if resp = call[*kmsg.FetchResponse](w, version, incremental(id+1, 1)); resp.ErrorCode != 70 {
				t.Fatalf("unknown session: %+v", resp)
			}
			if other := switchNaming(version); other != 0 {
				if resp = call[*kmsg.FetchResponse](w, other, incremental(id, epoch+1)); resp.ErrorCode != 106 {
					t.Fatalf("version %d in a session of version %d: %+v", other, version, resp)
				}
			}
			if resp = next(func(req *kmsg.FetchRequest) { forget("a", 1)(req); forget("b", 0)(req) }); resp.SessionID != 0 || resp.ErrorCode != 0 {
				t.Fatalf("everything forgotten: %+v", resp)
			}
			if resp = next(nil); resp.ErrorCode != 70 {
				t.Fatalf("an empty session must be gone: %+v", resp)
			}
		})
	}
}

func incremental(id, epoch int32) *kmsg.FetchRequest {
	req := fetchRequest("a", 0, 0)
	req.Topics, req.SessionID, req.SessionEpoch = nil, id, epoch
	return req
}

// switchNaming is a version that names topics the other way.
func switchNaming(version int16) int16 {
	if version >= 13 {
		return 12
	}
	return 13
}

// Partitions that returned records go to the back, so that a busy one does not starve the others.
func TestFetchSessionRotates(t *testing.T) {
	r := newRig(t)
	r.createTopic("a", 3)
	w := r.dial()
	for p := range int32(3) {
		for range 4 {
			w.produce("a", p, strings.Repeat("x", 1000))
		}
	}
	req := fetchRequest("a", 0, 0)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchTopic("a", 1, 0).Partitions...)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchTopic("a", 2, 0).Partitions...)
	req.SessionEpoch, req.MaxBytes = 0, 0
	resp := call[*kmsg.FetchResponse](w, 12, req)
	var served []int32
	for epoch := int32(1); epoch < 7; epoch++ {
		next := incremental(resp.SessionID, epoch)
		next.MaxBytes = 0
		for _, topic := range call[*kmsg.FetchResponse](w, 12, next).Topics {
			for _, p := range topic.Partitions {
				if len(p.RecordBatches) > 0 {
					served = append(served, p.Partition)
				}
			}
		}
	}
	if !slices.Equal(served, []int32{0, 1, 2, 0, 1, 2}) {
		t.Errorf("served in order %v", served)
	}
}

// Responses leave in the order of their requests, even when the first is parked.
func TestParkedFetchKeepsOrder(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	w := r.dial()
	fetch := fetchRequest("t", 0, 0)
	fetch.MaxWaitMillis = 30_000
	fetch.SetVersion(12)
	first := w.send(fetch)
	produce := produceRequest("t", 0, 1, records(t, plain, "a"))
	produce.SetVersion(9)
	second := w.send(produce) // pipelined: it is what the fetch waits for
	if p := w.receive(fetch, first).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.RecordBatches) == 0 {
		t.Error("the fetch was not woken by the produce behind it")
	}
	w.receive(produce, second)
}
