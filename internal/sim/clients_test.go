package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/history"
)

const (
	plainTopic      = "plain"
	idempotentTopic = "idempotent"
	txnTopic        = "transactional"
	copiesTopic     = "copies" // of idempotent's, passed on in transactions
	partitions      = 2
)

var topics = []string{plainTopic, idempotentTopic, txnTopic, copiesTopic, tableTopic}

// clients work against the brokers and remember what they saw.
type clients struct {
	w      *world
	names  atomic.Int64
	lastNs atomic.Int64
	work   sync.WaitGroup
	owners *owners

	reassigned atomic.Int64
	stop       context.CancelFunc // of what writes

	mu    sync.Mutex
	ops   []history.Op
	acked map[history.Partition][]acknowledged // not yet looked for
}

func newClients(w *world) *clients {
	return &clients{w: w, owners: newOwners(w), acked: map[history.Partition][]acknowledged{}, stop: func() {}}
}

// nowNs never gives the same answer twice: the order of operations is total.
func (c *clients) nowNs() int64 {
	for {
		now, last := int64(time.Since(c.w.began)), c.lastNs.Load()
		if next := max(now, last+1); c.lastNs.CompareAndSwap(last, next) {
			return next
		}
	}
}

// record ends op now.
func (c *clients) record(op history.Op) {
	op.EndedNs = c.nowNs()
	if op.BeganNs == 0 {
		op.BeganNs = op.EndedNs
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, op)
	if op.Kind == history.Send && op.Outcome == history.OK {
		c.acked[op.At.Partition] = append(c.acked[op.At.Partition], acknowledged{op.At.Offset, op.At.Value})
	}
}

// takeAcked returns what was acknowledged since the last look.
func (c *clients) takeAcked(p history.Partition) []acknowledged {
	c.mu.Lock()
	defer c.mu.Unlock()
	acked := c.acked[p]
	delete(c.acked, p)
	return acked
}

func (c *clients) history() []history.Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ops
}

// prepare makes the topics.
func (c *clients) prepare(ctx context.Context) error {
	k := c.client("admin", rand.New(rand.NewPCG(c.w.seed, 99)))
	defer k.close()
	ctx, cancel := context.WithTimeout(ctx, c.w.stretch(30*time.Second))
	defer cancel()
	for _, topic := range topics {
		for {
			err := k.createTopic(ctx, topic, partitions)
			if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
				break
			}
			if !k.rest(ctx, retryAfter) {
				return err
			}
		}
	}
	return nil
}

// start lets the clients work until the troubles are over.
func (c *clients) start(ctx context.Context) {
	writing, stop := context.WithCancel(ctx)
	c.stop = stop
	for i, life := range []func(context.Context, *client){
		c.plainProducer, c.leaderProducer, c.tableProducer, c.idempotentProducer, c.idempotentProducer,
		func(ctx context.Context, k *client) { c.transactionalProducer(ctx, k, "txn-0") },
		func(ctx context.Context, k *client) { c.transactionalProducer(ctx, k, "txn-1") },
		c.copier,
		func(ctx context.Context, k *client) { c.reader(ctx, k, false) },
		func(ctx context.Context, k *client) { c.reader(ctx, k, true) },
		func(ctx context.Context, k *client) { c.classicMember(ctx, k, classicGroup) },
		func(ctx context.Context, k *client) { c.classicMember(ctx, k, classicGroup) },
		func(ctx context.Context, k *client) { c.consumerMember(ctx, k, consumerGroup) },
		func(ctx context.Context, k *client) { c.consumerMember(ctx, k, consumerGroup) },
		func(ctx context.Context, k *client) { c.classicMember(ctx, k, mixedGroup) },
		func(ctx context.Context, k *client) { c.consumerMember(ctx, k, mixedGroup) },
	} {
		rng := rand.New(rand.NewPCG(c.w.seed, 100+uint64(i)))
		c.work.Go(func() {
			for writing.Err() == nil {
				life(writing, c.client(fmt.Sprint("c", i), rand.New(rand.NewPCG(rng.Uint64(), 0))))
			}
		})
	}
}

func (c *clients) wait() { c.work.Wait() }

// somewhere is a partition of a topic.
func (k *client) somewhere(topic string) history.Partition {
	return history.Partition{Topic: topic, ID: k.rng.Int32N(partitions)}
}

func (k *client) newValue() string { return fmt.Sprintf("%s:%d", k.name, k.c.names.Add(1)) }

// sent records what became of values that went out as one batch; offset is the first one's.
func (k *client) sent(op history.Op, p history.Partition, values []string, offset int64, outcome history.Outcome) {
	for i, v := range values {
		one := op
		one.Kind, one.Client, one.Outcome = history.Send, k.name, outcome
		one.At = &history.Record{Partition: p, Value: v, Key: keyOf(p.Topic, v)}
		if outcome == history.OK {
			one.At.Offset = offset + int64(i)
		}
		k.c.record(one)
	}
}

// reader reads everything, on and on.
func (c *clients) reader(ctx context.Context, k *client, committed bool) {
	c.record(history.Op{Kind: history.Client, Client: k.name, Committed: committed})
	life, end := k.life(ctx)
	defer end()
	next := map[history.Partition]int64{}
	for _, topic := range topics {
		for p := range int32(partitions) {
			k.seek(next, history.Partition{Topic: topic, ID: p}, 0)
		}
	}
	for k.rest(life, 500*time.Millisecond) {
		k.poll(life, next, k.somewhere(topics[k.rng.IntN(len(topics))]), committed)
	}
	k.crash()
}

