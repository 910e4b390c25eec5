package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/vfs"
)

// moveTo asks for a partition's move to a directory.
func moveTo(t *testing.T, cl *kgo.Client, broker int, topic, dir string) int16 {
	t.Helper()
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir = dir
	rt := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	d.Topics = append(d.Topics, rt)
	req.Dirs = append(req.Dirs, d)
	resp, err := req.RequestWith(context.Background(), cl.Broker(broker))
	if err != nil {
		t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

// A log moves to and fro between directories under an idempotent producer: nothing is lost, doubled or refused, the
// controller knows where it is, and so does the next start.
func TestLogMovesUnderLoad(t *testing.T) {
	disk := vfs.NewMem()
	o := options(t, disk, "log.dirs=/a,/b", "log.segment.bytes=1048576")
	n, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	cl := client(t, n, kgo.RecordRetries(3), kgo.ProducerLinger(0))
	createTopic(t, cl, "m", 1)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stop, stopped, written := make(chan bool), make(chan error), 0
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			value := fmt.Sprintf("%d %01000d", written, 0)
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "m", Value: []byte(value)}).FirstErr(); err != nil {
				stopped <- err
				<-stop
				return
			}
			written++
		}
	}()
	p, err := n.replicas.Partition("m", 0)
	if err != nil {
		t.Fatal(err)
	}
	eventually := func(what string, f func() bool) {
		t.Helper()
		for deadline := time.Now().Add(15 * time.Second); !f(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no %s", what)
			}
		}
	}
	eventually("first move's log", func() bool { return p.Log().EndOffset() > 100 })
	for range 4 {
		to := "/a"
		if p.Log().Dir() == "/a" {
			to = "/b"
		}
		if code := moveTo(t, cl, 1, "m", to); code != 0 {
			t.Fatalf("error %d", code)
		}
		eventually("move", func() bool { return p.Log().Dir() == to })
		id := p.Log().DirectoryID()
		eventually("directory in the metadata", func() bool { return [16]byte(n.image().Topic("m").Partitions[0].Directory(1)) == id })
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if end := p.Log().EndOffset(); end != int64(written) {
		t.Errorf("%d records, %d were acknowledged", end, written)
	}
	dir := p.Log().Dir()
	cl.Close()
	stopNode(t, n)
	n = start(t, o)
	cl = client(t, n, kgo.ConsumeTopics("m"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for next := 0; next < written; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("record %d does not come", next)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var got int
			if _, err := fmt.Sscan(string(r.Value), &got); err != nil || got != next {
				t.Fatalf("%.20s where %d was due", r.Value, next)
			}
			next++
		})
	}
	if in := describedIn(t, cl, dir, "m"); in == nil || in.IsFuture {
		t.Errorf("it is not in %s", dir)
	}
}

// describedIn is what broker 1 says of partition 0 of topic in dir, nil when it is not there.
func describedIn(t *testing.T, cl *kgo.Client, dir, topic string) *kmsg.DescribeLogDirsResponseDirTopicPartition {
	t.Helper()
	resp, err := kmsg.NewPtrDescribeLogDirsRequest().RequestWith(context.Background(), cl.Broker(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range resp.Dirs {
		for _, rt := range d.Topics {
			if d.Dir == dir && rt.Topic == topic {
				return &rt.Partitions[0]
			}
		}
	}
	return nil
}

// setBroker changes a dynamic property of a broker.
func setBroker(t *testing.T, cl *kgo.Client, broker, name, value string) {
	t.Helper()
	alter(t, cl, kmsg.ConfigResourceTypeBroker, broker, name, value)
}

func alter(t *testing.T, cl *kgo.Client, kind kmsg.ConfigResourceType, resource, name, value string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, resource
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = name, &value
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(context.Background(), cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// While it is copied a log is shown twice, once as future, with how far it is behind.
func TestFutureLogIsDescribed(t *testing.T) {
	n := start(t, options(t, vfs.NewMem(), "log.dirs=/a,/b"))
	cl := client(t, n, kgo.ProducerLinger(0))
	createTopic(t, cl, "f", 1)
	produce(t, cl, "f", 0, 10)
	setBroker(t, cl, "1", "replica.alter.log.dirs.io.max.bytes.per.second", "0")
	p, err := n.replicas.Partition("f", 0)
	if err != nil {
		t.Fatal(err)
	}
	to := "/a"
	if p.Log().Dir() == "/a" {
		to = "/b"
	}
	if code := moveTo(t, cl, 1, "f", to); code != 0 {
		t.Fatalf("error %d", code)
	}
	here, there := describedIn(t, cl, p.Log().Dir(), "f"), describedIn(t, cl, to, "f")
	if here == nil || there == nil || here.IsFuture || here.OffsetLag != 0 || !there.IsFuture || there.OffsetLag != 10 || there.Size != 0 {
		t.Errorf("%+v, %+v", here, there)
	}
	for topic, want := range map[string]int16{"none": 3} {
		if code := moveTo(t, cl, 1, topic, to); code != want {
			t.Errorf("%s: error %d", topic, code)
		}
	}
	if code := moveTo(t, cl, 1, "f", "/nowhere"); code != 57 {
		t.Errorf("error %d", code)
	}
}
