package main

import (
	"fmt"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The figures of this file are absolute: our broker alone.

func bound(work string, got, most float64, unit string) row {
	return row{work: work, grete: fmt.Sprintf("%.4g %s", got, unit), result: fmt.Sprintf("%.4g %s", got, unit),
		target: fmt.Sprintf("≤ %g %s", most, unit), met: got <= most}
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func answersMetadata(addr string) bool {
	c, err := dial(addr)
	if err != nil {
		return false
	}
	defer c.close()
	_ = c.c.SetDeadline(time.Now().Add(5 * time.Second))
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	resp, err := c.call(req)
	return err == nil && len(resp.(*kmsg.MetadataResponse).Brokers) > 0
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// start measures an empty directory to the first answered Metadata, and the memory then.
func start(scratch string, rounds int) ([]row, error) {
	var took, rss []float64
	for i := range rounds {
		dir := filepath.Join(scratch, fmt.Sprintf("start-%d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		t, d, err := startTimed(dir, addr)
		if err != nil {
			return nil, err
		}
		time.Sleep(500 * time.Millisecond)
		took, rss = append(took, d.Seconds()*1000), append(rss, t.rssMiB())
		if err := t.stop(); err != nil {
			return nil, err
		}
	}
	return []row{
		bound("start on an empty directory to the first answered Metadata", median(took), 150, "ms"),
		bound("resident memory then", median(rss), 40, "MiB"),
	}, nil
}

// manyPartitions restarts a broker that has 10,000 partitions.
func manyPartitions(scratch string, rounds int) ([]row, error) {
	dir := filepath.Join(scratch, "many")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	t, _, err := startTimed(dir, addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.kill() }()
	raw := recordBatch(1024, 900, time.Now().UnixMilli())
	for i := range 10 {
		name := fmt.Sprintf("many-%d", i)
		if err := createTopic(addr, name, 1000); err != nil {
			return nil, err
		}
		if err := settle(t, name, 1000, raw); err != nil {
			return nil, err
		}
	}
	var clean, killed, rss []float64
	for range rounds {
		for _, end := range []struct {
			how  func() error
			into *[]float64
		}{{t.stop, &clean}, {nil, &killed}} {
			if end.how == nil {
				if err := settle(t, "many-3", 1000, raw); err != nil {
					return nil, err
				}
				end.how = t.kill
			}
			if err := end.how(); err != nil {
				return nil, err
			}
			var d time.Duration
			if t, d, err = startTimed(dir, addr); err != nil {
				return nil, err
			}
			if err := settle(t, "many-9", 1, raw); err != nil {
				return nil, err
			}
			*end.into = append(*end.into, d.Seconds())
		}
		time.Sleep(2 * time.Second)
		rss = append(rss, t.rssMiB())
	}
	return []row{
		bound("10,000 partitions: restart after a clean stop", median(clean), 3, "s"),
		bound("10,000 partitions: restart after kill −9", median(killed), 6, "s"),
		bound("10,000 partitions: resident memory", median(rss), 150, "MiB"),
	}, nil
}

// idleConnections measures the memory that 1,000 idle connections add.
func idleConnections(scratch string, rounds int) ([]row, error) {
	dir := filepath.Join(scratch, "idle")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	t, _, err := startTimed(dir, addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.stop() }()
	const conns = 1000
	before := t.rssMiB()
	for range conns {
		c, err := dial(addr)
		if err != nil {
			return nil, err
		}
		defer c.close()
		req := kmsg.NewPtrApiVersionsRequest()
		if _, err := c.call(req); err != nil {
			return nil, err
		}
	}
	time.Sleep(2 * time.Second)
	return []row{bound("1,000 idle connections: added memory", t.rssMiB()-before, 25, "MiB")}, nil
}

// dataSize compares append and lookup cost in a partition that holds little with one that holds bigBytes.
func dataSize(bigBytes int64) func(string, int) ([]row, error) {
	return func(scratch string, rounds int) ([]row, error) {
		dir := filepath.Join(scratch, "size")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		t, _, err := startTimed(dir, addr)
		if err != nil {
			return nil, err
		}
		defer func() { _ = t.stop() }()
		fills := []produceLoad{
			{topic: "small", partitions: 1, totalBytes: 50 << 10, batchBytes: 1024, conns: 1, inFlight: 1},
			{topic: "big", partitions: 1, totalBytes: bigBytes, batchBytes: 512 << 10, conns: 1, inFlight: 5},
		}
		var appends, lookups [2][]float64
		for _, f := range fills {
			if _, err := f.run(t); err != nil {
				return nil, err
			}
		}
		for range rounds {
			for i, f := range fills {
				s, err := rttLoad(f.topic, 1024, 5000)(t)
				if err != nil {
					return nil, err
				}
				appends[i] = append(appends[i], s.p50)
				d, err := lookup(addr, f.topic, 3000)
				if err != nil {
					return nil, err
				}
				lookups[i] = append(lookups[i], d)
			}
		}
		size := fmt.Sprintf("50 KB and %d GB in a partition", bigBytes>>30)
		ratio := func(what string, v [2][]float64) row {
			r := median(v[1]) / median(v[0])
			return row{work: size + ": " + what, grete: fmt.Sprintf("%.3f and %.3f ms", median(v[0]), median(v[1])),
				result: fmt.Sprintf("%.2f ×", r), target: "≤ 1.2 ×", met: r <= 1.2}
		}
		return []row{ratio("append p50", appends), ratio("offset lookup p50", lookups)}, nil
	}
}

// lookup is the median round trip in milliseconds of n small fetches at random offsets.
func lookup(addr, topic string, n int) (float64, error) {
	c, err := dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.close()
	end, err := endOffset(c, topic, 0)
	if err != nil {
		return 0, err
	}
	rnd := rand.New(rand.NewSource(1))
	var ms []float64
	for range n {
		// One byte at most: the answer is the one batch that holds the offset. The last thousand offsets are
		// 1 KiB batches in both partitions.
		at := end - 1 - rnd.Int63n(min(1000, end))
		began := time.Now()
		if _, err := c.c.Write(encodeFetch(topic, 0, at, 1, 500)); err != nil {
			return 0, err
		}
		if _, _, err := c.readFetch(); err != nil {
			return 0, err
		}
		ms = append(ms, time.Since(began).Seconds()*1000)
	}
	return median(ms), nil
}
