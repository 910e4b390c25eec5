package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"grete/internal/history"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pace         = 20 * time.Millisecond
	flushTimeout = 30 * time.Second
)

// producerOpts are every producer's: small batches, so that there are many.
func producerOpts(opts ...kgo.Opt) []kgo.Opt {
	return append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(2*tooLargeBytes),
		kgo.ProducerLinger(2*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
}

func (r *run) plainProducer(ctx context.Context, i int, rng *rand.Rand) {
	r.produce(ctx, plainWriter, r.name("plain", i), history.Plain, []string{plainTopic}, rng, kgo.DisableIdempotentWrite())
}

// idempotentProducer writes among transactions too, and there into the same partitions.
func (r *run) idempotentProducer(ctx context.Context, i int, rng *rand.Rand) {
	topics := []string{IdempotentTopic}
	if i%2 == 1 {
		topics = append(topics, txnTopic, compactedTopic)
	}
	r.produce(ctx, idempotent, r.name("idem", i), history.Idempotent, topics, rng)
}

// produce sends until the client crashes or the run ends; in the second case it waits for its acknowledgements.
func (r *run) produce(ctx context.Context, who role, name string, g history.Guarantee, topics []string, rng *rand.Rand, opts ...kgo.Opt) {
	cl, link, err := r.client(who, producerOpts(opts...)...)
	if err != nil {
		r.logf("%s: %v", name, err)
		return
	}
	defer cl.Close()
	r.record(history.Op{Kind: history.Client, Client: name, Guarantee: g})
	life, end := r.life(ctx, rng)
	defer end()
	// The client gives up what waits when its record's context ends: at the end of the run that is the flush's to do.
	sending, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(life, func() { time.AfterFunc(flushTimeout, giveUp) })()
	for wait(life, pace) {
		for range r.perPace(rng) {
			rec := r.newRecord(topics[rng.IntN(len(topics))], rng.Int32N(r.cfg.Partitions), name, payloadBytes(rng), rng)
			r.send(sending, cl, rec, history.Op{Client: name}, nil)
		}
	}
	if ctx.Err() == nil {
		link.crash()
		r.record(history.Op{Kind: history.Crash, Client: name})
		return
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := cl.Flush(flush); err != nil {
		r.logf("%s: not everything acknowledged in the end: %v", name, err)
	}
}

// perPace is how many records to send in one pace.
func (r *run) perPace(rng *rand.Rand) int {
	mean := float64(r.cfg.RecordsPerSecond) * pace.Seconds()
	return int(mean*2*rng.Float64() + 0.5)
}

// sender is what a record is sent through: a client, or a transactional session.
type sender interface {
	Produce(context.Context, *kgo.Record, func(*kgo.Record, error))
}

// send records the outcome when it is known; done, unless nil, is told too. Waiting for room ends with ctx, a
// record that is under way stays so.
func (r *run) send(ctx context.Context, to sender, rec *kgo.Record, op history.Op, done func(error)) {
	op.Kind, op.BeganNs = history.Send, r.nowNs()
	to.Produce(ctx, rec, func(k *kgo.Record, err error) {
		at := asRead(k)
		op.At, op.Outcome = &at, outcome(err)
		r.record(op)
		if done != nil {
			done(err)
		}
	})
}

// outcome: only what the broker refuses whatever the attempt is known to have failed.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, kerr.MessageTooLarge):
		return history.Fail
	}
	return history.Unknown
}

// wait returns false when ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
