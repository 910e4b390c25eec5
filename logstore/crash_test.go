package logstore

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// expectation is what a log may be after a crash at one moment: a prefix of batches that reaches durable, and begins
// between startMin and startMax.
type expectation struct {
	batches            []batch.Batch
	durable            int64
	startMin, startMax int64
}

type crashed struct {
	fs   *vfs.Mem
	want expectation
}

// crashRun does random work on a log and takes crash clones in the middle of operations.
type crashRun struct {
	t      *testing.T
	rng    *rand.Rand
	mem    *vfs.Mem
	faulty *vfs.Faulty
	clock  *clock.Manual
	store  *Store
	log    *Log
	cfg    Config
	epoch  int32
	seq    int32

	mu      sync.Mutex
	clones  *rand.Rand
	want    expectation
	crashes []crashed
	armed   bool
	total   int
}

// TestCrash verifies hundreds of crash clones, with GRETE_LONG=1 more than 100,000.
func TestCrash(t *testing.T) {
	goal := 600
	if os.Getenv("GRETE_LONG") != "" {
		goal = 100_000
	}
	total := 0
	for seed := 0; total < goal; seed++ {
		n := 0
		t.Run(fmt.Sprint(seed), func(t *testing.T) { n = runCrash(t, uint64(seed)) })
		if t.Failed() {
			return
		}
		total += n
	}
	t.Logf("%d crash clones", total)
}

func runCrash(t *testing.T, seed uint64) int {
	r := &crashRun{t: t, rng: rand.New(rand.NewPCG(seed, 3)), clones: rand.New(rand.NewPCG(seed, 4)), mem: vfs.NewMem(),
		clock: clock.NewManual(time.UnixMilli(1_000_000))}
	r.faulty = vfs.NewFaulty(r.mem)
	r.faulty.Inject(r.maybeCrash)
	r.cfg = testConfig()
	r.cfg.SegmentBytes = int32(900 + r.rng.IntN(2000))
	r.cfg.IndexIntervalBytes = int32(r.rng.IntN(300))
	r.open()
	for range 60 {
		r.step()
		r.verifyAll()
	}
	must(t, r.store.Close())
	r.verifyAll()
	return r.total
}

func (r *crashRun) options(fs vfs.FS) Options {
	o := testOptions(fs)
	o.Clock, o.Defaults = r.clock, r.cfg
	return o
}

func (r *crashRun) open() {
	r.store = openTest(r.t, r.options(r.faulty))
	if r.log = r.store.Log(testID); r.log == nil {
		r.log = createTest(r.t, r.store, r.cfg)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = true
}

// maybeCrash runs before every operation on the file system, on whatever goroutine.
func (r *crashRun) maybeCrash(vfs.Op) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.armed && r.clones.IntN(4) == 0 {
		keep := []int{0, 50, 90, 100}[r.clones.IntN(4)]
		want := r.want
		want.batches = want.batches[:len(want.batches):len(want.batches)]
		r.crashes = append(r.crashes, crashed{r.mem.CrashClone(r.clones, keep), want})
	}
	return nil
}

func (r *crashRun) expect(change func(*expectation)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.want)
}

func (r *crashRun) step() {
	switch p := r.rng.IntN(100); {
	case p < 66:
		r.appendOne()
	case p < 76:
		end := r.log.EndOffset()
		must(r.t, flush(r.log, end))
		r.expect(func(e *expectation) { e.durable = max(e.durable, end) })
	case p < 80:
		r.truncate()
	case p < 86:
		r.advance()
	case p < 90:
		r.store.checkpoint()
	case p < 94:
		r.clock.Advance(2 * time.Second) // what was deleted is removed
	default:
		end := r.log.EndOffset()
		must(r.t, r.store.Close())
		r.expect(func(e *expectation) { e.durable = end })
		r.open()
	}
}

func (r *crashRun) appendOne() {
	if r.rng.IntN(15) == 0 {
		r.epoch++
	}
	count := 1 + r.rng.IntN(3)
	records := make([]batch.Record, count)
	for i := range records {
		records[i] = batch.Record{Offset: int64(i), TimestampMs: 1000 + int64(r.seq), Value: bytes.Repeat([]byte{byte(r.seq)}, r.rng.IntN(150))}
	}
	b, err := batch.Build(batch.BuildOptions{ProducerID: 9, BaseSequence: r.seq}, records)
	must(r.t, err)
	r.seq += int32(count)
	expected := bytes.Clone(b)
	batch.Batch(expected).SetBaseOffset(r.log.EndOffset())
	batch.Batch(expected).SetPartitionLeaderEpoch(r.epoch)
	r.expect(func(e *expectation) { e.batches = append(e.batches, expected) })
	_, err = r.log.Append(b, r.epoch)
	must(r.t, err)
}

