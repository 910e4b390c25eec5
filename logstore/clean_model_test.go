package logstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
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

// cleanRun does random work on a compacted log, and knows every record that was ever written to it.
type cleanRun struct {
	t      *testing.T
	rng    *rand.Rand
	mem    *vfs.Mem
	faulty *vfs.Faulty
	clock  *clock.Manual
	cfg    Config
	store  *Store
	log    *Log
	seqs   map[int64]int32
	inTxn  map[int64]bool

	mu      sync.Mutex
	clones  *rand.Rand
	want    cleanWant
	crashes []cleanCrash
	every   int // one operation in so many leaves a crash clone; 0: none does
	total   int
}

// cleanWant is what was written, and how much of it must be left after a crash.
type cleanWant struct {
	batches []batch.Batch
	durable int64
}

type cleanCrash struct {
	fs   *vfs.Mem
	want cleanWant
}

// TestCompactionModel compares what a read_committed consumer makes of the log with what was written (GRETE_LONG=1:
// many more runs).
func TestCompactionModel(t *testing.T) {
	runs := 60
	if os.Getenv("GRETE_LONG") != "" {
		runs = 5000
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runClean(t, uint64(seed), 0) })
	}
}

// TestCompactionCrash verifies crash clones taken at any operation on the file system.
func TestCompactionCrash(t *testing.T) {
	goal := 600
	if os.Getenv("GRETE_LONG") != "" {
		goal = 50_000
	}
	total := 0
	for seed := 0; total < goal; seed++ {
		n := 0
		t.Run(fmt.Sprint(seed), func(t *testing.T) { n = runClean(t, uint64(seed), 5) })
		if t.Failed() {
			return
		}
		total += n
	}
	t.Logf("%d crash clones", total)
}

func runClean(t *testing.T, seed uint64, every int) int {
	r := &cleanRun{t: t, rng: rand.New(rand.NewPCG(seed, 11)), clones: rand.New(rand.NewPCG(seed, 12)), mem: vfs.NewMem(),
		clock: clock.NewManual(time.UnixMilli(1_000_000)), seqs: map[int64]int32{}, inTxn: map[int64]bool{}}
	r.faulty = vfs.NewFaulty(r.mem)
	r.faulty.Inject(r.maybeCrash)
	r.cfg = compactConfig()
	r.cfg.SegmentBytes = int32(700 + r.rng.IntN(2000))
	r.cfg.IndexIntervalBytes = int32(r.rng.IntN(300))
	r.cfg.FileDeleteDelayMs = int64(r.rng.IntN(500))
	r.open()
	r.every = every
	for range 150 {
		r.step()
		r.verifyCrashes()
	}
	r.check(r.log, cleanWant{r.want.batches, r.log.EndOffset()})
	must(t, r.store.Close())
	return r.total
}

func (r *cleanRun) options(fs vfs.FS) Options {
	o := testOptions(fs)
	o.Clock, o.Defaults = r.clock, r.cfg
	o.Cleaner = CleanerConfig{DedupeBufferBytes: int64(5+r.rng.IntN(100)) * mapSlotBytes}
	return o
}

func (r *cleanRun) open() {
	r.store = openTest(r.t, r.options(r.faulty))
	if r.log = r.store.Log(testID); r.log == nil {
		r.log = createTest(r.t, r.store, r.cfg)
	}
	r.log.SetHighWatermark(r.log.EndOffset())
}

func (r *cleanRun) maybeCrash(vfs.Op) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.every > 0 && r.clones.IntN(r.every) == 0 {
		keep := []int{0, 50, 90, 100}[r.clones.IntN(4)]
		want := r.want
		want.batches = slices.Clip(want.batches)
		r.crashes = append(r.crashes, cleanCrash{r.mem.CrashClone(r.clones, keep), want})
	}
	return nil
}

func (r *cleanRun) expect(change func(*cleanWant)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.want)
}

func (r *cleanRun) step() {
	switch p := r.rng.IntN(100); {
	case p < 60:
		r.data()
	case p < 70:
		r.endTxn()
	case p < 74:
		end := r.log.EndOffset()
		must(r.t, flush(r.log, end))
		r.expect(func(w *cleanWant) { w.durable = max(w.durable, end) })
	case p < 80:
		rollTest(r.t, r.log)
	case p < 92:
		r.compact()
	case p < 96:
		r.clock.Advance(time.Duration(r.rng.IntN(1500)) * time.Millisecond)
	default:
		end := r.log.EndOffset()
		must(r.t, r.store.Close())
		r.expect(func(w *cleanWant) { w.durable = end })
		r.open()
	}
}

