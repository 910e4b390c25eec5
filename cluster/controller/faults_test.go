package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/vfs"
	"grete/protocol"
)

// scaled is n, or with GRETE_LONG=1 many times n.
func scaled(n uint64) uint64 {
	if os.Getenv("GRETE_LONG") == "1" {
		return n * 100
	}
	return n
}

// TestEveryFailedOperation fails the i-th file operation, from then on all of them or just the one, for every i of a
// short life with snapshots: nothing hangs, and what was answered is there when the disk works again, and after a power
// loss too.
func TestEveryFailedOperation(t *testing.T) {
	lives := 0
	for _, kind := range []struct {
		name   string
		inject func(int64, error) vfs.Injector
	}{{"once", vfs.FailNth}, {"from then on", vfs.FailFrom}} {
		for i, more := int64(1), true; more; i++ {
			lives++
			fsys := memory(t)
			faulty := vfs.NewFaulty(fsys)
			faulty.Inject(kind.inject(i, syscall.EIO))
			acked := liveBriefly(faulty)
			more = faulty.Count() >= i
			faulty.Inject(func(vfs.Op) error { return nil })
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for run, disk := range []*vfs.Mem{fsys.CrashClone(rng, 50), fsys.CrashClone(rng, 100)} {
				requireTopics(t, disk, acked, fmt.Sprintf("operation %d failed %s, disk %d", i, kind.name, run))
			}
		}
	}
	if lives < 100 {
		t.Errorf("only %d operations were failed", lives)
	}
}

// liveBriefly starts a node and creates topics until something fails, and returns those that were answered.
func liveBriefly(fsys vfs.FS) map[string]metadata.UUID {
	acked := map[string]metadata.UUID{}
	r := newRig(fsys, "/data", 1)
	r.static["metadata.log.max.record.bytes.between.snapshots"] = "600"
	defer func() {
		if r.Node != nil {
			_ = r.Node.Stop(context.Background())
		}
		if r.store != nil {
			_ = r.store.Close()
		}
	}()
	if r.open() != nil {
		return acked
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r.life = newLifecycleOf(r)
	if r.life.register(ctx) != nil {
		return acked
	}
	if _, err := r.life.heartbeat(ctx); err != nil {
		return acked
	}
	for i := range 8 {
		name := fmt.Sprintf("t%d", i)
		resp, err := r.Do(ctx, protocol.Principal{}, createRequest(1, name))
		if err != nil {
			return acked
		}
		if topic := resp.(*kmsg.CreateTopicsResponse).Topics[0]; topic.ErrorCode == 0 {
			acked[name] = topic.TopicID
		}
	}
	return acked
}

func requireTopics(t *testing.T, disk *vfs.Mem, acked map[string]metadata.UUID, when string) {
	t.Helper()
	r := newRig(disk, "/data", 2)
	if err := r.open(); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	r.register(t)
	for name, id := range acked {
		if topic := r.Image().Topic(name); topic == nil || topic.ID != id {
			t.Errorf("%s: %s is lost", when, name)
		}
	}
	r.kill(t)
}

// TestFullDiskIsWaitedFor: without space for the metadata log the first change waits, later ones are refused at once,
// and all goes on when there is space.
func TestFullDiskIsWaitedFor(t *testing.T) {
	fsys := memory(t)
	r := startRig(t, fsys, "/data", 1)
	r.create(t, 1, "kept")
	fsys.SetCapacity(1)
	do := func(name string, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := r.Do(ctx, protocol.Principal{}, createRequest(1, name))
		return err
	}
	if err := do("waits", 200*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the first change: %v", err)
	}
	if err := do("refused", time.Minute); !errors.Is(err, raftlog.ErrNoRoom) {
		t.Errorf("a later change: %v", err)
	}
	fsys.SetCapacity(1 << 30)
	for deadline := time.Now().Add(10 * time.Second); do("after", time.Second) != nil; {
		if time.Now().After(deadline) {
			t.Fatal("still refused with space")
		}
	}
	im := r.Image()
	if im.Topic("kept") == nil || im.Topic("waits") == nil || im.Topic("refused") != nil || im.Topic("after") == nil {
		t.Error("the wrong topics")
	}
	r.kill(t)
}
