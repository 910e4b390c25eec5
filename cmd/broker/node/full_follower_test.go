package node

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/internal/vfs"
)

// The disk of one of two followers is full: writes to all replicas go on within seconds, not after
// replica.lag.time.max.ms. Once there is room the follower is in sync again.
func TestFullFollowerHoldsNobodyUp(t *testing.T) {
	c := newNodes(t, 3, "min.insync.replicas=2", "auto.leader.rebalance.enable=false")
	disks := make([]*vfs.Faulty, 3)
	for i := range disks {
		disks[i] = vfs.NewFaulty(c.disks[i])
		c.options[i].FS = disks[i]
	}
	c.start(0, 1, 2)
	if err := c.create(0, "t", 3); err != nil {
		t.Fatal(err)
	}
	cl := c.client(kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	write := func() time.Duration {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	write()
	epoch := c.partition(c.leader(), "t").LeaderEpoch
	victim := (int(c.partition(c.leader(), "t").Leader) - 1 + 1) % 3 // a follower, by index
	id := int32(victim + 1)
	disks[victim].Inject(vfs.FailMatching(func(o vfs.Op) bool { return o.Kind == vfs.OpWrite && strings.Contains(o.Name, "/t-0/") }, syscall.ENOSPC))
	if took := write(); took > 10*time.Second {
		t.Errorf("a write took %v while a follower's disk was full", took)
	}
	p := c.partition(c.leader(), "t")
	if slices.Contains(p.ISR, id) || len(p.ISR) != 2 || p.LeaderEpoch != epoch {
		t.Errorf("in sync are %v, leader epoch %d", p.ISR, p.LeaderEpoch)
	}
	write()
	disks[victim].Inject(nil)
	c.eventually("whole ISR", func() bool { return len(c.partition(c.leader(), "t").ISR) == 3 })
}
