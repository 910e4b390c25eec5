package load

import (
	"context"
	"math/rand/v2"
	"time"

	"grete/internal/history"

	"github.com/twmb/franz-go/pkg/kgo"
)

const pollWait = 500 * time.Millisecond

// reader reads a topic without a group, with either isolation level, and seeks now and then.
func (r *run) reader(ctx context.Context, i int, rng *rand.Rand) {
	name, topic := r.name("reader", i), r.topics()[i%len(r.topics())]
	readCommitted := i%2 == 1 || rng.IntN(2) == 0
	cl, link, err := r.client(reading, isolation(readCommitted), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		r.logf("%s: %v", name, err)
		return
	}
	defer cl.Close()
	r.record(history.Op{Kind: history.Client, Client: name, Committed: readCommitted})
	life, end := r.life(ctx, rng)
	defer end()
	ends := map[int32]int64{}
	for p := range r.cfg.Partitions {
		r.seek(cl, name, topic, p, 0)
	}
	for life.Err() == nil {
		for _, k := range r.poll(life, cl, name) {
			ends[k.Partition] = k.Offset + 1
		}
		if p := rng.Int32N(r.cfg.Partitions); rng.IntN(50) == 0 && ends[p] > 0 {
			r.seek(cl, name, topic, p, rng.Int64N(ends[p]))
		}
	}
	if ctx.Err() == nil {
		link.crash()
		r.record(history.Op{Kind: history.Crash, Client: name})
	}
}

func isolation(readCommitted bool) kgo.Opt {
	if readCommitted {
		return kgo.FetchIsolationLevel(kgo.ReadCommitted())
	}
	return kgo.FetchIsolationLevel(kgo.ReadUncommitted())
}

// seek goes on at offset; what was buffered before is dropped.
func (r *run) seek(cl *kgo.Client, name, topic string, p int32, offset int64) {
	cl.RemoveConsumePartitions(map[string][]int32{topic: {p}})
	r.record(history.Op{Kind: history.Assign, Client: name, Offsets: []history.Position{{Partition: history.Partition{Topic: topic, ID: p}, Offset: offset}}})
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().At(offset)}})
}

// poll records what came, and passes over errors: only what is read, or never comes, counts.
func (r *run) poll(ctx context.Context, cl *kgo.Client, name string) []*kgo.Record {
	ctx, cancel := context.WithTimeout(ctx, pollWait)
	defer cancel()
	began := r.nowNs()
	records := cl.PollFetches(ctx).Records()
	if len(records) > 0 {
		r.recordPoll(name, began, records)
	}
	return records
}

func (r *run) recordPoll(name string, began int64, records []*kgo.Record) {
	op := history.Op{Kind: history.Poll, Client: name, BeganNs: began}
	for _, k := range records {
		if !k.Attrs.IsControl() {
			op.Records = append(op.Records, asRead(k))
		}
	}
	r.record(op)
}
