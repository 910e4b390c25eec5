package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/internal/clock"
)

type benchFlags struct {
	records, size int
	rate          int
	f             produceFlags
}

func (t *tool) benchCommand() *cobra.Command {
	var b benchFlags
	produce := &cobra.Command{
		Use: "produce <topic>", Short: "Write records as fast as possible, or at a rate, and show throughput and latency", Args: exactly(1),
		RunE: t.streams(func(ctx context.Context, c *cluster, args []string) error { return c.benchProduce(ctx, args[0], b) }),
	}
	flags := produce.Flags()
	flags.IntVarP(&b.records, "records", "n", 1_000_000, "how many records")
	flags.IntVarP(&b.size, "size", "s", 100, "`bytes` of a record's value")
	flags.IntVar(&b.rate, "rate", 0, "records per second; 0 is as fast as possible")
	flags.StringVarP(&b.f.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	flags.StringVarP(&b.f.acks, "acks", "a", "all", "all, 1 or 0")
	flags.Int32Var(&b.f.maxBytes, "max-message-bytes", 1_000_000, "most `bytes` of a batch")
	consume := &cobra.Command{
		Use: "consume <topic>", Short: "Read records from the start to the end and show throughput", Args: exactly(1),
		RunE: t.streams(func(ctx context.Context, c *cluster, args []string) error {
			return c.benchConsume(ctx, args[0], b.records)
		}),
	}
	consume.Flags().IntVarP(&b.records, "records", "n", 0, "end after that many records; 0 reads all")
	for _, cmd := range []*cobra.Command{produce, consume} {
		cmd.ValidArgsFunction = t.completes(1, topicNames)
	}
	t.shows(produce, consume)
	return group("bench", "Measure how fast records are written and read", produce, consume)
}

type benchView struct {
	Records   int64   `json:"records"`
	Bytes     int64   `json:"bytes"` // of keys and values
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"recordsPerSecond"`
	MiBPerSec float64 `json:"mibPerSecond"`
	P50Ms     float64 `json:"p50Ms,omitempty"`
	P99Ms     float64 `json:"p99Ms,omitempty"`
	MaxMs     float64 `json:"maxMs,omitempty"`
}

func (t *tool) showBench(records, bytes int64, took time.Duration, latencies []time.Duration) error {
	s := max(took.Seconds(), 1e-9)
	v := benchView{Records: records, Bytes: bytes, Seconds: s, PerSecond: float64(records) / s, MiBPerSec: float64(bytes) / (1 << 20) / s}
	line := fmt.Sprintf("%s in %.2f s: %.0f records/s, %.1f MiB/s", count(int(records), "record"), s, v.PerSecond, v.MiBPerSec)
	if slices.Sort(latencies); len(latencies) > 0 {
		at := func(q float64) float64 {
			return float64(latencies[int(q*float64(len(latencies)-1))].Microseconds()) / 1000
		}
		v.P50Ms, v.P99Ms, v.MaxMs = at(0.5), at(0.99), at(1)
		line += fmt.Sprintf("; latency p50 %.1f ms, p99 %.1f ms, max %.1f ms", v.P50Ms, v.P99Ms, v.MaxMs)
	}
	if t.output != "table" && t.output != "wide" {
		return t.showValue(v)
	}
	_, err := fmt.Fprintln(t.Stdout, line)
	return err
}

// acknowledged collects what came of the records of a bench.
type acknowledged struct {
	mu        sync.Mutex
	latencies []time.Duration
	first     error
}

// take notes one record; a sample of latencies is enough.
func (a *acknowledged) take(n int, took time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && a.first == nil {
		a.first = err
	}
	if n%benchSample == 0 && err == nil {
		a.latencies = append(a.latencies, took)
	}
}

const (
	// benchSample is of how many records one is timed.
	benchSample = 16
	// benchSlice is how often a bench with a rate looks at the clock.
	benchSlice = 5 * time.Millisecond
)

func (c *cluster) benchProduce(ctx context.Context, topic string, b benchFlags) error {
	if b.records < 1 || b.size < 0 || b.size > 1<<28 || b.rate < 0 {
		return usagef("--records is at least 1, --size and --rate at least 0")
	}
	b.f.partition, b.f.partitioner = -1, "default"
	options, err := b.f.options()
	if err != nil {
		return err
	}
	if err := c.canProduce(ctx, topic, b.f); err != nil {
		return err
	}
	cl, err := c.client(options...)
	if err != nil {
		return err
	}
	value := make([]byte, b.size)
	for i, x := 0, uint32(1); i < len(value); i++ { // text that does not compress to nothing
		x = x*1664525 + 1013904223
		value[i] = 'a' + byte(x>>24)%26
	}
	var got acknowledged
	begun := c.t.Clock.Now()
	sent := 0
	for ; sent < b.records && ctx.Err() == nil; sent++ {
		if b.rate > 0 {
			due := time.Duration(float64(sent) / float64(b.rate) * float64(time.Second))
			for ahead := due - c.t.Clock.Now().Sub(begun); ahead > benchSlice; ahead = due - c.t.Clock.Now().Sub(begun) {
				if clock.Pause(ctx, c.t.Clock, benchSlice) != nil {
					break
				}
			}
		}
		n, at := sent, c.t.Clock.Now()
		cl.Produce(ctx, &kgo.Record{Topic: topic, Value: value}, func(_ *kgo.Record, err error) { got.take(n, c.t.Clock.Now().Sub(at), err) })
	}
	flushing, cancel := clock.WithTimeout(ctx, c.t.Clock, c.timeout)
	defer cancel()
	err = errors.Join(cl.Flush(flushing), got.first)
	took := c.t.Clock.Now().Sub(begun)
	if interrupted(ctx) {
		return fmt.Errorf("%w after %s, of which all but the last are in %s", errInterrupted, count(sent, "record"), topic)
	}
	if err != nil {
		return err
	}
	return c.t.showBench(int64(sent), int64(sent)*int64(b.size), took, got.latencies)
}

func (c *cluster) benchConsume(ctx context.Context, topic string, records int) error {
	if records < 0 {
		return usagef("--records is at least 0")
	}
	var bytes, read int64
	f := consumeFlags{from: "start", exit: true, count: int64(records), format: "%v"}
	r, err := f.reader(c.t)
	if err != nil {
		return err
	}
	r.out.Reset(io.Discard)
	r.append = func(out []byte, record *kgo.Record) []byte {
		read, bytes = read+1, bytes+int64(len(record.Key)+len(record.Value))
		return out
	}
	begun := c.t.Clock.Now()
	at, err := c.startOf(ctx, []string{topic}, f, r)
	if err != nil {
		return err
	}
	if len(at) > 0 {
		if err := c.readFrom(ctx, at, r, f.fetchOptions()); err != nil {
			return err
		}
	}
	return c.t.showBench(read, bytes, c.t.Clock.Now().Sub(begun), nil)
}
