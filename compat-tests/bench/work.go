package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// row is a line of the table: what was measured, what each target showed, and what must hold.
type row struct {
	work           string
	floor, grete   string
	kafka          string
	result, target string
	met            bool
}

// comparison is a load that several targets run in turn, with the figures taken from it.
type comparison struct {
	name     string
	brokers  int    // of a target; 0: one
	listener string // security protocol of the one under load; "": PLAINTEXT
	rounds   int    // at most; 0: as many as are asked for
	warm     bool   // a round that does not count comes first: the JVMs of a cluster have little to do each
	targets  []string
	run      func(t *target, round int) (sample, error)
	figures  []figure
}

// figure is one number of a sample and the bound on its ratio to another target's.
type figure struct {
	name    string
	of      func(sample) float64
	against string
	bound   float64
	// orAtMost, if positive, is enough by itself.
	orAtMost float64
}

var (
	all  = []string{"floor", "grete", "kafka"}
	both = []string{"grete", "kafka"}
)

func comparisons(scale int64) []comparison {
	cpuGiB := func(s sample) float64 { return s.cpuPerGiB }
	cpuReq := func(s sample) float64 { return s.cpuMsPerReq }
	p50 := func(s sample) float64 { return s.p50 }
	p99 := func(s sample) float64 { return s.p99 }
	return []comparison{
		{name: "produce64", targets: all, run: produce(produceLoad{topic: "p64", partitions: 6, totalBytes: scale << 30, batchBytes: 65536, conns: 2, inFlight: 5}),
			figures: []figure{{"produce 64 KiB batches: broker CPU s/GiB", cpuGiB, "floor", 1.3, 0}}},
		{name: "produce1", targets: all, run: produce(produceLoad{topic: "p1", partitions: 6, totalBytes: scale << 27, batchBytes: 1024, conns: 4, inFlight: 5}),
			figures: []figure{{"produce 1 KiB batches: broker CPU ms/request", cpuReq, "floor", 1.6, 0}}},
		{name: "rtt", targets: all, run: func(t *target, _ int) (sample, error) { return rttLoad("rtt", 300, 10000)(t) },
			figures: []figure{{"rtt of a 300-byte batch: p50 ms", p50, "floor", 2, 0}}},
		{name: "tail", targets: both, run: func(t *target, _ int) (sample, error) { return tailLoad("tail", 3000)(t) },
			figures: []figure{{"tail: p50 ms", p50, "kafka", .5, 0}, {"tail: p99 ms", p99, "kafka", .1, 0}}},
		{name: "txn", targets: both, run: func(t *target, round int) (sample, error) { return txnLoad(fmt.Sprint("txn-", round), 3000)(t) },
			figures: []figure{{"transaction of 10 records, one producer: ms", func(s sample) float64 { return s.msPerTxn }, "kafka", .5, 0},
				{"read_committed, from send to all read: p50 ms", p50, "kafka", .5, 0}}},
		{name: "compact", targets: both, run: compactLoad(scale << 30),
			figures: []figure{{"compaction: s per GiB of log", func(s sample) float64 { return 1024 / s.mibPerSec }, "kafka", .5, 1024. / 200}}},
		{name: "fetch", targets: all, run: runFetch(scale),
			figures: []figure{{"fetch 50 MiB responses: broker CPU s/GiB", cpuGiB, "floor", 1.1, 0}}},
	}
}

// produce runs p on a new topic each round.
func produce(p produceLoad) func(*target, int) (sample, error) {
	return func(t *target, round int) (sample, error) {
		p := p
		p.topic = fmt.Sprintf("%s-%d", p.topic, round)
		return p.run(t)
	}
}

// runFetch fills a topic once per target (round 0) and reads it from the page cache.
func runFetch(scale int64) func(*target, int) (sample, error) {
	return func(t *target, round int) (sample, error) {
		if round == 0 {
			fill := produceLoad{topic: "fetch", partitions: 2, totalBytes: 600 << 20, batchBytes: 65536, conns: 1, inFlight: 5}
			if _, err := fill.run(t); err != nil {
				return sample{}, err
			}
		}
		return fetchLoad("fetch", 2, scale*4<<30, 50<<20)(t)
	}
}

// compare runs c for rounds rounds, the targets in turn within each, and returns a row per figure.
func compare(ctx context.Context, c comparison, rounds int, scratch string) ([]row, error) {
	samples := map[string][]sample{}
	running := map[string]*target{}
	defer func() {
		for _, t := range running {
			_ = t.stop()
		}
	}()
	if c.rounds > 0 {
		rounds = min(rounds, c.rounds)
	}
	for round := range rounds {
		for _, name := range c.targets {
			syscall.Sync() // the kernel's writing back of one run must not be counted in the next
			t := running[name]
			if t == nil {
				dir := filepath.Join(scratch, c.name+"-"+name)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return nil, err
				}
				var err error
				if t, err = startTarget(ctx, name, c, dir); err != nil {
					return nil, fmt.Errorf("start %s: %w", name, err)
				}
				running[name] = t
				time.Sleep(time.Second)
				if err := c.warmUp(t); err != nil {
					return nil, fmt.Errorf("%s on %s: %w", c.name, name, err)
				}
			}
			s, err := c.run(t, round)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", c.name, name, err)
			}
			fmt.Fprintf(os.Stderr, "%s %s: %.3f s/GiB %.4f ms/req p50 %.3f p99 %.3f ms, %.0f MiB/s, %.1f s\n",
				c.name, name, s.cpuPerGiB, s.cpuMsPerReq, s.p50, s.p99, s.mibPerSec, s.seconds)
			samples[name] = append(samples[name], s)
		}
	}
	var rows []row
	for _, f := range c.figures {
		rows = append(rows, f.row(samples))
	}
	return rows, nil
}

func (c comparison) warmUp(t *target) (err error) {
	if c.warm {
		_, err = c.run(t, -1)
	}
	return err
}

func (f figure) row(samples map[string][]sample) row {
	value := func(name string) float64 {
		var v []float64
		for _, s := range samples[name] {
			v = append(v, f.of(s))
		}
		return median(v)
	}
	show := func(name string) string {
		if len(samples[name]) == 0 {
			return "–"
		}
		return fmt.Sprintf("%.4g", value(name))
	}
	ratio := f.ratio(samples)
	target, met := fmt.Sprintf("≤ %g × %s", f.bound, f.against), ratio <= f.bound
	if f.orAtMost > 0 {
		target, met = fmt.Sprintf("%s or ≤ %.4g", target, f.orAtMost), met || value("grete") <= f.orAtMost
	}
	return row{work: f.name, floor: show("floor"), grete: show("grete"), kafka: show("kafka"),
		result: fmt.Sprintf("%.2f × %s", ratio, f.against), target: target, met: met}
}

// ratio is the median of the rounds' own ratios: within a round the machine is the same for both.
func (f figure) ratio(samples map[string][]sample) float64 {
	var v []float64
	for i, s := range samples["grete"] {
		v = append(v, f.of(s)/f.of(samples[f.against][i]))
	}
	return median(v)
}
