package logstore

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"grete/internal/clock"
	"grete/internal/memory"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// compactConfig compacts whatever is dirty.
func compactConfig() Config {
	c := testConfig()
	c.Delete, c.Compact = false, true
	c.MinCleanableDirtyRatio = 0
	c.DeleteRetentionMs = 1000
	return c
}

// keyed is a record to be written; a nil value is a tombstone.
type keyed struct {
	key   string
	value []byte
}

func kv(key, value string) keyed { return keyed{key, []byte(value)} }
func tombstone(key string) keyed { return keyed{key, nil} }

type keyedOptions struct {
	codec batch.Codec
	pid   int64 // 0: none
	epoch int16
	seq   int32
	txn   bool
	ms    int64
}

func keyedBatch(t testing.TB, o keyedOptions, records ...keyed) batch.Batch {
	t.Helper()
	build := batch.BuildOptions{Codec: o.codec, ProducerID: batch.NoProducerID, ProducerEpoch: -1, BaseSequence: batch.NoSequence}
	if o.pid != 0 {
		build.ProducerID, build.ProducerEpoch, build.BaseSequence, build.Transactional = o.pid, o.epoch, o.seq, o.txn
	}
	all := make([]batch.Record, len(records))
	for i, r := range records {
		all[i] = batch.Record{Offset: int64(i), TimestampMs: o.ms + int64(i), Key: []byte(r.key), Value: r.value}
	}
	b, err := batch.Build(build, all)
	must(t, err)
	return b
}

// put appends and commits.
func put(t testing.TB, l *Log, o keyedOptions, records ...keyed) AppendInfo {
	t.Helper()
	info := appendTest(t, l, keyedBatch(t, o, records...))
	l.SetHighWatermark(l.EndOffset())
	return info
}

// rollTest makes everything in the log cleanable.
func rollTest(t testing.TB, l *Log) {
	t.Helper()
	must(t, l.rollForRetention(l.EndOffset()))
}

// compactTest runs passes until nothing is due.
func compactTest(t testing.TB, l *Log) {
	t.Helper()
	for range 1000 {
		due, err := compactOnce(l)
		must(t, err)
		if !due {
			return
		}
	}
	t.Fatal("compaction never ends")
}

func compactOnce(l *Log) (due bool, err error) {
	r, err := l.cleanRange(l.nowMs())
	if err != nil || !r.due() {
		return false, err
	}
	return true, l.store.cleaner.compact(r, newCleanTools(memory.New(0).Compacted))
}

// survivors reads all records of the log: offset → key=value; a tombstone is key!.
func survivors(t testing.TB, l *Log) map[int64]string {
	t.Helper()
	all := map[int64]string{}
	last := int64(-1)
	for _, b := range readBatches(t, l, l.StartOffset(), l.EndOffset()) {
		if b.BaseOffset() <= last {
			t.Fatalf("batch at %d after offset %d", b.BaseOffset(), last)
		}
		last = b.LastOffset()
		if b.Control() {
			continue
		}
		for r, err := range b.Records() {
			must(t, err)
			text := string(r.Key) + "=" + string(r.Value)
			if r.Value == nil {
				text = string(r.Key) + "!"
			}
			all[r.Offset] = text
		}
	}
	return all
}

func wantSurvivors(t testing.TB, l *Log, want map[int64]string) {
	t.Helper()
	if got := survivors(t, l); !maps.Equal(got, want) {
		t.Fatalf("left are %v, want %v", got, want)
	}
}

func openCompacted(t testing.TB, c Config) (*vfs.Mem, *clock.Manual, *Log) {
	t.Helper()
	mem, manual := vfs.NewMem(), clock.NewManual(time.UnixMilli(1_000_000))
	o := testOptions(mem)
	o.Defaults, o.Clock = c, manual
	s := openTest(t, o)
	t.Cleanup(func() { must(t, s.Close()) })
	return mem, manual, createTest(t, s, c)
}

