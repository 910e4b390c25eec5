package node

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/controller"
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