func (r *cleanRun) compact() {
	for range 1 + r.rng.IntN(3) {
		if _, err := compactOnce(r.log); err != nil {
			r.t.Fatal(err)
		}
	}
	r.check(r.log, cleanWant{r.want.batches, r.log.EndOffset()})
}

// data appends a batch: of nobody, of an idempotent producer (1–2) or of a transactional one (3–4).
func (r *cleanRun) data() {
	o := keyedOptions{codec: batch.Codec(r.rng.IntN(5)), ms: r.clock.Now().UnixMilli()}
	if pid := int64(r.rng.IntN(5)); pid > 0 {
		o.pid, o.seq, o.txn = pid, r.seqs[pid], pid > 2
	}
	records := make([]keyed, 1+r.rng.IntN(3))
	for i := range records {
		records[i] = keyed{key: fmt.Sprint("key", r.rng.IntN(12))}
		if r.rng.IntN(5) > 0 {
			records[i].value = bytes.Repeat([]byte{byte('a' + r.rng.IntN(26))}, r.rng.IntN(60))
		}
	}
	if o.pid > 0 {
		r.seqs[o.pid] += int32(len(records))
		r.inTxn[o.pid] = o.txn
	}
	r.append(keyedBatch(r.t, o, records...))
}

func (r *cleanRun) endTxn() {
	pid := 3 + int64(r.rng.IntN(2))
	if r.inTxn[pid] {
		r.inTxn[pid] = false
		r.append(marker(r.t, 0, pid, 0, r.rng.IntN(2) == 0, 0))
	}
}

func (r *cleanRun) append(b batch.Batch) {
	written := batch.Batch(bytes.Clone(b))
	written.SetBaseOffset(r.log.EndOffset())
	written.SetPartitionLeaderEpoch(0)
	r.expect(func(w *cleanWant) { w.batches = append(w.batches, written) })
	appendTest(r.t, r.log, b)
	r.log.SetHighWatermark(r.log.EndOffset())
}

func (r *cleanRun) verifyCrashes() {
	r.t.Helper()
	r.mu.Lock()
	crashes := r.crashes
	r.crashes = nil
	r.mu.Unlock()
	for _, c := range crashes {
		r.total++
		s, err := Open(context.Background(), r.options(c.fs))
		must(r.t, err)
		if l := s.Log(testID); l != nil {
			l.SetHighWatermark(l.EndOffset())
			r.check(l, c.want)
			compactTest(r.t, l)
			r.check(l, c.want)
		} else if c.want.durable > 0 {
			r.t.Fatalf("the log is gone, %d offsets were durable", c.want.durable)
		}
		must(r.t, s.Close())
	}
}

// consumed is what a read_committed consumer has after reading a log from its start: the records, and the last value of
// each key, null values left out.
type consumed struct {
	records map[int64]batch.Record
	state   map[string]string
}

