package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/vfs"
	"grete/logstore"
)

// oneLogger is a process whose logger nobody changes.
type oneLogger struct{}

func (oneLogger) Levels() map[string]string { return map[string]string{"root": "INFO"} }
func (oneLogger) SetLevel(string, string)   {}

// options of a broker in memory, on a free port.
func options(t testing.TB, fs vfs.FS, properties ...string) Options {
	t.Helper()
	s := config.Sources{FileName: "test", Hostname: "localhost"}
	s.File = []byte("listeners=PLAINTEXT://127.0.0.1:0\nadmin.listen=\nlog.dirs=/data\ngroup.initial.rebalance.delay.ms=0\n" + strings.Join(properties, "\n"))
	cfg, err := config.Load(s)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Config: cfg, FS: fs, Clock: clock.System, Entropy: rand.Reader, Log: zerolog.Nop(), Loggers: oneLogger{}}
}

func start(t testing.TB, o Options) *Node {
	t.Helper()
	n, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopNode(t, n) })
	return n
}

func stopNode(t testing.TB, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func client(t testing.TB, n *Node, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.Addr("PLAINTEXT"))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func createTopic(t testing.TB, cl *kgo.Client, name string, partitions int32) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(context.Background(), cl)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}

func produce(t testing.TB, cl *kgo.Client, topic string, from, to int) {
	t.Helper()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, "v", i)})
	}
	if err := cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// consume polls until n records have come, and fails on a repetition.
func consume(t testing.TB, cl *kgo.Client, n int) map[string]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	got := map[string]bool{}
	for len(got) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records: %v", len(got), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if got[string(r.Value)] {
				t.Errorf("%s came twice", r.Value)
			}
			got[string(r.Value)] = true
		})
	}
	return got
}

// A stock client creates, produces and consumes in a group; after a restart all of it is there, and the group goes on
// where it was.
func TestClientAcrossARestart(t *testing.T) {
	fs := vfs.NewMem()
	n := start(t, options(t, fs))
	cl := client(t, n)
	createTopic(t, cl, "orders", 3)
	produce(t, cl, "orders", 0, 100)
	group := client(t, n, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"))
	consume(t, group, 100)
	if err := group.CommitUncommittedOffsets(context.Background()); err != nil {
		t.Fatal(err)
	}
	group.Close()
	cl.Close()
	clusterID := n.ClusterID()
	stopNode(t, n)

	n = start(t, options(t, fs))
	if n.ClusterID() != clusterID || len(clusterID) != 22 {
		t.Errorf("cluster id %q, then %q", clusterID, n.ClusterID())
	}
	produce(t, client(t, n), "orders", 100, 120)
	for value := range consume(t, client(t, n, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders")), 20) {
		if len(value) < 4 {
			t.Errorf("%s was consumed before", value)
		}
	}
	consume(t, client(t, n, kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 120)
}

func TestTopicsAreCreatedWhenFirstNamed(t *testing.T) {
	n := start(t, options(t, vfs.NewMem(), "num.partitions=2"))
	cl := client(t, n, kgo.AllowAutoTopicCreation())
	produce(t, cl, "fresh", 0, 10)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("fresh")}}
	resp, err := req.RequestWith(context.Background(), cl)
	if err != nil || len(resp.Topics[0].Partitions) != 2 {
		t.Fatalf("%+v, %v", resp, err)
	}

	closed := start(t, options(t, vfs.NewMem(), "auto.create.topics.enable=false"))
	req.Topics[0].Topic, req.AllowAutoTopicCreation = kmsg.StringPtr("never"), true
	for range 2 {
		resp, err = req.RequestWith(context.Background(), client(t, closed))
		if err != nil || resp.Topics[0].ErrorCode != 3 {
			t.Fatalf("%+v, %v", resp, err)
		}
	}
}

// A node that cannot write its metadata log ends its start with that, and does not wait for a leader that cannot come.
func TestStartEndsWithItsMetadataLog(t *testing.T) {
	disk := vfs.NewMem()
	stopNode(t, start(t, options(t, disk)))
	faulty := vfs.NewFaulty(disk)
	faulty.Inject(vfs.FailMatching(func(o vfs.Op) bool { return strings.HasSuffix(o.Name, "quorum-state.tmp") }, syscall.EACCES))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	n, err := Start(ctx, options(t, faulty))
	if err == nil {
		stopNode(t, n)
	}
	if !errors.Is(err, syscall.EACCES) || ctx.Err() != nil || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

// A directory is the same however its name is written, the metadata log's too.
func TestNamesOfADirectory(t *testing.T) {
	disk := vfs.NewMem()
	for _, names := range []string{"log.dirs=/data", "log.dirs=/data/", "log.dirs=//data/.", "log.dirs=/more/,/data/\nmetadata.log.dir=/data//"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		n, err := Start(ctx, options(t, disk, names))
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", names, err)
		}
		stopNode(t, n)
	}
}

// Each obstacle is named in an error, and nothing of the broker is left running.
func TestStartRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	fs := vfs.NewMem()
	start(t, options(t, fs))
	foreign := vfs.NewMem()
	if _, err := logstore.PrepareDirs(foreign, []string{"/data"}, logstore.MetaProperties{NodeID: 7}, func(p []byte) { _, _ = rand.Read(p) }, nil); err != nil {
		t.Fatal(err)
	}
	disk := vfs.NewFaulty(vfs.NewMem())
	disk.Inject(vfs.FailMatching(func(o vfs.Op) bool { return o.Kind.Writes() }, syscall.EROFS))
	before := runtime.NumGoroutine()
	for _, tt := range []struct {
		what string
		o    Options
		want string
	}{
		{"port in use", options(t, vfs.NewMem(), "listeners=PLAINTEXT://"+taken.Addr().String()), "listener PLAINTEXT cannot listen on"},
		{"directory in use", options(t, fs), "in use"},
		{"another node's directory", options(t, foreign), "node.id 7"},
		{"read-only", options(t, disk), "no usable log directory"},
	} {
		n, err := Start(context.Background(), tt.o)
		if err == nil {
			stopNode(t, n)
			t.Errorf("%s: started", tt.what)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q, want %q in one line", tt.what, err, tt.want)
		}
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// A port that is chosen by the system is the one that clients are told.
func TestFreePortIsAdvertised(t *testing.T) {
	n := start(t, options(t, vfs.NewMem(), "listeners=PLAINTEXT://localhost:0"))
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(context.Background(), client(t, n))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(n.Addr("PLAINTEXT"))
	if b := resp.Brokers[0]; b.Host != "localhost" || fmt.Sprint(b.Port) != port {
		t.Errorf("advertised %s:%d, listening on %s", b.Host, b.Port, n.Addr("PLAINTEXT"))
	}
}

func TestSocketBuffersAreTheSystemsUnlessChosen(t *testing.T) {
	for _, tt := range []struct {
		property string
		want     int
	}{{"", -1}, {"socket.receive.buffer.bytes=102400", 102400}, {"socket.receive.buffer.bytes=-1", -1}} {
		o := options(t, vfs.NewMem(), tt.property)
		if got := bufferBytes(o.Config.Layers, "socket.receive.buffer.bytes"); got != tt.want {
			t.Errorf("%q: %d, want %d", tt.property, got, tt.want)
		}
	}
}
