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

func greatest(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return slices.Max(v)
}

func answersMetadata(addr string) bool {
	c, err := endpoint{addr: addr}.dial()
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

// startFresh starts a broker on an empty directory and says how long it took to answer.
func startFresh(dir string) (*target, time.Duration, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, 0, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, 0, err
	}
	return startTimed(dir, addr)
}

// start measures an empty directory to the first answered Metadata, and the memory then.
func start(scratch string, rounds int) ([]row, error) {
	var took, rss []float64
	for i := range rounds {
		t, d, err := startFresh(filepath.Join(scratch, fmt.Sprintf("start-%d", i)))
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

// manyPartitions restarts a broker that has 10,000 partitions, after a clean stop and after kill −9 in turn.
func manyPartitions(scratch string, rounds int) ([]row, error) {
	dir := filepath.Join(scratch, "many")
	t, _, err := startFresh(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.kill() }()
	raw := recordBatch(1024, 900, time.Now().UnixMilli())
	for i := range 10 {
		if err := fillTopic(t, fmt.Sprintf("many-%d", i), 1000, raw); err != nil {
			return nil, err
		}
	}
	var clean, killed, rss []float64
	restart := func(end func() error, into *[]float64) error {
		if err := end(); err != nil {
			return err
		}
		again, d, err := startTimed(dir, t.addr)
		if err != nil {
			return err
		}
		t, *into = again, append(*into, d.Seconds())
		return settle(t, "many-9", 1, raw)
	}
	for range rounds {
		if err := restart(t.stop, &clean); err != nil {
			return nil, err
		}
		if err := settle(t, "many-3", 1000, raw); err != nil { // something that a recovery has to read
			return nil, err
		}
		if err := restart(t.kill, &killed); err != nil {
			return nil, err
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

func fillTopic(t *target, name string, partitions int32, raw []byte) error {
	if err := createTopic(t, name, partitions); err != nil {
		return err
	}
	return settle(t, name, partitions, raw)
}

// idleConnections measures the memory that 1,000 idle connections add.
func idleConnections(scratch string, rounds int) ([]row, error) {
	t, _, err := startFresh(filepath.Join(scratch, "idle"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.stop() }()
	const conns = 1000
	before := t.rssMiB()
	for range conns {
		c, err := t.dial()
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
		t, _, err := startFresh(filepath.Join(scratch, "size"))
		if err != nil {
			return nil, err
		}
		defer func() { _ = t.stop() }()
		fills := []produceLoad{
			{topic: "small", partitions: 1, totalBytes: 50 << 10, batchBytes: 1024, conns: 1, inFlight: 1},
			{topic: "big", partitions: 1, totalBytes: bigBytes, batchBytes: 512 << 10, conns: 1, inFlight: 5},
		}
		for _, f := range fills {
			if _, err := f.run(t); err != nil {
				return nil, err
			}
		}
		var appends, lookups [2][]float64
		for range rounds {
			for i, f := range fills {
				a, l, err := appendAndLookup(t, f.topic)
				if err != nil {
					return nil, err
				}
				appends[i], lookups[i] = append(appends[i], a), append(lookups[i], l)
			}
		}
		size := fmt.Sprintf("50 KB and %d GB in a partition", bigBytes>>30)
		return []row{ratio(size+": append p50", appends), ratio(size+": offset lookup p50", lookups)}, nil
	}
}

// appendAndLookup are medians of milliseconds.
func appendAndLookup(t *target, topic string) (appendMs, lookupMs float64, err error) {
	s, err := rttLoad(topic, 1024, 5000)(t)
	if err != nil {
		return 0, 0, err
	}
	lookupMs, err = lookup(t.endpoint, topic, 3000)
	return s.p50, lookupMs, err
}

// ratio compares the second with the first; they are to be the same within 20 %.
func ratio(work string, v [2][]float64) row {
	r := median(v[1]) / median(v[0])
	return row{work: work, grete: fmt.Sprintf("%.3f and %.3f ms", median(v[0]), median(v[1])),
		result: fmt.Sprintf("%.2f ×", r), target: "≤ 1.2 ×", met: r <= 1.2}
}

// lookup is the median round trip in milliseconds of n small fetches at random offsets.
func lookup(at endpoint, topic string, n int) (float64, error) {
	c, err := at.dial()
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
		offset := end - 1 - rnd.Int63n(min(1000, end))
		began := time.Now()
		if _, err := c.c.Write(encodeFetch(topic, 0, offset, 1, 500)); err != nil {
			return 0, err
		}
		if _, _, err := c.readFetch(); err != nil {
			return 0, err
		}
		ms = append(ms, time.Since(began).Seconds()*1000)
	}
	return median(ms), nil
}
