package handlers

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/protocol"
	"grete/protocol/batch"
)

// newTxnRig is a broker with both its coordinators and the topic t of two partitions.
func newTxnRig(t *testing.T) *rig {
	r := newGroupRig(t)
	maker := topicMaker{r}
	for name, partitions := range map[string]int32{transactionsTopic: 3, offsetsTopic: 5} {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: partitions}}
		if _, err := maker.Do(t.Context(), protocol.Principal{}, req); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// txnClient is a transactional producer on the wire.
type txnClient struct {
	*wire
	r     *rig
	id    string
	pid   int64
	epoch int16
	seq   map[int32]int32
}

func (r *rig) txnClient(id string) *txnClient {
	r.t.Helper()
	c := &txnClient{wire: r.dial(), r: r, id: id}
	c.init()
	c.awaitGroup()
	return c
}

// awaitGroup asks until the coordinator of group g has loaded.
func (c *txnClient) awaitGroup() {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = "g"
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		resp := call[*kmsg.OffsetFetchResponse](c.wire, 7, req)
		if resp.ErrorCode == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("OffsetFetch: %d", resp.ErrorCode)
		}
	}
}

// init asks until the coordinator is there and no transaction is ending.
func (c *txnClient) init() {
	c.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &c.id, 60_000
		resp := call[*kmsg.InitProducerIDResponse](c.wire, 4, req)
		if resp.ErrorCode == 0 {
			c.pid, c.epoch, c.seq = resp.ProducerID, resp.ProducerEpoch, map[int32]int32{}
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("InitProducerId: %d", resp.ErrorCode)
		}
	}
}

func (c *txnClient) add(version int16, partition int32) int16 {
	c.t.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = c.id, c.pid, c.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: []int32{partition}}}
	return call[*kmsg.AddPartitionsToTxnResponse](c.wire, version, req).Topics[0].Partitions[0].ErrorCode
}

func (c *txnClient) send(version int16, partition int32, value string) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	raw := records(c.t, batch.BuildOptions{
		ProducerID: c.pid, ProducerEpoch: c.epoch, BaseSequence: c.seq[partition], Transactional: true, LeaderEpoch: -1,
	}, value)
	req := produceRequest("t", partition, -1, raw)
	req.TransactionID = &c.id
	a := call[*kmsg.ProduceResponse](c.wire, version, req).Topics[0].Partitions[0]
	if a.ErrorCode == 0 {
		c.seq[partition]++
	}
	return a
}

func (c *txnClient) end(version int16, commit bool) int16 {
	c.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = c.id, c.pid, c.epoch, commit
	resp := call[*kmsg.EndTxnResponse](c.wire, version, req)
	if version >= 5 && resp.ErrorCode == 0 {
		c.pid, c.epoch, c.seq = resp.ProducerID, resp.ProducerEpoch, map[int32]int32{}
	}
	return resp.ErrorCode
}

func (c *txnClient) offsets(version int16, offset int64) int16 {
	c.t.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = c.id, "g", c.pid, c.epoch
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = "t", topicID("t")
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset = offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return call[*kmsg.TxnOffsetCommitResponse](c.wire, version, req).Topics[0].Partitions[0].ErrorCode
}

// committed is the group's offset of t-0, and the code when only stable ones are asked for.
func (c *txnClient) committed() (offset int64, stableCode int16) {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	offset = call[*kmsg.OffsetFetchResponse](c.wire, 7, req).Topics[0].Partitions[0].Offset
	req.RequireStable = true
	return offset, call[*kmsg.OffsetFetchResponse](c.wire, 7, req).Topics[0].Partitions[0].ErrorCode
}

// readCommitted waits for minBytes of what is committed from offset on.
func (c *txnClient) readCommitted(offset int64, minBytes int32) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	req := fetchRequest("t", 0, offset)
	req.IsolationLevel, req.MaxWaitMillis, req.MinBytes = 1, 5000, minBytes
	return call[*kmsg.FetchResponse](c.wire, 11, req).Topics[0].Partitions[0]
}