func TestCompactKeepsTheLastOfEachKey(t *testing.T) {
	for codec := range batch.Zstd + 1 {
		t.Run(fmt.Sprint(codec), func(t *testing.T) {
			_, _, l := openCompacted(t, compactConfig())
			o := keyedOptions{codec: codec, ms: 5000}
			put(t, l, o, kv("a", "1"), kv("b", "1"), kv("a", "2"))
			put(t, l, o, kv("c", "1"))
			put(t, l, o, kv("a", "3"), kv("c", "2"))
			rollTest(t, l)
			put(t, l, o, kv("b", "active"))
			compactTest(t, l)
			wantSurvivors(t, l, map[int64]string{1: "b=1", 4: "a=3", 5: "c=2", 6: "b=active"})
			batches := readBatches(t, l, 0, l.EndOffset())
			if first := batches[0]; first.BaseOffset() != 0 || first.LastOffset() != 2 || first.BaseTimestamp() != 5001 || first.MaxTimestamp() != 5001 {
				t.Errorf("rebuilt batch: %d-%d, time %d-%d", first.BaseOffset(), first.LastOffset(), first.BaseTimestamp(), first.MaxTimestamp())
			}
			if l.cleaned.Load() != 6 || l.StartOffset() != 0 || l.EndOffset() != 7 {
				t.Errorf("cleaned to %d of [%d, %d)", l.cleaned.Load(), l.StartOffset(), l.EndOffset())
			}
		})
	}
}

func TestCompactReopens(t *testing.T) {
	for _, kill := range []bool{false, true} {
		mem, manual, l := openCompacted(t, compactConfig())
		for i := range 300 {
			put(t, l, keyedOptions{ms: int64(i)}, kv(fmt.Sprint(i%7), fmt.Sprint(i)), kv(fmt.Sprint("x", i%40), "y"))
		}
		rollTest(t, l)
		compactTest(t, l)
		want, cleaned := survivors(t, l), l.cleaned.Load()
		if len(want) > 60 {
			t.Fatalf("%d records left", len(want))
		}
		if kill {
			mem = mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 100)
		} else {
			must(t, l.store.Close())
		}
		o := testOptions(mem)
		o.Defaults, o.Clock = compactConfig(), manual
		s := openTest(t, o)
		again := s.Log(testID)
		wantSurvivors(t, again, want)
		if again.cleaned.Load() != cleaned || again.EndOffset() != l.EndOffset() {
			t.Errorf("cleaned to %d, end %d", again.cleaned.Load(), again.EndOffset())
		}
		must(t, s.Close())
	}
}

func TestTombstonesWaitForTheirHorizon(t *testing.T) {
	_, manual, l := openCompacted(t, compactConfig())
	put(t, l, keyedOptions{ms: 5000}, kv("a", "1"), kv("b", "1"))
	put(t, l, keyedOptions{ms: 6000}, tombstone("a"), kv("c", "1"))
	rollTest(t, l)
	compactTest(t, l)
	wantSurvivors(t, l, map[int64]string{1: "b=1", 2: "a!", 3: "c=1"})
	marked := readBatches(t, l, 2, 4)[0]
	if ms, has := marked.DeleteHorizonMs(); !has || ms != l.nowMs()+1000 {
		t.Fatalf("delete horizon %d, %v", ms, has)
	}
	for r, err := range marked.Records() {
		must(t, err)
		if r.TimestampMs != 6000+r.Offset-2 {
			t.Errorf("offset %d has time %d", r.Offset, r.TimestampMs)
		}
	}
	dirty := func() {
		put(t, l, keyedOptions{ms: 7000}, kv("d", "1"))
		rollTest(t, l)
		compactTest(t, l)
	}
	manual.Advance(999 * time.Millisecond)
	dirty()
	if got := survivors(t, l)[2]; got != "a!" {
		t.Fatalf("the tombstone went before its time: %q", got)
	}
	manual.Advance(time.Millisecond)
	dirty()
	wantSurvivors(t, l, map[int64]string{1: "b=1", 3: "c=1", 5: "d=1"})
}