func (r *crashRun) truncate() {
	start, end := r.log.StartOffset(), r.log.EndOffset()
	offset := start + r.rng.Int64N(end-start+1)
	if offset == end {
		return
	}
	kept := model{batches: r.want.batches, start: start, end: end}
	kept.truncate(offset)
	r.expect(func(e *expectation) {
		e.durable = min(e.durable, kept.end)
		e.startMin = min(e.startMin, kept.end)
	})
	must(r.t, r.log.TruncateTo(offset))
	r.expect(func(e *expectation) {
		e.batches = slices.Clone(kept.batches)
		e.startMax = min(e.startMax, kept.end)
	})
	r.epoch++ // what comes in the place of the truncated is of a later leader
	r.seq = 0
	if e := r.log.producers.producers[9]; e != nil {
		r.seq = e.lastSeq() + 1
	}
}

func (r *crashRun) advance() {
	start, end := r.log.StartOffset(), r.log.EndOffset()
	r.log.SetHighWatermark(end)
	offset := start + r.rng.Int64N(end-start+1)
	r.expect(func(e *expectation) { e.startMax = max(e.startMax, offset) })
	must(r.t, r.log.AdvanceStart(offset))
	r.expect(func(e *expectation) { e.startMin = max(e.startMin, offset) })
}

func (r *crashRun) verifyAll() {
	r.t.Helper()
	r.mu.Lock()
	crashes := r.crashes
	r.crashes = nil
	r.mu.Unlock()
	for _, c := range crashes {
		r.total++
		r.verify(c)
	}
}

// verify opens the clone as the next start would.
func (r *crashRun) verify(c crashed) {
	r.t.Helper()
	s, err := Open(context.Background(), r.options(c.fs))
	if err != nil {
		r.t.Fatalf("opening after a crash: %v", err)
	}
	l := s.Log(testID)
	if l == nil {
		if c.want.durable > 0 {
			r.t.Fatalf("log is gone, %d offsets were durable", c.want.durable)
		}
		must(r.t, s.Close())
		return
	}
	r.compare(l, c.want)
	r.compareProducer(l)
	b := plain(r.t, 1, 10, 1)
	_, err = l.Append(b, 1_000)
	must(r.t, err)
	end := l.EndOffset()
	must(r.t, s.Close())
	s = openTest(r.t, r.options(c.fs))
	if got := s.Log(testID).EndOffset(); got != end {
		r.t.Fatalf("end after a clean stop is %d, was %d", got, end)
	}
	must(r.t, s.Close())
}

func (r *crashRun) compare(l *Log, want expectation) {
	r.t.Helper()
	start, end := l.StartOffset(), l.EndOffset()
	if end < want.durable || start < want.startMin || start > want.startMax {
		r.t.Fatalf("log is [%d, %d); durable below %d, start in [%d, %d]", start, end, want.durable, want.startMin, want.startMax)
	}
	got, err := tryReadBatches(l, start, end)
	must(r.t, err)
	next := start
	for i, w := range want.batches {
		if w.LastOffset() < start {
			continue
		}
		if next >= end {
			break
		}
		if len(got) == 0 || !bytes.Equal(got[0], w) {
			r.t.Fatalf("log [%d, %d): batch %d (%d-%d) is not what was written; %d left", start, end, i, w.BaseOffset(), w.LastOffset(), len(got))
		}
		next, got = w.LastOffset()+1, got[1:]
	}
	if len(got) > 0 || next < end {
		r.t.Fatalf("log [%d, %d): %d batches too many, next %d", start, end, len(got), next)
	}
}

// compareProducer sends the last batch again.
func (r *crashRun) compareProducer(l *Log) {
	r.t.Helper()
	batches, err := tryReadBatches(l, l.StartOffset(), l.EndOffset())
	must(r.t, err)
	if len(batches) == 0 {
		return
	}
	last := batches[len(batches)-1]
	if got := l.LatestEpoch(); got < last.PartitionLeaderEpoch() {
		r.t.Fatalf("latest epoch %d, the last batch is of %d", got, last.PartitionLeaderEpoch())
	}
	again := batch.Batch(bytes.Clone(last))
	info, err := l.Append(again, 1_000)
	if err != nil || !info.Duplicate || info.BaseOffset != last.BaseOffset() {
		r.t.Fatalf("the last batch again: %+v, %v", info, err)
	}
}
