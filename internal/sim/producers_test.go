package sim

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/history"
	"grete/protocol/batch"
)

const acksAll, acksLeader = int16(-1), int16(1)

// producer is an identity given by InitProducerId, and where its sequences are.
type producer struct {
	id       int64
	epoch    int16
	txn      *string // transactional id
	sequence map[history.Partition]int32
}

var nobody = &producer{id: -1, epoch: -1}

// batchOf makes the next batch to p.
func (k *client) batchOf(by *producer, p history.Partition, acks int16, values []string) pending {
	o := batch.BuildOptions{ProducerID: by.id, ProducerEpoch: by.epoch, BaseSequence: -1, Transactional: by.txn != nil}
	if by.id >= 0 {
		o.BaseSequence = by.sequence[p]
		by.sequence[p] += int32(len(values))
	}
	records := make([]batch.Record, len(values))
	for i, v := range values {
		records[i] = batch.Record{Offset: int64(i), TimestampMs: time.Now().UnixMilli(), Value: []byte(v)}
		if key := keyOf(p.Topic, v); key != "" {
			records[i].Key = []byte(key)
		}
	}
	raw, err := batch.Build(o, records)
	if err != nil {
		panic(err)
	}
	return pending{p: p, raw: raw, txn: by.txn, acks: acks}
}

// values are the next one to three.
func (k *client) values() []string {
	out := make([]string, 1+k.rng.IntN(3))
	for i := range out {
		out[i] = k.newValue()
	}
	return out
}

// plainProducer sends everything once.
func (c *clients) plainProducer(ctx context.Context, k *client) {
	c.sendOnce(ctx, k, plainTopic, acksAll, k.values)
}

// tableProducer gives keys new values.
func (c *clients) tableProducer(ctx context.Context, k *client) {
	c.sendOnce(ctx, k, tableTopic, acksAll, k.tableValues)
}

// leaderProducer's records may be lost: it makes leaders' logs longer than what is committed.
func (c *clients) leaderProducer(ctx context.Context, k *client) {
	c.sendOnce(ctx, k, plainTopic, acksLeader, k.values)
}

func (c *clients) sendOnce(ctx context.Context, k *client, topic string, acks int16, next func() []string) {
	c.record(history.Op{Kind: history.Client, Client: k.name, Guarantee: history.Plain})
	life, end := k.life(ctx)
	defer end()
	for k.rest(life, 2*time.Second) {
		p, values := k.somewhere(topic), next()
		op := history.Op{BeganNs: c.nowNs()}
		got := k.produce(life, []pending{k.batchOf(nobody, p, acks, values)})[0]
		outcome := history.OK
		if got.err != nil || acks != acksAll {
			outcome = history.Unknown
		}
		k.sent(op, p, values, got.offset, outcome)
	}
	k.crash()
}

// identify asks for a producer id until there is one.
func (k *client) identify(ctx context.Context, txn *string) (*producer, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = txn, int32(k.c.w.ms(10_000)), -1, -1
	codeOf := func(r kmsg.Response) int16 { return r.(*kmsg.InitProducerIDResponse).ErrorCode }
	var answer kmsg.Response
	for {
		var err error
		if txn != nil {
			answer, err = k.askCoordinator(ctx, 1, *txn, req, codeOf)
		} else if answer, err = k.ask(ctx, k.anyBroker(), req); err == nil {
			err = kerr.ErrorForCode(codeOf(answer))
		}
		if err == nil {
			break
		}
		if !k.rest(ctx, retryAfter) {
			return nil, err
		}
	}
	r := answer.(*kmsg.InitProducerIDResponse)
	return &producer{r.ProducerID, r.ProducerEpoch, txn, map[history.Partition]int32{}}, nil
}

// flight is what an idempotent producer has sent and not heard of.
type flight struct {
	op     history.Op
	b      pending
	values []string
	starts int64 // of brokers, when it was first sent
	epoch  int32 // of the leader, as it was known then
}

// idempotentProducer sends up to three batches at once and repeats what was not acknowledged, in order, for as long as
// it lives.
func (c *clients) idempotentProducer(ctx context.Context, k *client) {
	c.record(history.Op{Kind: history.Client, Client: k.name, Guarantee: history.Idempotent})
	life, end := k.life(ctx)
	defer end()
	defer k.crash()
	by, err := k.identify(life, nil)
	if err != nil {
		return
	}
	waiting, ok := map[history.Partition][]flight{}, true
	for k.rest(life, 2*time.Second) {
		topic := idempotentTopic
		if k.rng.IntN(3) == 0 {
			topic = txnTopic
		}
		p := k.somewhere(topic)
		for range 1 + k.rng.IntN(3-min(2, len(waiting[p]))) {
			values := k.values()
			waiting[p] = append(waiting[p], flight{history.Op{BeganNs: c.nowNs()}, k.batchOf(by, p, acksAll, values), values, c.w.starts.Load(), k.epochs[p]})
		}
		if waiting[p], ok = k.fly(life, waiting[p]); !ok {
			break
		}
	}
	for _, left := range waiting {
		for _, f := range left {
			k.sent(f.op, f.b.p, f.values, 0, history.Unknown)
		}
	}
}