// TestCompactTransactions: an aborted transaction's data goes at once; a marker after the data that it decides, one
// horizon later.
func TestCompactTransactions(t *testing.T) {
	_, manual, l := openCompacted(t, compactConfig())
	end := func(pid int64, commit bool) {
		appendTest(t, l, marker(t, 0, pid, 0, commit, 0))
		l.SetHighWatermark(l.EndOffset())
	}
	put(t, l, keyedOptions{}, kv("a", "before"))                       // 0
	put(t, l, keyedOptions{pid: 1, txn: true}, kv("a", "aborted"))     // 1
	put(t, l, keyedOptions{pid: 2, txn: true}, kv("b", "committed"))   // 2
	end(1, false)                                                      // 3
	end(2, true)                                                       // 4
	put(t, l, keyedOptions{pid: 1, txn: true, seq: 1}, kv("c", "new")) // 5
	end(1, true)                                                       // 6
	put(t, l, keyedOptions{}, kv("c", "newer"))                        // 7
	rollTest(t, l)
	compactTest(t, l)
	wantSurvivors(t, l, map[int64]string{0: "a=before", 2: "b=committed", 7: "c=newer"})
	wantMarkers(t, l, 3, 4, 6)
	span, err := l.Read(0, ReadOptions{MaxBytes: 1 << 20, Bound: l.EndOffset(), Aborted: true})
	must(t, err)
	if len(span.AbortedTxns) != 1 || span.AbortedTxns[0].LastOffset != 3 {
		t.Fatalf("aborted: %+v", span.AbortedTxns)
	}
	span.Release()
	again := func() {
		put(t, l, keyedOptions{}, kv("d", "dirty"))
		rollTest(t, l)
		compactTest(t, l)
	}
	again() // marker 3 decides nothing any more: its horizon starts
	wantMarkers(t, l, 3, 4, 6)
	manual.Advance(time.Second)
	again()
	wantMarkers(t, l, 4, 6) // 6: producer 1's last data, emptied, stays for its sequence
	span, err = l.Read(0, ReadOptions{MaxBytes: 1 << 20, Bound: l.EndOffset(), Aborted: true})
	must(t, err)
	if len(span.AbortedTxns) != 0 {
		t.Fatalf("aborted: %+v", span.AbortedTxns)
	}
	span.Release()
	var empty []int64
	for _, b := range readBatches(t, l, 0, l.EndOffset()) {
		if b.RecordCount() == 0 {
			empty = append(empty, b.BaseOffset())
		}
	}
	if !slices.Equal(empty, []int64{5}) {
		t.Fatalf("empty batches at %v", empty)
	}
}

// wantMarkers compares the offsets of the control records.
func wantMarkers(t testing.TB, l *Log, want ...int64) {
	t.Helper()
	var got []int64
	for _, b := range readBatches(t, l, 0, l.EndOffset()) {
		if b.Control() && b.RecordCount() > 0 {
			got = append(got, b.BaseOffset())
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("markers at %v, want %v", got, want)
	}
}

// TestProducerOutlivesItsRecords: a retry of what was compacted away is still a duplicate, also after a restart that
// reads the log.
func TestProducerOutlivesItsRecords(t *testing.T) {
	mem, manual, l := openCompacted(t, compactConfig())
	o := keyedOptions{pid: 7}
	for i := range int32(3) {
		o.seq = i * 2
		put(t, l, o, kv("a", fmt.Sprint(i)), kv("b", fmt.Sprint(i)))
	}
	put(t, l, keyedOptions{}, kv("a", "last"), kv("b", "last"))
	rollTest(t, l)
	compactTest(t, l)
	wantSurvivors(t, l, map[int64]string{6: "a=last", 7: "b=last"})
	clone := mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 100)
	must(t, clone.Remove(testDir+"/"+testID.String()+"/"+fileName(8, snapshotSuffix)))
	opts := testOptions(clone)
	opts.Defaults, opts.Clock = compactConfig(), manual
	s := openTest(t, opts)
	defer s.Close()
	for _, log := range []*Log{l, s.Log(testID)} {
		info, err := log.Append(keyedBatch(t, o, kv("a", "2"), kv("b", "2")), 0)
		if err != nil || !info.Duplicate || info.BaseOffset != 4 {
			t.Errorf("the last batch again: %+v, %v", info, err)
		}
		o := o
		o.seq = 6
		if _, err := log.Append(keyedBatch(t, o, kv("a", "new")), 0); err != nil {
			t.Errorf("the next sequence: %v", err)
		}
	}
}

