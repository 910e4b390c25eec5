package logstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"grete/internal/vfs"
	"grete/protocol/batch"
)

// randomProducers appends n random batches and markers of a few producers, and returns all that went into the log.
// before is called before each.
func randomProducers(p testProducers, rng *rand.Rand, n int, before func()) []batch.Batch {
	p.t.Helper()
	type client struct {
		epoch int16
		seq   int32
		open  bool
	}
	clients := make([]client, 4)
	var log []batch.Batch
	for range n {
		before()
		pid := rng.IntN(len(clients))
		c := &clients[pid]
		var b batch.Batch
		switch kind := rng.IntN(10); {
		case kind == 0 && !c.open:
			c.epoch, c.seq = c.epoch+1, 0
			continue
		case kind <= 2 && c.open:
			b = marker(p.t, p.end, int64(pid), c.epoch, rng.IntN(2) == 0, 1)
			c.open = false
		default:
			transactional := pid > 0
			count := 1 + rng.IntN(3)
			b = producing{pid: int64(pid), epoch: c.epoch, seq: c.seq, count: count, txn: transactional, ms: int64(rng.IntN(1000))}.at(p.t, p.end)
			c.seq, c.open = batch.IncrementSequence(c.seq, int32(count)), transactional
		}
		if _, err := p.append(b); err != nil {
			p.t.Fatal(err)
		}
		log = append(log, b)
	}
	return log
}

// summary is what must not depend on how the state came about: all but the batches before each producer's last.
func (p *producerState) summary() string {
	var lines []string
	for id, e := range p.producers {
		var last batchMeta
		if b := e.lastBatch(); b != nil {
			last = *b
			last.timestampMs = 0 // a snapshot has one time per producer
		}
		lines = append(lines, fmt.Sprint(id, e.epoch, e.coordinatorEpoch, e.txnFirstOffset, e.lastTimestampMs, last))
	}
	slices.Sort(lines)
	return fmt.Sprint(p.end, p.ongoing, lines)
}

// replayed is the state that a log opened anew comes to: newest sound snapshot, then the batches after it.
func replayed(t *testing.T, fs vfs.FS, log []batch.Batch, end int64) *producerState {
	t.Helper()
	p := newProducerState(fs, "/t-0")
	must(t, p.reload(0, end, 0, noExpiry))
	for _, b := range log {
		if b.BaseOffset() >= p.end && b.LastOffset() < end {
			p.update(b)
		}
	}
	return &p
}

// TestReplayEqualsLive: whatever snapshots there are, and whatever a power loss leaves of them, a reopened log knows
// what the live one knew.
func TestReplayEqualsLive(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := newTestProducers(t)
		mem := p.fs.(*vfs.Mem)
		must(t, mem.SyncDir("/"))
		log := randomProducers(p, rng, 60, func() {
			if rng.IntN(8) == 0 {
				must(t, p.takeSnapshot(rng.IntN(2) == 0))
			}
			if rng.IntN(10) == 0 {
				must(t, mem.SyncDir("/t-0"))
			}
		})
		want := p.summary()
		if got := replayed(t, p.fs, log, p.end).summary(); got != want {
			t.Fatalf("seed %d: reopened\n%s\nlive\n%s", seed, got, want)
		}
		for range 10 {
			if got := replayed(t, mem.CrashClone(rng, 50), log, p.end).summary(); got != want {
				t.Fatalf("seed %d: after a crash\n%s\nlive\n%s", seed, got, want)
			}
		}
		if end := rng.Int64N(p.end + 1); end > 0 {
			checkTruncation(t, p, log, end)
		}
	}
}

// checkTruncation cuts the log at the batch that holds end, and holds the state to that of a log that never was longer.
func checkTruncation(t *testing.T, p testProducers, log []batch.Batch, end int64) {
	t.Helper()
	fresh := newTestProducers(t)
	var kept []batch.Batch
	for _, b := range log {
		if b.LastOffset() < end {
			fresh.update(b)
			kept = append(kept, b)
		}
	}
	must(t, p.reload(0, fresh.end, 0, noExpiry))
	for _, b := range kept {
		if b.BaseOffset() >= p.end {
			p.update(b)
		}
	}
	if got, want := p.summary(), fresh.summary(); got != want {
		t.Fatalf("truncated to %d\n%s\nwant\n%s", fresh.end, got, want)
	}
}
