package coordinator

import (
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/memory"
	"grete/internal/sched"
	"grete/protocol/batch"
)

// maxLoads is how many shards read their logs at a time.
const maxLoads = 2

// maxInflatedBytes bounds what a load holds of one compressed batch: a record that is larger ends it, as one that is
// damaged does.
const maxInflatedBytes = 32 << 20

// Options make a Runtime; names in comments are Kafka's.
type Options[M Machine] struct {
	Clock clock.Clock
	Log   zerolog.Logger
	// New makes the empty state of a shard.
	New             func(partition int32) M
	CommitTimeoutMs int64           // offsets.commit.timeout.ms
	LoadBufferBytes int             // offsets.load.buffer.size
	Codec           batch.Codec     // offsets.topic.compression.codec
	Loads           *memory.Account // that loads borrow from; nil: one of its own
}

// Runtime is the shards of one internal topic that this broker leads.
type Runtime[M Machine] struct {
	opts      Options[M]
	loadSlots chan struct{}
	alive     sync.WaitGroup // shards that have not dropped their state yet

	mu     sched.RWMutex
	shards map[int32]*shard[M]
	closed bool
}

// NewRuntime leads nothing yet.
func NewRuntime[M Machine](o Options[M]) *Runtime[M] {
	if o.Loads == nil {
		o.Loads = memory.New(0).Loads
	}
	return &Runtime[M]{opts: o, loadSlots: make(chan struct{}, maxLoads), shards: make(map[int32]*shard[M])}
}

// BecomeLeader starts to load the shard of partition in the background; until that is done its operations are
// refused with ErrLoading. An epoch that is not newer than the current one changes nothing.
func (rt *Runtime[M]) BecomeLeader(partition, epoch int32, log PartitionLog) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	old := rt.shards[partition]
	if rt.closed || (old != nil && old.epoch >= epoch) {
		return
	}
	if old != nil {
		old.close()
	}
	s := &shard[M]{rt: rt, partition: partition, epoch: epoch, log: log}
	rt.shards[partition] = s
	rt.alive.Add(1)
	go s.load()
}

// Resign drops the state of partition if it was led at epoch or before; requests that it holds are answered with
// ErrNotCoordinator.
func (rt *Runtime[M]) Resign(partition, epoch int32) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if s := rt.shards[partition]; s != nil && s.epoch <= epoch {
		delete(rt.shards, partition)
		s.close()
	}
}

// Submit gives op to the shard of partition, or refuses it. It may run it, and answer, before it returns.
func (rt *Runtime[M]) Submit(partition int32, op Op[M]) {
	rt.mu.RLock()
	s, closed := rt.shards[partition], rt.closed
	rt.mu.RUnlock()
	switch {
	case closed:
		op.Refuse(ErrClosed)
	case s == nil:
		op.Refuse(ErrNotCoordinator)
	default:
		s.submit(op)
	}
}

// Partitions lists the shards that this broker leads, loaded or not.
func (rt *Runtime[M]) Partitions() []int32 {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	out := make([]int32, 0, len(rt.shards))
	for p := range rt.shards {
		out = append(out, p)
	}
	return out
}

// Close answers everything that waits, drops all state and returns when nothing runs any more.
func (rt *Runtime[M]) Close() {
	rt.mu.Lock()
	shards := rt.shards
	rt.shards, rt.closed = nil, true
	rt.mu.Unlock()
	for _, s := range shards {
		s.close()
	}
	rt.alive.Wait()
}

func notCoordinator(err error) error { return fmt.Errorf("%w: %w", ErrNotCoordinator, err) }

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