func TestCleanRangeEnds(t *testing.T) {
	c := compactConfig()
	c.MinCompactionLagMs = 500
	_, manual, l := openCompacted(t, c)
	now := manual.Now().UnixMilli()
	put(t, l, keyedOptions{ms: now - 1000}, kv("a", "1"))
	rollTest(t, l)
	put(t, l, keyedOptions{ms: now - 100}, kv("a", "2"))
	rollTest(t, l)
	compactTest(t, l)
	wantSurvivors(t, l, map[int64]string{0: "a=1", 1: "a=2"})
	if l.cleaned.Load() != 1 {
		t.Fatalf("cleaned to %d, the segment at 1 is young", l.cleaned.Load())
	}
	manual.Advance(time.Second)
	compactTest(t, l)
	wantSurvivors(t, l, map[int64]string{1: "a=2"})

	appendTest(t, l, keyedBatch(t, keyedOptions{pid: 3, txn: true}, kv("a", "open")))
	rollTest(t, l)
	put(t, l, keyedOptions{}, kv("a", "4"))
	rollTest(t, l)
	manual.Advance(time.Hour)
	compactTest(t, l)
	wantSurvivors(t, l, map[int64]string{1: "a=2", 2: "a=open", 3: "a=4"})
	if l.cleaned.Load() != 2 {
		t.Fatalf("cleaned to %d, past an open transaction", l.cleaned.Load())
	}
}

func TestHighWatermarkBoundsCompaction(t *testing.T) {
	_, _, l := openCompacted(t, compactConfig())
	put(t, l, keyedOptions{}, kv("a", "1"))
	appendTest(t, l, keyedBatch(t, keyedOptions{}, kv("a", "2"))) // not committed
	must(t, func() error { l.mu.Lock(); defer l.mu.Unlock(); return errors.Join(l.openWriter(), l.roll(2)) }())
	if due, err := compactOnce(l); due || err != nil {
		t.Fatalf("due %v, %v", due, err)
	}
	l.SetHighWatermark(2)
	compactTest(t, l)
	wantSurvivors(t, l, map[int64]string{1: "a=2"})
}

func TestDirtyRatioAndMaxLag(t *testing.T) {
	c := compactConfig()
	c.MinCleanableDirtyRatio = 0.5
	_, manual, l := openCompacted(t, c)
	now := manual.Now().UnixMilli()
	for i := range 20 {
		put(t, l, keyedOptions{ms: now}, kv(fmt.Sprint(i), "1"))
	}
	rollTest(t, l)
	compactTest(t, l)
	if l.cleaned.Load() != 20 {
		t.Fatalf("cleaned to %d", l.cleaned.Load())
	}
	put(t, l, keyedOptions{ms: now}, kv("0", "2"))
	rollTest(t, l)
	if due, err := compactOnce(l); due || err != nil {
		t.Fatalf("a twentieth is dirty: due %v, %v", due, err)
	}
	c.MaxCompactionLagMs = 1000
	l.Configure(c)
	manual.Advance(1000 * time.Millisecond)
	if due, err := compactOnce(l); due || err != nil {
		t.Fatalf("the lag is just reached: due %v, %v", due, err)
	}
	manual.Advance(time.Millisecond)
	compactTest(t, l)
	if got := survivors(t, l); got[20] != "0=2" || got[0] != "" {
		t.Fatalf("%v", got)
	}
}

func TestMaxLagRollsTheActiveSegment(t *testing.T) {
	c := compactConfig()
	c.MaxCompactionLagMs = 1000
	_, _, l := openCompacted(t, c)
	put(t, l, keyedOptions{ms: 1000}, kv("a", "1"))
	put(t, l, keyedOptions{ms: 2001}, kv("a", "2"))
	if l.SegmentCount() != 2 {
		t.Fatalf("%d segments", l.SegmentCount())
	}
}

// TestSmallMapTakesSeveralPasses: with room for five keys the result is the same.
func TestSmallMapTakesSeveralPasses(t *testing.T) {
	_, _, l := openCompacted(t, compactConfig())
	l.store.ConfigureCleaner(CleanerConfig{Threads: 1, DedupeBufferBytes: 6 * mapSlotBytes, LoadFactor: 0.9, Backoff: time.Hour})
	want := map[int64]string{}
	for i := range 400 {
		records := []keyed{kv(fmt.Sprint(i%37), fmt.Sprint(i)), kv(fmt.Sprint(i%11), fmt.Sprint(-i))}
		info := put(t, l, keyedOptions{}, records...)
		for k, r := range records {
			for offset, old := range want {
				if old[:len(r.key)+1] == r.key+"=" {
					delete(want, offset)
				}
			}
			want[info.BaseOffset+int64(k)] = r.key + "=" + string(r.value)
		}
	}
	rollTest(t, l)
	if due, err := compactOnce(l); !due || err != nil {
		t.Fatal(due, err)
	}
	if got := l.cleaned.Load(); got < 5 || got > 40 {
		t.Fatalf("one pass with five keys came to %d", got)
	}
	compactTest(t, l)
	wantSurvivors(t, l, want)
}
