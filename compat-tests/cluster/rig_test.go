// Package cluster tests brokers of several processes.
package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

// rig is a cluster under test.
type rig struct {
	*kafka.Cluster
	t   *testing.T
	ctx context.Context
	cl  *kgo.Client
	adm *kadm.Client
}

// testTimeout bounds a test of this package.
const testTimeout = 3 * time.Minute

// long says that CLUSTER_LONG asks for the long versions of the tests.
func long() bool { return os.Getenv("CLUSTER_LONG") != "" }

func longer(usual, then int) int {
	if long() {
		return then
	}
	return usual
}

// quick has brokers found dead soon, and consumer groups begin at once.
var quick = map[string]string{"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200", "group.initial.rebalance.delay.ms": "0"}

func start(t *testing.T, o kafka.ClusterOptions) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout*time.Duration(longer(1, 5)))
	t.Cleanup(cancel)
	if o.Properties == nil {
		o.Properties = quick
	}
	r := &rig{t: t, ctx: ctx, Cluster: kafka.ClusterFor(t, ctx, o)}
	r.cl = r.client()
	r.adm = kadm.NewClient(r.cl)
	return r
}

// client is one that looks for a new leader without pauses.
func (r *rig) client(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(r.Addrs()...), kgo.RequestTimeoutOverhead(2 * time.Second), kgo.MetadataMinAge(20 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, opts...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	return cl
}

// create makes a topic of three replicas, of which two must be in sync, and waits until every broker knows it: any may
// be asked.
func (r *rig) create(topic string, partitions int32) {
	r.t.Helper()
	two := "2"
	if _, err := r.adm.CreateTopic(r.ctx, partitions, 3, map[string]*string{"min.insync.replicas": &two}, topic); err != nil {
		r.t.Fatal(err)
	}
	for _, n := range r.Nodes {
		cl := r.pinned(n.ID)
		r.eventually(fmt.Sprintf("%s at broker %d", topic, n.ID), func() bool {
			topics, err := kadm.NewClient(cl).ListTopics(r.ctx, topic)
			led := 0
			topics.EachPartition(func(p kadm.PartitionDetail) {
				if p.Leader > 0 {
					led++
				}
			})
			return err == nil && led == int(partitions)
		})
		cl.Close()
	}
}

// partition is what the brokers say of a partition; leader -1 when none answers.
func (r *rig) partition(topic string, index int32) kadm.PartitionDetail {
	ctx, cancel := context.WithTimeout(r.ctx, 2*time.Second)
	defer cancel()
	topics, err := r.adm.ListTopics(ctx, topic)
	if p, ok := topics[topic].Partitions[index]; ok && err == nil {
		return p
	}
	return kadm.PartitionDetail{Leader: -1}
}

// eventually waits for what takes up to half a minute.
func (r *rig) eventually(what string, f func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if f() {
			return
		}
	}
	r.t.Fatalf("no %s in time", what)
}

func (r *rig) wholeISR(topic string, index int32) {
	r.t.Helper()
	r.eventually("whole ISR", func() bool { return len(r.partition(topic, index).ISR) == 3 })
}

func (r *rig) start(ids ...int32) {
	r.t.Helper()
	if err := r.Start(r.ctx, ids...); err != nil {
		r.t.Fatal(err)
	}
}

// writer writes numbered values to a partition, one after another with acks=all.
type writer struct {
	r     *rig
	cl    *kgo.Client
	topic string
	index int32
	acked int
}

func (r *rig) writer(topic string, index int32) *writer {
	return &writer{r: r, cl: r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(2*time.Second)), topic: topic, index: index}
}

func (w *writer) record() *kgo.Record {
	return &kgo.Record{Topic: w.topic, Partition: w.index, Value: fmt.Append(nil, "value ", w.acked)}
}

// write returns how long n values took.
func (w *writer) write(n int) time.Duration {
	w.r.t.Helper()
	began := time.Now()
	for range n {
		if err := w.cl.ProduceSync(w.r.ctx, w.record()).FirstErr(); err != nil {
			w.r.t.Fatalf("write %d: %v", w.acked, err)
		}
		w.acked++
	}
	return time.Since(began)
}

// readBack wants every value once, in order.
func (w *writer) readBack() {
	r := w.r
	r.t.Helper()
	consumer := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.topic: {w.index: kgo.NewOffset().AtStart()}}))
	next := 0
	r.eventually("all records", func() bool {
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		consumer.PollFetches(ctx).EachRecord(func(k *kgo.Record) {
			if want := fmt.Sprint("value ", next); string(k.Value) != want {
				r.t.Errorf("%q at offset %d, want %q", k.Value, k.Offset, want)
			}
			next++
		})
		return next >= w.acked
	})
	if next != w.acked {
		r.t.Errorf("%d records, %d were acknowledged", next, w.acked)
	}
}