// A transaction of each kind of client: what it wrote, and the offsets it committed, appear with its end.
func TestTransactions(t *testing.T) {
	for _, v := range []struct{ add, produce, offsets, end int16 }{{0, 3, 0, 0}, {3, 9, 3, 4}, {3, 11, 4, 4}, {-1, 12, 5, 5}, {-1, 13, 6, 5}} {
		t.Run(fmt.Sprintf("produce v%d", v.produce), func(t *testing.T) {
			r := newTxnRig(t)
			c := r.txnClient("x")
			for i, commit := range []bool{true, false} {
				if v.add >= 0 {
					if code := c.add(v.add, 0); code != 0 {
						t.Fatalf("add: %d", code)
					}
					c.addOffsets()
				}
				if a := c.send(v.produce, 0, fmt.Sprint(i)); a.ErrorCode != 0 {
					t.Fatalf("produce: %d", a.ErrorCode)
				}
				if code := c.offsets(v.offsets, int64(10+i)); code != 0 {
					t.Fatalf("offsets: %d", code)
				}
				if offset, code := c.committed(); offset != []int64{-1, 10}[i] || code != kerr.UnstableOffsetCommit.Code {
					t.Fatalf("while open: offset %d, stable %d", offset, code)
				}
				if code := c.end(v.end, commit); code != 0 {
					t.Fatalf("end: %d", code)
				}
				p := c.readCommitted(int64(2*i), 1)
				if len(p.AbortedTransactions) != i || len(values(t, p.RecordBatches)) != 2 {
					t.Fatalf("transaction %d: %+v", i, p)
				}
			}
			if offset, code := c.settledOffset(); offset != 10 || code != 0 {
				t.Errorf("offset %d, stable %d", offset, code)
			}
		})
	}
}

func (c *txnClient) addOffsets() {
	c.t.Helper()
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = c.id, "g", c.pid, c.epoch
	if code := call[*kmsg.AddOffsetsToTxnResponse](c.wire, 3, req).ErrorCode; code != 0 {
		c.t.Fatalf("AddOffsetsToTxn: %d", code)
	}
}

func (c *txnClient) settledOffset() (offset int64, code int16) {
	c.t.Helper()
	for range 1000 {
		if offset, code = c.committed(); code != kerr.UnstableOffsetCommit.Code {
			return offset, code
		}
		time.Sleep(time.Millisecond)
	}
	return offset, code
}

// A read_committed fetch that waits is answered when the transaction ends.
func TestEndWakesReaders(t *testing.T) {
	r := newTxnRig(t)
	c, reader := r.txnClient("x"), r.txnClient("y")
	if a := c.send(12, 0, "v"); a.ErrorCode != 0 {
		t.Fatal(a.ErrorCode)
	}
	got := make(chan kmsg.FetchResponseTopicPartition, 1)
	began := time.Now()
	go func() { got <- reader.readCommitted(0, 1) }()
	time.Sleep(20 * time.Millisecond)
	if code := c.end(5, true); code != 0 {
		t.Fatal(code)
	}
	if p := <-got; len(values(t, p.RecordBatches)) != 2 || time.Since(began) > 2*time.Second {
		t.Errorf("%+v after %v", p, time.Since(began))
	}
}

// What a client writes outside of its transaction is refused with what its version knows.
func TestUnverifiedProduce(t *testing.T) {
	r := newTxnRig(t)
	c := r.txnClient("x")
	for version, want := range map[int16]*kerr.Error{3: kerr.InvalidTxnState, 9: kerr.InvalidTxnState, 11: kerr.TransactionAbortable} {
		if a := c.send(version, 0, "v"); a.ErrorCode != want.Code {
			t.Errorf("v%d: %d, want %v", version, a.ErrorCode, want)
		}
	}
	if code := c.add(3, 1); code != 0 {
		t.Fatal(code)
	}
	old := *c
	c.init()
	for version, want := range map[int16]*kerr.Error{9: kerr.InvalidProducerEpoch, 12: kerr.InvalidProducerEpoch} {
		if a := old.send(version, 1, "v"); a.ErrorCode != want.Code {
			t.Errorf("zombie, v%d: %d, want %v", version, a.ErrorCode, want)
		}
	}
	if code := old.end(1, true); code != kerr.InvalidProducerEpoch.Code {
		t.Errorf("zombie ends, v1: %d", code)
	}
	if code := old.end(4, true); code != kerr.ProducerFenced.Code {
		t.Errorf("zombie ends, v4: %d", code)
	}
	r.trusting.Store(true)
	if a := c.send(9, 0, "v"); a.ErrorCode != 0 {
		t.Errorf("without verification: %d", a.ErrorCode)
	}
}