func (k *client) seek(next map[history.Partition]int64, p history.Partition, offset int64) {
	next[p] = offset
	k.c.record(history.Op{Kind: history.Assign, Client: k.name, Offsets: []history.Position{{Partition: p, Offset: offset}}})
}

// poll reads on in one partition and records what came. A consumer that the broker places elsewhere would lose its
// place: that is wrong.
func (k *client) poll(ctx context.Context, next map[history.Partition]int64, p history.Partition, committed bool) []history.Record {
	began := k.c.nowNs()
	records, to, err := k.read(ctx, p, next[p], committed)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		k.c.w.found("6: a reader of %v is told that its offset %d is out of range: %v", p, next[p], k.c.w.checks.describeName(p))
	}
	next[p] = to
	if len(records) > 0 {
		k.c.record(history.Op{Kind: history.Poll, Client: k.name, BeganNs: began, Records: records})
	}
	return records
}

// change is what administrators do: topics come and go, partitions move, preferred leaders come back.
func (c *clients) change(dice *rand.Rand) {
	c.w.done.changes++
	k := c.client("admin", rand.New(rand.NewPCG(dice.Uint64(), 0)))
	what := dice.IntN(5)
	c.work.Go(func() {
		defer k.close()
		ctx, cancel := context.WithTimeout(context.Background(), c.w.stretch(20*time.Second))
		defer cancel()
		extra := fmt.Sprint("extra-", k.rng.IntN(5))
		switch what {
		case 0:
			_ = k.createTopic(ctx, extra, 1+k.rng.Int32N(2))
		case 1:
			k.deleteTopic(ctx, extra)
		case 2:
			_, _ = k.ask(ctx, k.anyBroker(), kmsg.NewPtrElectLeadersRequest())
		default:
			k.reassign(ctx)
		}
	})
}

func setting(name, value string) kmsg.CreateTopicsRequestTopicConfig {
	return kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value}
}

func (k *client) createTopic(ctx context.Context, name string, partitions int32) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 3
	req.TimeoutMillis = int32(k.c.w.ms(5000))
	if name == tableTopic {
		topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{
			setting("cleanup.policy", "compact"), setting("segment.ms", fmt.Sprint(k.c.w.ms(10_000))), setting("min.cleanable.dirty.ratio", "0.01"),
		}
	}
	req.Topics = append(req.Topics, topic)
	answer, err := k.ask(ctx, k.anyBroker(), req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
}

// reassign has some partition moved to other replicas, or in another order, or takes back what is under way. Two
// replicas are as many as min.insync.replicas, so that nothing moves on while one is away.
func (k *client) reassign(ctx context.Context) {
	all := append([]string{"__consumer_offsets", "__transaction_state"}, topics...)
	topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	topic.Topic = all[k.rng.IntN(len(all))]
	part := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	if topic.Topic[0] != '_' {
		part.Partition = k.rng.Int32N(partitions)
	}
	if k.rng.IntN(5) > 0 {
		for _, i := range k.rng.Perm(len(k.c.w.machines))[:2+k.rng.IntN(2)] {
			part.Replicas = append(part.Replicas, k.c.w.machines[i].id)
		}
	}
	topic.Partitions = append(topic.Partitions, part)
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = int32(k.c.w.ms(5000))
	req.Topics = append(req.Topics, topic)
	answer, err := k.ask(ctx, k.anyBroker(), req)
	if err != nil {
		return
	}
	if r := answer.(*kmsg.AlterPartitionAssignmentsResponse); r.ErrorCode == 0 && r.Topics[0].Partitions[0].ErrorCode == 0 {
		k.c.reassigned.Add(1)
	}
}

func (k *client) deleteTopic(ctx context.Context, name string) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames, req.TimeoutMillis = []string{name}, int32(k.c.w.ms(5000))
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &name
	req.Topics = append(req.Topics, topic)
	_, _ = k.ask(ctx, k.anyBroker(), req)
}

// finish lets the writers end, and two readers read everything.
func (c *clients) finish(ctx context.Context) error {
	c.stop()
	c.wait()
	time.Sleep(c.w.stretch(90 * time.Second)) // open transactions time out
	for _, committed := range []bool{false, true} {
		c.readAll(ctx, committed)
	}
	return nil
}

// readAll reads from the first offsets to the ends of now.
func (c *clients) readAll(ctx context.Context, committed bool) {
	k := c.client("final", rand.New(rand.NewPCG(c.w.seed, 98)))
	defer k.close()
	c.record(history.Op{Kind: history.Client, Client: k.name, Committed: committed})
	op := history.Op{Kind: history.Final, Client: k.name, BeganNs: c.nowNs(), Outcome: history.OK}
	next, limit := map[history.Partition]int64{}, time.Now().Add(c.w.stretch(2*time.Minute))
	for _, known := range c.w.checks.parts {
		p := history.Partition{Topic: known.name.Topic, ID: known.name.Partition}
		if !slices.Contains(topics, p.Topic) {
			continue
		}
		op.Offsets = append(op.Offsets, history.Position{Partition: p, Offset: known.highest})
		for k.seek(next, p, 0); next[p] < known.highest && time.Now().Before(limit); {
			if len(k.poll(ctx, next, p, committed)) == 0 {
				k.rest(ctx, retryAfter)
			}
		}
		if next[p] < known.highest {
			op.Outcome, op.Note = history.Fail, fmt.Sprintf("%v read to %d of %d", p, next[p], known.highest)
		}
	}
	c.record(op)
}