// produceAt has one broker append a value, whoever leads, within a second: Kafka's answer, or nil.
func (r *rig) produceAt(id int32, topic string, index int32, acks int16, value string) error {
	r.t.Helper()
	wanted := kgo.AllISRAcks()
	if acks == 1 {
		wanted = kgo.LeaderAck()
	}
	cl := r.pinned(id, kgo.RequiredAcks(wanted), kgo.DisableIdempotentWrite()) // the client fills in its own
	defer cl.Close()
	req := kmsg.NewPtrProduceRequest()
	req.TimeoutMillis = 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, r.topicID(topic)
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = index, batchOf(value)
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := cl.SeedBrokers()[0].Request(r.ctx, req)
	if err != nil {
		r.t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

func (r *rig) topicID(topic string) [16]byte {
	r.t.Helper()
	topics, err := r.adm.ListTopics(r.ctx, topic)
	if err != nil {
		r.t.Fatal(err)
	}
	return topics[topic].ID
}

// batchOf is a record batch of one value.
func batchOf(value string) []byte {
	body := append([]byte{0, 0, 0, 1}, binary.AppendVarint(nil, int64(len(value)))...) // attributes, deltas, null key
	body = append(append(body, value...), 0)
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: 1, Records: append(binary.AppendVarint(nil, int64(len(body))), body...),
	}
	b.MaxTimestamp = b.FirstTimestamp
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// pinned is a client whose every connection goes to one broker.
func (r *rig) pinned(id int32, opts ...kgo.Opt) *kgo.Client {
	addr := r.Node(id).Addr()
	return r.client(append(opts, kgo.SeedBrokers(addr), kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}))...)
}

// activeController waits for a leader of the metadata quorum.
func (r *rig) activeController() (id int32) {
	r.t.Helper()
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	cl := r.client()
	defer cl.Close()
	r.eventually("controller", func() bool {
		ctx, cancel := context.WithTimeout(r.ctx, 2*time.Second)
		defer cancel()
		resp, err := req.RequestWith(ctx, cl)
		if err != nil || len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
			return false
		}
		id = resp.Topics[0].Partitions[0].LeaderID
		return id > 0
	})
	return id
}

// ledByFollower is a partition of topic whose leader is not the controller.
func (r *rig) ledByFollower(topic string, partitions int32) (index, leader int32) {
	r.t.Helper()
	controller := r.activeController()
	r.eventually("partition that the controller does not lead", func() bool {
		for index = range partitions {
			if leader = r.partition(topic, index).Leader; leader > 0 && leader != controller {
				return true
			}
		}
		return false
	})
	return index, leader
}

// others are the ids but one.
func (r *rig) others(but int32) (ids []int32) {
	for _, n := range r.Nodes {
		if n.ID != but {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// newLeader waits until the brokers asked name another leader than old.
func (r *rig) newLeader(ask *kgo.Client, topic string, index, old int32) (id int32) {
	r.t.Helper()
	adm := kadm.NewClient(ask)
	r.eventually("new leader", func() bool {
		ctx, cancel := context.WithTimeout(r.ctx, 2*time.Second)
		defer cancel()
		topics, err := adm.ListTopics(ctx, topic)
		id = topics[topic].Partitions[index].Leader
		return err == nil && id > 0 && id != old
	})
	return id
}

// sameLogs waits until the replicas of a partition have the same bytes.
func (r *rig) sameLogs(topic string, index int32) {
	r.t.Helper()
	var differ string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if differ = r.compareLogs(topic, index); differ == "" {
			return
		}
	}
	r.t.Errorf("replicas of %s-%d differ: %s", topic, index, differ)
}

func (r *rig) compareLogs(topic string, index int32) (differ string) {
	var first map[string][]byte
	for i, id := range r.partition(topic, index).Replicas {
		logs := map[string][]byte{}
		files, _ := filepath.Glob(filepath.Join(r.Node(id).Dir(), fmt.Sprintf("%s-%d", topic, index), "*.log"))
		for _, f := range files {
			logs[filepath.Base(f)], _ = os.ReadFile(f)
		}
		if i == 0 {
			first = logs
		} else if !maps.EqualFunc(first, logs, bytes.Equal) {
			return fmt.Sprintf("broker %d's are not those of the first replica", id)
		}
	}
	if len(first) == 0 {
		return "there are none"
	}
	return ""
}

// with adds properties to some.
func with(some map[string]string, more ...string) map[string]string {
	out := maps.Clone(some)
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}
