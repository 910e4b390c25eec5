package replica

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// Replication are the broker's settings of replication, and its ways to the others.
type Replication struct {
	LagTimeMaxMs int64 // replica.lag.time.max.ms
	Fetch        FetchSettings
	// BrokerEpoch is this broker's epoch of the registration that it runs under.
	BrokerEpoch func() int64
	// Dial connects to another broker.
	Dial   func(ctx context.Context, broker int32) (Peer, error)
	Alter  AlterISR
	Assign AssignDirs // nil: the controller is not told
}

// FetchSettings are the properties of Kafka's replica.fetch and the like.
type FetchSettings struct {
	Fetchers         int   // num.replica.fetchers, per leader
	MaxBytes         int32 // of one partition
	MinBytes         int32
	ResponseMaxBytes int32
	WaitMaxMs        int32
	BackoffMs        int64 // longest pause after a failure
	SocketTimeoutMs  int64 // replica.socket.timeout.ms
}

// Peer is a connection to another broker. When a call fails, it is closed and another one dialled.
type Peer interface {
	Call(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	Close() error
}

// partitionKey names a partition as Fetch and AlterPartition do.
type partitionKey struct {
	id    metadata.UUID
	index int32
}

// task is a goroutine that runs from start to stop.
type task struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func (t *task) start(run func(context.Context)) {
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	t.done.Go(func() { run(ctx) })
}

func (t *task) stop() {
	if t.cancel != nil {
		t.cancel()
	}
	t.done.Wait()
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// await waits for a poke; false: ctx has ended.
func await(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// shrinker looks at every led partition twice per replica.lag.time.max.ms.
type shrinker struct{ task task }

func (s *shrinker) start(m *Manager) {
	ticker := m.o.Clock.NewTicker(max(time.Duration(m.o.Replication.LagTimeMaxMs)*time.Millisecond/2, time.Millisecond))
	s.task.start(func(ctx context.Context) {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C():
				for p := range m.Partitions() {
					p.shrink()
				}
			case <-ctx.Done():
				return
			}
		}
	})
}

func (s *shrinker) stop() { s.task.stop() }