// A transaction that its coordinator does not end is ended by WriteTxnMarkers, as kafka-transactions does.
// A log forgets a verification that the coordinator denies, so that made-up producers leave nothing behind.
func TestDeniedVerificationsAreForgotten(t *testing.T) {
	r := newTxnRig(t)
	c := r.txnClient("x")
	part, err := r.broker.Replicas.Partition("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	offsets, err := r.broker.Replicas.Partition(offsetsTopic, r.broker.Groups.PartitionFor("g"))
	if err != nil {
		t.Fatal(err)
	}
	known := c.pid
	for i, asked := range []struct {
		name string
		part *replica.Partition
		ask  func() int16
	}{
		{"Produce v11", part, func() int16 { return c.send(11, 0, "v").ErrorCode }},
		{"Produce v12", part, func() int16 { return c.send(12, 0, "v").ErrorCode }},
		{"TxnOffsetCommit v4", offsets, func() int16 { return c.offsets(4, 1) }},
		{"TxnOffsetCommit v5", offsets, func() int16 { return c.offsets(5, 1) }},
	} {
		c.pid = known + 1000 + int64(i)
		guard := func() uint64 {
			g, open, err := asked.part.StartVerification(c.pid, c.epoch, 0, true)
			if err != nil || open {
				t.Fatal(open, err)
			}
			return g
		}
		before := guard()
		if code := asked.ask(); code == 0 {
			t.Fatalf("%s of an unknown producer: %d", asked.name, code)
		}
		if guard() == before {
			t.Errorf("%s: the verification is kept", asked.name)
		}
	}
}

func TestWriteTxnMarkers(t *testing.T) {
	r := newTxnRig(t)
	c := r.txnClient("x")
	if a := c.send(12, 0, "v"); a.ErrorCode != 0 {
		t.Fatal(a.ErrorCode)
	}
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.Topics = c.pid, c.epoch, []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "t", Partitions: []int32{0, 7}}}
	req.Markers = append(req.Markers, m)
	for _, p := range call[*kmsg.WriteTxnMarkersResponse](c.wire, 1, req).Markers[0].Topics[0].Partitions {
		if want := map[int32]int16{0: 0, 7: kerr.UnknownTopicOrPartition.Code}[p.Partition]; p.ErrorCode != want {
			t.Errorf("partition %d: %d, want %d", p.Partition, p.ErrorCode, want)
		}
	}
	if p := c.readCommitted(0, 1); len(p.AbortedTransactions) != 1 || p.LastStableOffset != 2 {
		t.Errorf("%+v", p)
	}
}

// Partitions of a topic that was deleted meanwhile keep no transaction from its end.
func TestEndAfterTopicDeletion(t *testing.T) {
	r := newTxnRig(t)
	c := r.txnClient("x")
	if a := c.send(12, 0, "v"); a.ErrorCode != 0 {
		t.Fatal(a.ErrorCode)
	}
	r.apply(&metadata.RemoveTopicRecord{ID: topicID("t")})
	if code := c.end(5, true); code != 0 {
		t.Fatal(code)
	}
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{"x"}
	for range 1000 {
		if call[*kmsg.DescribeTransactionsResponse](c.wire, 0, req).TransactionStates[0].State == "CompleteCommit" {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the transaction does not end")
}