// consume follows Kafka's Fetcher: aborted transactions begin at their first offset and end with their marker.
func consume(t testing.TB, batches []batch.Batch, aborted []AbortedTxn) consumed {
	t.Helper()
	out := consumed{map[int64]batch.Record{}, map[string]string{}}
	slices.SortFunc(aborted, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	skip := map[int64]bool{}
	for _, b := range batches {
		for len(aborted) > 0 && aborted[0].FirstOffset <= b.LastOffset() {
			skip[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		if b.Control() {
			if m, err := parseEndMarker(b); err == nil && !m.commit {
				delete(skip, b.ProducerID())
			}
			continue
		}
		if b.Transactional() && skip[b.ProducerID()] {
			continue
		}
		for rec, err := range b.Records() {
			must(t, err)
			rec.Key, rec.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
			out.records[rec.Offset] = rec
			out.state[string(rec.Key)] = string(rec.Value)
			if rec.Value == nil {
				delete(out.state, string(rec.Key))
			}
		}
	}
	return out
}

// history is what a consumer must see below stable of batches below end, with the transactions that their markers
// aborted.
func history(t testing.TB, batches []batch.Batch, stable, end int64) consumed {
	t.Helper()
	var seen []batch.Batch
	var aborted []AbortedTxn
	first := map[int64]int64{}
	for _, b := range batches {
		if b.BaseOffset() >= end {
			break
		}
		if b.BaseOffset() < stable {
			seen = append(seen, b)
		}
		if !b.Transactional() {
			continue
		}
		if !b.Control() {
			if _, open := first[b.ProducerID()]; !open {
				first[b.ProducerID()] = b.BaseOffset()
			}
			continue
		}
		m, err := parseEndMarker(b)
		must(t, err)
		if offset, open := first[b.ProducerID()]; open && !m.commit {
			aborted = append(aborted, AbortedTxn{ProducerID: b.ProducerID(), FirstOffset: offset, LastOffset: b.BaseOffset()})
		}
		delete(first, b.ProducerID())
	}
	return consume(t, seen, aborted)
}

// check reads the log up to its last stable offset as a consumer does, and compares.
func (r *cleanRun) check(l *Log, want cleanWant) {
	r.t.Helper()
	end, stable := l.EndOffset(), l.LastStableOffset()
	if end < want.durable || l.StartOffset() != 0 {
		r.t.Fatalf("log is [%d, %d), %d offsets were durable", l.StartOffset(), end, want.durable)
	}
	r.checkSegments(l)
	aborted, err := l.abortedBetween(l.segments(), 0, stable)
	must(r.t, err)
	got := consume(r.t, readBatches(r.t, l, 0, stable), aborted)
	wanted := history(r.t, want.batches, stable, end)
	if !maps.Equal(got.state, wanted.state) {
		r.t.Fatalf("cleaned to %d of %d: the log says %v, written was %v", l.cleaned.Load(), stable, got.state, wanted.state)
	}
	for offset, rec := range got.records {
		w, ok := wanted.records[offset]
		if !ok || !bytes.Equal(w.Key, rec.Key) || !bytes.Equal(w.Value, rec.Value) || (w.Value == nil) != (rec.Value == nil) || w.TimestampMs != rec.TimestampMs {
			r.t.Fatalf("offset %d: %q=%q at %d, written was %q=%q at %d", offset, rec.Key, rec.Value, rec.TimestampMs, w.Key, w.Value, w.TimestampMs)
		}
	}
	r.checkUncompacted(l, got, wanted, stable)
	r.checkProducers(l, want, end)
}

// checkUncompacted: what compaction has not reached is all there, and of what it has the last record of each key.
func (r *cleanRun) checkUncompacted(l *Log, got, wanted consumed, stable int64) {
	r.t.Helper()
	last := map[string]int64{}
	for offset, rec := range wanted.records {
		last[string(rec.Key)] = max(last[string(rec.Key)], offset)
	}
	active := l.active().base
	for offset, rec := range wanted.records {
		needed := offset >= active || last[string(rec.Key)] == offset && rec.Value != nil
		if _, ok := got.records[offset]; needed && !ok {
			r.t.Fatalf("offset %d (%q) is missing; active segment %d, stable %d", offset, rec.Key, active, stable)
		}
	}
}

// checkProducers: the log knows of each producer the sequence that comes next.
func (r *cleanRun) checkProducers(l *Log, want cleanWant, end int64) {
	r.t.Helper()
	last := map[int64]int32{}
	for _, b := range want.batches {
		if b.BaseOffset() < end && b.ProducerID() >= 0 && !b.Control() {
			last[b.ProducerID()] = b.LastSequence()
		}
	}
	for pid, seq := range last {
		if e := l.producers.producers[pid]; e == nil || e.lastSeq() != seq {
			r.t.Fatalf("producer %d: %+v, its last sequence was %d", pid, e, seq)
		}
	}
}

func (r *cleanRun) checkSegments(l *Log) {
	r.t.Helper()
	segments := l.segments()
	for i, s := range segments[:len(segments)-1] {
		if segments[i+1].base <= s.base {
			r.t.Fatalf("segment %d after %d", segments[i+1].base, s.base)
		}
		if got, err := s.locate(segments[i+1].base); err == nil {
			r.t.Fatalf("segment %d has offset %d, the next begins at %d", s.base, got.lastOffset, segments[i+1].base)
		}
	}
}
