package connect

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grete/compat-tests/kafka"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

//go:embed pom.xml
var pom []byte

const (
	lines       = 3000
	linesPerSec = 150
	copyTimeout = 90 * time.Second
)

// bench is a broker, a worker, and the two files.
type bench struct {
	t          *testing.T
	libs, dir  string
	broker     *kafka.Broker
	worker     *worker
	properties map[string]string
	lines      []string // of the source's file
}

func newBench(t *testing.T, properties map[string]string) *bench {
	t.Helper()
	libs, err := kafka.Jars(t.Context(), "connect", pom)
	kafka.SkipOrFail(t, err)
	b := &bench{t: t, libs: libs, dir: t.TempDir(), properties: properties}
	b.broker, err = kafka.StartTarget(context.Background(), kafka.Options{Dir: b.dir,
		Properties: map[string]string{"group.initial.rebalance.delay.ms": "100", "group.min.session.timeout.ms": "1000"}})
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() {
		if b.worker != nil {
			b.worker.Kill()
			if t.Failed() {
				t.Logf("the worker said:\n%s", b.worker.Tail())
			}
		}
		_ = b.broker.Kill()
	})
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) startWorker() {
	b.t.Helper()
	w, err := startWorker(b.libs, b.dir, b.broker.Addr, b.properties)
	kafka.SkipOrFail(b.t, err)
	b.worker = w
}

func (b *bench) in() string  { return filepath.Join(b.dir, "in.txt") }
func (b *bench) out() string { return filepath.Join(b.dir, "out.txt") }

// configure makes a source from one file to the topic, and a sink from there to the other.
func (b *bench) configure() {
	b.t.Helper()
	b.must(b.worker.configure(b.t.Context(), "source", map[string]string{"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
		"tasks.max": "1", "file": b.in(), "topic": "lines"}))
	b.must(b.worker.configure(b.t.Context(), "sink", map[string]string{"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
		"tasks.max": "1", "file": b.out(), "topics": "lines"}))
}

// write appends the lines for the source, linesPerSec, and returns at once; the test's end waits for it.
func (b *bench) write() {
	b.t.Helper()
	f, err := os.OpenFile(b.in(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	b.must(err)
	for n := range lines {
		b.lines = append(b.lines, fmt.Sprintf("line %d of the file", n))
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for _, line := range b.lines {
			_, failed := fmt.Fprintln(f, line)
			err = errors.Join(err, failed)
			time.Sleep(time.Second / linesPerSec)
		}
		done <- errors.Join(err, f.Close())
	}()
	b.t.Cleanup(func() { b.must(<-done) })
}

// copied waits until the sink's file has n different lines, and returns all that it has.
func (b *bench) copied(n int) []string {
	b.t.Helper()
	deadline := time.Now().Add(copyTimeout)
	for {
		text, err := os.ReadFile(b.out())
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			b.t.Fatal(err)
		}
		got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if distinct := len(slices.Compact(slices.Sorted(slices.Values(got)))); distinct >= n && strings.HasSuffix(string(text), "\n") {
			return got
		} else if time.Now().After(deadline) {
			b.t.Fatalf("%d of %d lines after %v", distinct, n, copyTimeout)
		}
		if b.worker.Ended() {
			b.t.Fatal("the worker has ended")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (b *bench) running() {
	b.t.Helper()
	for _, name := range []string{"source", "sink"} {
		states, err := b.worker.states(b.t.Context(), name)
		b.must(err)
		if states != "RUNNING RUNNING" {
			b.t.Errorf("%s: %s", name, states)
		}
	}
}

// TestWorkerRestart: a worker that is stopped in mid-flight goes on where it was; the copy is the original.
func TestWorkerRestart(t *testing.T) {
	b := newBench(t, nil)
	b.write()
	b.startWorker()
	b.configure()
	b.copied(lines / 3)
	b.running()
	b.worker.Stop()
	b.startWorker()
	got := b.copied(lines)
	if !slices.Equal(got, b.lines) {
		t.Fatalf("the copy has %d lines and differs from the original with %d", len(got), len(b.lines))
	}
	b.running()
	b.compacted("connect-configs", "connect-offsets", "connect-status")
}

// TestWorkerKilled: kill -9 of a worker whose sources are exactly-once. The topic has every line once, in order; the
// sink, which is at-least-once, has every line.
func TestWorkerKilled(t *testing.T) {
	b := newBench(t, map[string]string{"exactly.once.source.support": "enabled"})
	b.write()
	b.startWorker()
	b.configure()
	b.copied(lines / 4)
	b.worker.Kill()
	b.startWorker()
	b.copied(lines / 2)
	b.worker.Kill()
	b.startWorker()
	b.copied(lines)
	b.running()
	if got := b.topic(); !slices.Equal(got, b.lines) {
		t.Fatalf("the topic has %d lines and differs from the original with %d", len(got), len(b.lines))
	}
}

func (b *bench) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.broker.Addr))...)
	b.must(err)
	b.t.Cleanup(cl.Close)
	return cl
}

// topic is what a read_committed reader sees in it.
func (b *bench) topic() []string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), copyTimeout)
	defer cancel()
	stable, err := kadm.NewClient(b.client()).ListCommittedOffsets(ctx, "lines")
	b.must(err)
	end, _ := stable.Lookup("lines", 0)
	cl := b.client(kgo.ConsumeTopics("lines"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	var got []string
	for next := int64(0); next < end.Offset; {
		fetches := cl.PollFetches(ctx)
		b.must(fetches.Err())
		for _, k := range fetches.Records() {
			if next = k.Offset + 1; !k.Attrs.IsControl() {
				got = append(got, string(k.Value))
			}
		}
	}
	return got
}

// compacted: a worker refuses to work with internal topics that are not.
func (b *bench) compacted(topics ...string) {
	b.t.Helper()
	configs, err := kadm.NewClient(b.client()).DescribeTopicConfigs(b.t.Context(), topics...)
	b.must(err)
	for _, c := range configs {
		b.must(c.Err)
		for _, kv := range c.Configs {
			if kv.Key == "cleanup.policy" && kv.MaybeValue() != "compact" {
				b.t.Errorf("%s: cleanup.policy=%s", c.Name, kv.MaybeValue())
			}
		}
	}
}
