package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/controller"
	"grete/cluster/replica"
	"grete/internal/vfs"
)

// failUnder makes every write and sync of a file below a directory fail from now on.
func failUnder(disk *vfs.Faulty, dir string) {
	disk.Inject(vfs.FailMatching(func(o vfs.Op) bool {
		return (o.Kind == vfs.OpWrite || o.Kind == vfs.OpSync) && strings.HasPrefix(o.Name, dir)
	}, syscall.EIO))
}

func TestWithoutADirectoryTheBrokerCannotGoOn(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	o := options(t, disk)
	n, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	cl := client(t, n, kgo.RecordRetries(0))
	createTopic(t, cl, "t", 1)
	produce(t, cl, "t", 0, 1) // the producer has its id now
	failUnder(disk, "/data")
	_ = cl.ProduceSync(context.Background(), &kgo.Record{Topic: "t", Value: []byte("v")})
	select {
	case err := <-n.Failed():
		t.Log(err)
	case <-time.After(10 * time.Second):
		t.Error("no failure was reported")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = n.Stop(ctx) // its checkpoints cannot be written; that it ends is what matters
	if ctx.Err() != nil {
		t.Error("the broker does not stop")
	}
}

func TestOtherDirectoriesGoOn(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	n, err := Start(context.Background(), options(t, disk, "log.dirs=/a,/b"))
	if err != nil {
		t.Fatal(err)
	}
	cl := client(t, n, kgo.RecordRetries(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	createTopic(t, cl, "t", 4)
	lost, kept := "/b", map[int32]bool{}
	if meta := n.store.Log(controller.LogID); meta.Dir() == "/b" {
		lost = "/a"
	}
	for _, dir := range n.store.Dirs() {
		for _, l := range dir.Logs {
			if l.ID().Topic == "t" {
				kept[l.ID().Partition] = dir.Path != lost
			}
		}
	}
	failUnder(disk, lost)
	for partition, good := range kept {
		err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: "t", Partition: partition, Value: []byte("v")}).FirstErr()
		if (err == nil) != good {
			t.Errorf("partition %d on a good disk %v: %v", partition, good, err)
		}
	}
	// Asked of the broker itself: what kgo merges of all brokers' answers has no error codes.
	resp, err := kmsg.NewPtrDescribeLogDirsRequest().RequestWith(context.Background(), cl.Broker(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range resp.Dirs {
		if (dir.ErrorCode == 56) != (dir.Dir == lost) {
			t.Errorf("%s: error %d", dir.Dir, dir.ErrorCode)
		}
	}
	select {
	case err := <-n.Failed():
		t.Errorf("the broker gave up: %v", err)
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = n.Stop(ctx)
}

// One of two directories of one of three brokers can only be read from now on: what it led is led by others, who have
// all that was acknowledged, and writes go on. What is in the other directory stays where it is.
func TestLeadershipLeavesAReadOnlyDirectory(t *testing.T) {
	c := newNodes(t, 3, "log.dirs=/a,/b", "min.insync.replicas=2", "auto.leader.rebalance.enable=false")
	disks := make([]*vfs.Faulty, 3)
	for i := range disks {
		disks[i] = vfs.NewFaulty(c.disks[i])
		c.options[i].FS = disks[i]
	}
	c.start(0, 1, 2)
	const topics = 8
	for i := range topics {
		if err := c.create(0, fmt.Sprint("t", i), 3); err != nil {
			t.Fatal(err)
		}
	}
	victim := 1
	lost := "/b"
	if c.running[victim].store.Log(controller.LogID).Dir() == "/b" {
		lost = "/a"
	}
	id := int32(victim + 1)
	gone := map[string]bool{} // topics whose replica is in the directory that fails
	for i := range topics {
		var p *replica.Partition
		c.eventually("replica", func() bool {
			found, err := c.running[victim].replicas.Partition(fmt.Sprint("t", i), 0)
			p = found
			return err == nil
		})
		gone[p.Topic] = p.Log().Dir() == lost
	}
	cl := c.client(kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	write := func(value string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for i := range topics {
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: fmt.Sprint("t", i), Value: []byte(value)}).FirstErr(); err != nil {
				t.Fatalf("t%d: %v", i, err)
			}
		}
	}
	write("before")
	disks[victim].Inject(vfs.FailMatching(func(o vfs.Op) bool { return o.Kind.Writes() && strings.HasPrefix(o.Name, lost+"/") }, syscall.EROFS))
	write("after")
	c.eventually("leadership elsewhere", func() bool {
		for topic, is := range gone {
			p := c.partition(c.leader(), topic)
			if p.Leader < 0 || is == slices.Contains(p.ISR, id) || is && p.Leader == id {
				return false
			}
		}
		return true
	})
	write("in the end")
	for _, n := range c.running {
		if b := n.image().Broker(id); len(b.LogDirs) != 1 || b.Fenced {
			t.Errorf("directories %v, fenced %v", b.LogDirs, b.Fenced)
		}
	}
	if s := c.running[victim].replicas.State(); s.OfflineReplicas == 0 || s.OfflineReplicas == s.Partitions {
		t.Errorf("%+v", s)
	}
	disks[victim].Inject(nil)
	c.stop(victim)
	c.start(victim) // with its directory back
	c.eventually("whole ISRs", func() bool {
		for topic := range gone {
			if len(c.partition(c.leader(), topic).ISR) != 3 {
				return false
			}
		}
		return true
	})
}
