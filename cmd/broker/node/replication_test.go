package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/metrics"
	"grete/internal/vfs"
)

// client is a producer or consumer of all nodes.
func (c *nodes) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for _, n := range c.running {
		seeds = append(seeds, n.Addr("PLAINTEXT"))
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20 * time.Millisecond)}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// writeMore writes n values to the client's topic, which follow on the acked ones.
func writeMore(t *testing.T, cl *kgo.Client, acked *int, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range n {
		if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint("value ", *acked))).FirstErr(); err != nil {
			t.Fatalf("write %d: %v", *acked, err)
		}
		*acked++
	}
}

func (c *nodes) partition(i int, topic string) metadata.Partition {
	if t := c.running[i].image().Topic(topic); t != nil {
		return t.Partitions[0]
	}
	return metadata.Partition{Leader: -1}
}

// A partition's leader is cut off, twice: writes with acks=all go on with another one, and in the end all that was
// acknowledged is there, once, on every replica.
func TestLeadersFailAndNothingIsLost(t *testing.T) {
	c := newNodes(t, 3, "min.insync.replicas=2", "replica.lag.time.max.ms=2000")
	c.start(0, 1, 2)
	if err := c.create(0, "kept", 3); err != nil {
		t.Fatal(err)
	}
	cl := c.client(kgo.DefaultProduceTopic("kept"), kgo.ProducerLinger(0))
	acked := 0
	write := func(n int) { t.Helper(); writeMore(t, cl, &acked, n) }
	write(50)
	for range 2 {
		leader := int(c.partition(c.leader(), "kept").Leader) - 1
		c.wires[leader].set(true)
		begin := time.Now()
		write(1)
		t.Logf("the next write after the end of node %d took %v", leader+1, time.Since(begin))
		write(20)
		c.wires[leader].set(false)
		c.eventually("whole ISR", func() bool { return len(c.partition(c.leader(), "kept").ISR) == 3 })
	}
	consumer := c.client(kgo.ConsumeTopics("kept"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen := map[string]int{}
	c.eventually("everything", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
		return len(seen) == acked
	})
	c.eventually("equal replicas", func() bool {
		p, err := c.running[0].replicas.Partition("kept", 0)
		for _, n := range c.running[1:] {
			q, err2 := n.replicas.Partition("kept", 0)
			if err != nil || err2 != nil || p.Log().EndOffset() != q.Log().EndOffset() || p.Log().HighWatermark() != q.Log().HighWatermark() {
				return false
			}
		}
		return true
	})
	for value, n := range seen {
		if n != 1 {
			t.Errorf("%q is there %d times", value, n)
		}
	}
}

// Transactions write to partitions and groups led by all three brokers, whose internal topics have three replicas. The
// broker that leads most is stopped between, and everything committed is read once.
func TestTransactionsSpanBrokers(t *testing.T) {
	c := newNodes(t, 3, "offsets.topic.replication.factor=3", "transaction.state.log.replication.factor=3", "transaction.state.log.min.isr=2",
		"offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3")
	c.start(0, 1, 2)
	for i := range 6 {
		if err := c.create(0, fmt.Sprint("t", i), 3); err != nil {
			t.Fatal(err)
		}
	}
	producer := c.client(kgo.TransactionalID("spans"), kgo.ProducerLinger(0))
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	const rounds = 6
	for round := range rounds {
		if round == rounds/2 {
			c.stop(int(c.partition(c.leader(), "t0").Leader) - 1)
		}
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for i := range 6 {
			r := kgo.StringRecord(fmt.Sprint(round))
			r.Topic = fmt.Sprint("t", i)
			if err := producer.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if err := producer.EndTransaction(ctx, kgo.TransactionEndTry(round%3 != 1)); err != nil {
			t.Fatalf("end of round %d: %v", round, err)
		}
	}
	consumer := c.client(kgo.ConsumeRegex(), kgo.ConsumeTopics("t[0-9]"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen := map[string]int{}
	c.eventually("all committed records", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) { seen[r.Topic+string(r.Value)]++ })
		return len(seen) == 6*(rounds-2)
	})
	for what, n := range seen {
		if n != 1 || what[2] == '1' || what[2] == '4' {
			t.Errorf("%s read %d times", what, n)
		}
	}
}

// What a start replays up to this run's registration reaches neither replicas nor coordinators: this node has none yet.
func TestHistoryIsNotFollowed(t *testing.T) {
	n := &Node{o: options(t, vfs.NewMem(), "node.id=1"), metrics: metrics.New(clock.System), incarnation: metadata.UUID{1: 1}}
	id := metadata.UUID{2: 2}
	im, delta, err := new(metadata.Image).Apply([]metadata.Record{
		&metadata.RegisterBrokerRecord{BrokerID: 1, Incarnation: metadata.UUID{3: 3}},
		&metadata.TopicRecord{Name: "t", ID: id},
		&metadata.PartitionRecord{TopicID: id, Partition: metadata.Partition{Replicas: []int32{1}, ISR: []int32{1}, Leader: 1}},
	}, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	n.applyImage(&metadata.Image{}, im, delta)
	if n.entered {
		t.Error("a former run's registration counts")
	}
}
