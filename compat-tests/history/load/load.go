// Package load makes histories: producers, consumers and copiers on franz-go, crashes of clients and faults of
// brokers, all drawn from one seed.
package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"grete/compat-tests/kafka"
	"grete/internal/history"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says who works for how long, and what happens to the brokers meanwhile.
type Config struct {
	Seed     uint64
	Duration time.Duration
	Faults   []string // of Kinds; none: an undisturbed run
	AtOnce   int      // how many nodes are disturbed at the same time; 0: one
	Settle   time.Duration
	Links    *kafka.Links  // what CutNode cuts
	Access   *kafka.Access // how clients get in, each as its own user; nil: everybody may do everything

	Partitions  int32
	Replication int16

	Plain, Idempotent, Transactional, Copiers int // producers of each kind
	Readers, Members, Balanced                int // consumers without a group, in a classic one, and in one of KIP-848
	RecordsPerSecond                          int // of each producer

	CrashEvery time.Duration // the mean life of a client; 0: none crashes
}

// Default is a run that a small machine bears.
func Default() Config {
	return Config{Duration: 25 * time.Second, Settle: 90 * time.Second, Faults: []string{KillNode, PauseNode}, Partitions: 3, Replication: 1,
		Plain: 1, Idempotent: 2, Transactional: 2, Copiers: 2, Readers: 4, Members: 3, Balanced: 3, RecordsPerSecond: 300, CrashEvery: 6 * time.Second}
}

// IdempotentTopic is where idempotent producers alone write.
const IdempotentTopic = "h-idempotent"

// The other topics.
const (
	plainTopic  = "h-plain"
	txnTopic    = "h-transactional" // transactional producers, and an idempotent one
	copiesTopic = "h-copies"        // of h-idempotent, by copiers

	compactedTopic = "h-compacted" // cleanup.policy=compact; as h-transactional else
)

// run is one run.
type run struct {
	cfg   Config
	addrs []string
	rec   *history.Recorder
	start time.Time
	last  atomic.Int64
	wg    sync.WaitGroup
	names atomic.Int64
	logf  func(string, ...any)
	txns  bool // the brokers know transactions
	k848  bool // and consumer groups
}

// Run lets cfg's clients work against the nodes and records what they see; at the end it heals the nodes and lets final
// readers read everything. The history is complete when it returns; its anomalies are history.Check's to find.
func Run(ctx context.Context, cfg Config, nodes []Node, rec *history.Recorder, logf func(string, ...any)) error {
	r := &run{cfg: cfg, rec: rec, start: time.Now(), logf: logf}
	for _, n := range nodes {
		r.addrs = append(r.addrs, n.Addr())
	}
	logf("seed %d, %v, faults %v", cfg.Seed, cfg.Duration, cfg.Faults)
	if err := r.prepare(ctx); err != nil {
		return err
	}
	working, stop := context.WithTimeout(ctx, cfg.Duration)
	defer stop()
	r.startClients(working)
	err := r.disturb(working, nodes)
	<-working.Done()
	r.wg.Wait()
	if err != nil {
		return err
	}
	return r.finish(ctx)
}

func (r *run) startClients(ctx context.Context) {
	r.spawn(ctx, r.cfg.Plain, r.plainProducer)
	r.spawn(ctx, r.cfg.Idempotent, r.idempotentProducer)
	r.spawn(ctx, r.cfg.Readers, r.reader)
	r.spawn(ctx, r.cfg.Members, r.classicMember)
	if r.k848 {
		r.spawn(ctx, r.cfg.Balanced, r.balancedMember)
	}
	if r.txns {
		r.spawn(ctx, r.cfg.Transactional, r.transactionalProducer)
		r.spawn(ctx, r.cfg.Copiers, r.copier)
	}
}

// spawn keeps n clients alive until ctx ends: life returns when its client has crashed or left, and the next begins.
func (r *run) spawn(ctx context.Context, n int, life func(context.Context, int, *rand.Rand)) {
	for i := range n {
		stream := uint64(r.names.Add(1))
		rng := rand.New(rand.NewPCG(r.cfg.Seed, stream))
		r.wg.Go(func() {
			for ctx.Err() == nil {
				life(ctx, i, rng)
			}
		})
	}
}

// nowNs never gives the same answer twice: the order of operations is total.
func (r *run) nowNs() int64 {
	for {
		now, last := int64(time.Since(r.start)), r.last.Load()
		if next := max(now, last+1); r.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// record ends op now.
func (r *run) record(op history.Op) {
	op.EndedNs = r.nowNs()
	if op.BeganNs == 0 {
		op.BeganNs = op.EndedNs
	}
	r.rec.Record(op)
}

// name is unique for each incarnation of a client.
func (r *run) name(kind string, i int) string { return fmt.Sprintf("%s%d.%d", kind, i, r.names.Add(1)) }

// life is how long a client lives: exponential around the mean.
func (r *run) life(ctx context.Context, rng *rand.Rand) (context.Context, context.CancelFunc) {
	if r.cfg.CrashEvery == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(float64(r.cfg.CrashEvery)*rng.ExpFloat64())+time.Second)
}

// client starts a client that can crash.
func (r *run) client(who role, opts ...kgo.Opt) (*kgo.Client, *link, error) {
	l := r.link()
	cl, err := kgo.NewClient(append(r.through(l, who), opts...)...)
	return cl, l, err
}
