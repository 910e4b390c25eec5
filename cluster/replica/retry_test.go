package replica

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"grete/internal/vfs"
)

// A log that cannot be made for want of space is made when there is some, and leadership of it begins then.
func TestLogsAreMadeWhenThereIsSpace(t *testing.T) {
	for _, lack := range []error{syscall.ENOSPC, syscall.EMFILE} {
		var full atomic.Bool
		full.Store(true)
		fs := vfs.NewFaulty(vfs.NewMem())
		fs.Inject(func(o vfs.Op) error {
			if full.Load() && strings.Contains(o.Name, "hungry-") && (o.Kind.Writes() || o.Kind == vfs.OpOpen) {
				return lack
			}
			return nil
		})
		b := newBench(t, fs)
		b.create("hungry", 2)
		b.create("fed", 1)
		if _, err := b.partition("hungry", 1).Produce(ProduceRequest{}); !errors.Is(err, ErrOffline) {
			t.Fatalf("%v: %v", lack, err)
		}
		if got, want := settledEvents(b), []string{"lead fed-0 0"}; !slices.Equal(got, want) {
			t.Errorf("%v: %q", lack, got)
		}
		b.manager.retryNow() // in vain
		full.Store(false)
		for deadline := time.Now().Add(10 * retryEvery); b.partition("hungry", 1).Offline() != nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%v: %v", lack, b.partition("hungry", 1).Offline())
			}
		}
		b.manager.stopRetrying()
		if got, want := settledEvents(b), []string{"lead fed-0 0", "lead hungry-0 0", "lead hungry-1 0"}; !slices.Equal(got, want) {
			t.Errorf("%v: %q", lack, got)
		}
		b.manager.applyMu.Lock() // the timer that retryNow above overtook may still come
		if len(b.manager.retry.topics) != 0 || b.manager.retry.timer != nil {
			t.Errorf("%v: still retrying %v", lack, b.manager.retry.topics)
		}
		b.manager.applyMu.Unlock()
	}
}

// settledEvents are those so far, while no retry is under way.
func settledEvents(b *bench) []string {
	b.manager.applyMu.Lock()
	defer b.manager.applyMu.Unlock()
	return slices.Clone(b.events)
}

func TestRetryingEnds(t *testing.T) {
	fs := vfs.NewFaulty(vfs.NewMem())
	fs.Inject(vfs.FailMatching(func(o vfs.Op) bool { return strings.Contains(o.Name, "hungry-") }, syscall.ENOSPC))
	b := newBench(t, fs)
	b.create("hungry", 1)
	b.manager.Drain()
	b.manager.retryNow()
	if b.manager.retry.timer != nil {
		t.Error("a stopping broker retries")
	}
}
