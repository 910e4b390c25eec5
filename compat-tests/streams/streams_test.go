// Package streams runs a Kafka Streams application against the broker, and ends it in mid-flight.
package streams

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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
	partitions   = 3
	lines        = 4000
	wordsPerLine = 5
	linesPerSec  = 250
	appTimeout   = 3 * time.Minute
)

// bench is a broker, the application and what its output must be.
type bench struct {
	t      *testing.T
	libs   string
	dir    string
	port   int
	broker *kafka.Broker
	app    *kafka.Program
	want   map[string]int // how often each word was sent
}

func newBench(t *testing.T) *bench {
	t.Helper()
	libs, err := kafka.Jars(t.Context(), "streams", pom)
	kafka.SkipOrFail(t, err)
	b := &bench{t: t, libs: libs, dir: t.TempDir(), want: map[string]int{}}
	b.startBroker()
	t.Cleanup(func() {
		if b.app != nil {
			b.app.Kill()
			if t.Failed() {
				t.Logf("the application said:\n%s", b.app.Tail())
			}
		}
		_ = b.broker.Kill()
	})
	return b
}

// startBroker starts it on the same data and port again.
func (b *bench) startBroker() {
	b.t.Helper()
	broker, err := kafka.StartTarget(context.Background(), kafka.Options{Dir: b.dir, Port: b.port,
		Properties: map[string]string{"group.initial.rebalance.delay.ms": "100", "group.min.session.timeout.ms": "1000"}})
	kafka.SkipOrFail(b.t, err)
	b.broker = broker
	_, port, err := net.SplitHostPort(broker.Addr)
	if err == nil {
		b.port, err = strconv.Atoi(port)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) startApp(guarantee string) {
	b.t.Helper()
	_, here, _, _ := runtime.Caller(0)
	app, err := kafka.StartJava(b.libs, filepath.Join(b.dir, "app.log"), filepath.Join(filepath.Dir(here), "WordCount.java"),
		b.broker.Addr, guarantee, filepath.Join(b.dir, "state"))
	kafka.SkipOrFail(b.t, err)
	b.app = app
}

func (b *bench) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.broker.Addr))...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return cl
}

func (b *bench) createTopics() {
	b.t.Helper()
	created, err := kadm.NewClient(b.client()).CreateTopics(b.t.Context(), partitions, 1, nil, "lines", "counts")
	if err = errors.Join(err, created.Error()); err != nil {
		b.t.Fatal(err)
	}
}

// send writes all lines, at the pace of linesPerSec, and returns at once; the channel tells the end.
func (b *bench) send() chan error {
	rng := rand.New(rand.NewPCG(1, 2))
	var text []string
	for range lines {
		var words []string
		for range wordsPerLine {
			word := fmt.Sprintf("w%02d", int(rng.ExpFloat64()*15))
			words = append(words, word)
			b.want[word]++
		}
		text = append(text, strings.Join(words, " "))
	}
	cl, done := b.client(), make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), appTimeout)
		defer cancel()
		var failed error
		for _, line := range text {
			cl.Produce(ctx, &kgo.Record{Topic: "lines", Value: []byte(line)}, func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
			time.Sleep(time.Second / linesPerSec)
		}
		err := cl.Flush(ctx) // after it no callback writes failed
		done <- errors.Join(err, failed)
	}()
	return done
}

// output reads counts and holds them against what they must be, one by one.
type output struct {
	b     *bench
	cl    *kgo.Client
	seen  map[string]int64
	total int
	ctx   context.Context
}

func (b *bench) output() *output {
	ctx, cancel := context.WithTimeout(context.Background(), appTimeout)
	b.t.Cleanup(cancel)
	cl := b.client(kgo.ConsumeTopics("counts"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	return &output{b: b, cl: cl, seen: map[string]int64{}, ctx: ctx}
}

// until reads on until total counts are there. A word's counts are 1, 2, 3 …: no gap, no repetition, no other order.
func (o *output) until(total int) {
	o.b.t.Helper()
	for o.total < total {
		if o.b.app.Ended() {
			o.b.t.Fatal("the application has ended")
		}
		poll, cancel := context.WithTimeout(o.ctx, time.Second)
		records := o.cl.PollFetches(poll).Records()
		cancel()
		if o.ctx.Err() != nil {
			o.b.t.Fatalf("%d counts of %d after %v", o.total, total, appTimeout)
		}
		for _, k := range records {
			word, n := string(k.Key), int64(binary.BigEndian.Uint64(k.Value))
			if n != o.seen[word]+1 {
				o.b.t.Fatalf("%s: count %d after %d (partition %d offset %d)", word, n, o.seen[word], k.Partition, k.Offset)
			}
			o.seen[word] = n
			o.total++
		}
	}
}

// whole holds the last counts against the input: nothing is missing, nothing is too much.
func (o *output) whole() {
	o.b.t.Helper()
	if len(o.seen) != len(o.b.want) {
		o.b.t.Fatalf("%d words counted, %d sent", len(o.seen), len(o.b.want))
	}
	for word, n := range o.b.want {
		if o.seen[word] != int64(n) {
			o.b.t.Errorf("%s: counted %d, sent %d", word, o.seen[word], n)
		}
	}
}

// TestWordCount: the application is stopped and started again while lines come; its state goes on.
func TestWordCount(t *testing.T) {
	b := newBench(t)
	b.createTopics()
	sent, out := b.send(), b.output()
	b.startApp("at_least_once")
	out.until(lines)
	b.app.Stop()
	if err := os.RemoveAll(filepath.Join(b.dir, "state")); err != nil { // what it knew comes back from the changelog
		t.Fatal(err)
	}
	b.startApp("at_least_once")
	out.until(lines * wordsPerLine)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	out.whole()
	b.internalTopics()
}

// TestExactlyOnce: the application is killed, the broker is killed, and the application once more, all with kill -9
// in mid-flight; a read_committed reader sees each count once.
func TestExactlyOnce(t *testing.T) {
	b := newBench(t)
	b.createTopics()
	sent, out := b.send(), b.output()
	b.startApp("exactly_once_v2")
	out.until(lines)
	b.app.Kill()
	b.startApp("exactly_once_v2")
	out.until(2 * lines)
	if err := b.broker.Kill(); err != nil {
		t.Fatal(err)
	}
	b.startBroker()
	out.until(3 * lines)
	b.app.Kill()
	b.startApp("exactly_once_v2")
	out.until(lines * wordsPerLine)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	out.whole()
}

// internalTopics: Streams made its changelog compacted, and its repartition topic deleted by the application alone.
func (b *bench) internalTopics() {
	b.t.Helper()
	for topic, want := range map[string]string{"word-count-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog": "compact",
		"word-count-words-repartition": "delete"} {
		configs, err := kadm.NewClient(b.client()).DescribeTopicConfigs(b.t.Context(), topic)
		if err != nil {
			b.t.Fatal(err)
		}
		c, err := configs.On(topic, nil)
		if err = errors.Join(err, c.Err); err != nil {
			b.t.Fatalf("%s: %v", topic, err)
		}
		for _, kv := range c.Configs {
			if kv.Key == "cleanup.policy" && kv.MaybeValue() != want {
				b.t.Errorf("%s: cleanup.policy=%s", topic, kv.MaybeValue())
			}
		}
	}
}
