// Package cluster tests brokers of several processes.
package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

// rig is a cluster under test.
type rig struct {
	*kafka.Cluster
	t   *testing.T
	ctx context.Context
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
	r.adm = kadm.NewClient(r.client())
	return r
}

// client is one that looks for a new leader without pauses.
func (r *rig) client(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(r.Addrs()...), kgo.MetadataMinAge(20 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, opts...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	return cl
}

// create makes a topic of three replicas, of which two must be in sync.
func (r *rig) create(topic string, partitions int32) {
	r.t.Helper()
	two := "2"
	if _, err := r.adm.CreateTopic(r.ctx, partitions, 3, map[string]*string{"min.insync.replicas": &two}, topic); err != nil {
		r.t.Fatal(err)
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

// writer writes numbered values to partition 0 of a topic, one after another with acks=all.
type writer struct {
	r     *rig
	cl    *kgo.Client
	topic string
	acked int
}

func (r *rig) writer(topic string) *writer {
	return &writer{r: r, cl: r.client(kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0)), topic: topic}
}

// write returns how long n values took.
func (w *writer) write(n int) time.Duration {
	w.r.t.Helper()
	began := time.Now()
	for range n {
		if err := w.cl.ProduceSync(w.r.ctx, kgo.StringRecord(fmt.Sprint("value ", w.acked))).FirstErr(); err != nil {
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
	consumer := r.client(kgo.ConsumeTopics(w.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
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