// fly sends what waits until it is acknowledged, some of it once too often; it returns what is left when ctx ends, or
// when this producer cannot go on.
func (k *client) fly(ctx context.Context, waiting []flight) (left []flight, ok bool) {
	for len(waiting) > 0 {
		now := min(len(waiting), 3)
		if waiting[0].b.raw.BaseSequence() == 0 { // a log that does not know the producer takes any sequence for its first
			now = 1
		}
		batches := make([]pending, now)
		for i := range batches {
			batches[i] = waiting[i].b
		}
		got := k.produce(ctx, batches)
		done := 0
		for done < now && got[done].err == nil {
			f := waiting[done]
			k.sent(f.op, f.b.p, f.values, got[done].offset, history.OK)
			done++
		}
		if done > 0 && k.rng.IntN(8) == 0 {
			k.again(ctx, waiting[done-1], got[done-1].offset)
		}
		if done == 0 && errors.Is(got[0].err, kerr.OutOfOrderSequenceNumber) {
			k.refused(waiting[0])
			return waiting, false
		}
		waiting = waiting[done:]
		if len(waiting) > 0 && !k.rest(ctx, retryAfter) {
			break
		}
	}
	return waiting, true
}

// refused: only a batch that is in the log may be out of order when all before it was acknowledged, and only by a
// broker that has been started since, or followed another: it remembers, as Kafka does, no more than the last batch of
// each producer.
func (k *client) refused(f flight) {
	if !k.c.w.checks.anyHas(f.b) {
		k.c.w.found("7: %v refuses the batch of %s that follows what it has acknowledged", f.b.p, k.name)
	} else if k.remembered(f) {
		k.c.w.found("7: %v does not know a batch of %s again", f.b.p, k.name)
	}
}

// remembered: whoever leads has led since the batch was first sent.
func (k *client) remembered(f flight) bool {
	return f.starts == k.c.w.starts.Load() && f.epoch == k.epochs[f.b.p]
}

// again repeats what was acknowledged last: it is where it was.
func (k *client) again(ctx context.Context, f flight, offset int64) {
	got := k.produce(ctx, []pending{f.b})[0]
	if got.err == nil && got.offset != offset {
		k.c.w.found("7: %v has acknowledged a batch of %s at %d and at %d", f.b.p, k.name, offset, got.offset)
	}
	if errors.Is(got.err, kerr.OutOfOrderSequenceNumber) && k.remembered(f) {
		k.c.w.found("7: %v does not know a batch of %s again", f.b.p, k.name)
	}
}

// transactionalProducer keeps its transactional id over its lives. A former one may still be at work: it is fenced.
func (c *clients) transactionalProducer(ctx context.Context, k *client, id string) {
	c.record(history.Op{Kind: history.Client, Client: k.name, Guarantee: history.Transactional})
	life, end := k.life(ctx)
	work := func(during context.Context) {
		defer k.crash()
		by, err := k.identify(during, &id)
		for err == nil && k.rest(during, 2*time.Second) {
			err = k.transact(during, by)
		}
	}
	if k.rng.IntN(3) > 0 {
		defer end()
		work(life)
		return
	}
	c.work.Go(func() { work(ctx) }) // it goes on when the next has come
	<-life.Done()
	end()
}

// transact returns an error when this life cannot go on.
func (k *client) transact(ctx context.Context, by *producer) error {
	txn := k.name + "/" + k.newValue()
	failed := error(nil)
	for range 1 + k.rng.IntN(3) {
		values := k.values()
		if failed = k.add(ctx, by, txn, "", k.somewhere(txnTopic), values); failed != nil {
			break
		}
		if k.rng.IntN(3) == 0 && !k.rest(ctx, 2*time.Second) {
			return ctx.Err() // crashed with an open transaction
		}
	}
	return k.endTxn(ctx, by, history.Op{Txn: txn, Commit: failed == nil && k.rng.IntN(4) > 0})
}

// add sends values within a transaction, until they are acknowledged or refused.
func (k *client) add(ctx context.Context, by *producer, txn, copyOf string, p history.Partition, values []string) error {
	op := history.Op{Txn: txn, CopyOf: copyOf, BeganNs: k.c.nowNs()}
	b := k.batchOf(by, p, acksAll, values)
	for {
		got := k.produce(ctx, []pending{b})[0]
		if got.err == nil {
			k.sent(op, p, values, got.offset, history.OK)
			return nil
		}
		code, answered := got.err.(*kerr.Error)
		if answered && !code.Retriable || !k.rest(ctx, retryAfter) {
			k.sent(op, p, values, 0, history.Unknown)
			return got.err
		}
	}
}

// endTxn commits or aborts; the producer has another epoch then.
func (k *client) endTxn(ctx context.Context, by *producer, op history.Op) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = *by.txn, by.id, by.epoch, op.Commit
	op.Kind, op.Client, op.Outcome, op.BeganNs = history.End, k.name, history.OK, k.c.nowNs()
	answer, err := k.askCoordinator(ctx, 1, *by.txn, req, func(r kmsg.Response) int16 { return r.(*kmsg.EndTxnResponse).ErrorCode })
	if err != nil {
		op.Outcome = history.Unknown
		k.c.record(op)
		return err
	}
	k.c.record(op)
	r := answer.(*kmsg.EndTxnResponse)
	if r.ProducerID >= 0 {
		by.id, by.epoch = r.ProducerID, r.ProducerEpoch
		clear(by.sequence)
	}
	return nil
}
