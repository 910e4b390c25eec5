package logstore

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// opened is a fresh log, its file system and the clock that drives it.
func opened(t *testing.T, change func(*Config)) (*vfs.Faulty, *clock.Manual, *Log) {
	t.Helper()
	faulty := vfs.NewFaulty(vfs.NewMem())
	o := testOptions(faulty)
	c := testConfig()
	change(&c)
	o.CheckInterval = time.Hour
	s := openTest(t, o)
	t.Cleanup(func() { must(t, s.Close()) })
	return faulty, o.Clock.(*clock.Manual), createTest(t, s, c)
}

func names(t *testing.T, l *Log) (all []string) {
	t.Helper()
	entries, err := l.store.o.FS.ReadDir(partitionDir)
	must(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestRollReasons(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		next   int64 // timestamp of the second batch
		rolls  bool
	}{
		"nothing":           {func(*Config) {}, 2000, false},
		"segment.bytes":     {func(c *Config) { c.SegmentBytes = 200 }, 2000, true},
		"segment.ms":        {func(c *Config) { c.SegmentMs = 999 }, 2000, true},
		"segment.ms, equal": {func(c *Config) { c.SegmentMs = 1000 }, 2000, false},
		"time index full":   {func(c *Config) { c.SegmentIndexBytes = 12 }, 2000, true},
	} {
		_, _, l := opened(t, c.change)
		appendTest(t, l, plain(t, 1, 100, 1000))
		appendTest(t, l, plain(t, 1, 40, c.next))
		if rolled := len(l.segments()) == 2; rolled != c.rolls {
			t.Errorf("%s: rolled %v", name, rolled)
		}
	}
}

func TestRollOnOffsetOverflow(t *testing.T) {
	_, _, l := opened(t, func(c *Config) { c.Compact = true })
	for _, base := range []int64{0, 10, math.MaxInt32 + 10} {
		b := plain(t, 1, 10, 1)
		b.SetBaseOffset(base)
		b.SetPartitionLeaderEpoch(0)
		must(t, l.AppendAsFollower(b))
	}
	if got := l.bases(); !slices.Equal(got, []int64{0, 11}) {
		t.Fatalf("segments %v", got)
	}
	if got := readBatches(t, l, 11, l.EndOffset()); len(got) != 1 || got[0].BaseOffset() != math.MaxInt32+10 {
		t.Fatalf("after the gap: %d batches", len(got))
	}
}

func TestJitterStaysBelowItsBound(t *testing.T) {
	_, _, l := opened(t, func(c *Config) { c.SegmentJitterMs, c.SegmentMs = 500, 1000 })
	seen := map[int64]bool{}
	for base := range int64(100) {
		j := l.jitterMs(base)
		if j < 0 || j >= 500 {
			t.Fatalf("jitter %d", j)
		}
		seen[j] = true
	}
	if len(seen) < 50 {
		t.Fatalf("%d different jitters", len(seen))
	}
}

func TestFollowerRefusals(t *testing.T) {
	_, _, l := opened(t, func(*Config) {})
	appendTest(t, l, plain(t, 3, 10, 1))
	b := plain(t, 1, 10, 1)
	if err := l.AppendAsFollower(b); !errors.Is(err, ErrOffsetOrder) {
		t.Fatalf("offset 0 again: %v", err)
	}
	b.SetBaseOffset(3)
	b[len(b)-1] ^= 1
	if err := l.AppendAsFollower(b); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("bad checksum: %v", err)
	}
	if err := l.AppendAsFollower(b[:20]); !errors.Is(err, batch.ErrShort) {
		t.Fatalf("cut batch: %v", err)
	}
	if _, err := l.Append(plain(t, 1, 5000, 1), 0); !errors.Is(err, ErrBatchTooLarge) {
		t.Fatalf("batch over a segment: %v", err)
	}
	if l.EndOffset() != 3 {
		t.Fatalf("end %d", l.EndOffset())
	}
}

func TestRetentionByTime(t *testing.T) {
	_, c, l := opened(t, func(c *Config) { c.SegmentBytes, c.RetentionMs = 400, 5000 })
	for i := range 6 {
		appendTest(t, l, plain(t, 1, 100, 1_000_000+int64(i)*1000))
	}
	bases := l.bases()
	l.SetHighWatermark(bases[1])
	c.Advance(time.Minute)
	l.store.clean()
	if l.StartOffset() != bases[1] {
		t.Fatalf("start %d: retention must stop at the high watermark %d", l.StartOffset(), bases[1])
	}
	l.SetHighWatermark(l.EndOffset())
	l.store.clean()
	if l.StartOffset() != 6 || l.EndOffset() != 6 || len(l.segments()) != 1 || l.active().base != 6 {
		t.Fatalf("log [%d, %d), segments %v: the active segment expires too", l.StartOffset(), l.EndOffset(), l.bases())
	}
	if !slices.ContainsFunc(names(t, l), func(n string) bool { return strings.HasSuffix(n, deletedSuffix) }) {
		t.Fatal("nothing was renamed to .deleted")
	}
	c.Advance(2 * time.Second)
	waitFor(t, func() bool {
		return !slices.ContainsFunc(names(t, l), func(n string) bool { return strings.HasSuffix(n, deletedSuffix) })
	})
	l.store.clean() // an empty active segment stays
	if info := appendTest(t, l, plain(t, 1, 1, 1)); info.BaseOffset != 6 {
		t.Fatalf("appended at %d", info.BaseOffset)
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for range 500 {
		if done() {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatal("it did not happen")
}

func TestRetentionBySize(t *testing.T) {
	_, _, l := opened(t, func(c *Config) { c.SegmentBytes, c.RetentionBytes = 400, 700 })
	for range 20 {
		appendTest(t, l, plain(t, 1, 100, 1))
	}
	l.SetHighWatermark(20)
	l.store.clean()
	first := l.segments()[0].size.Load()
	if size := l.SizeBytes(); size < 700 || size-first >= 700 {
		t.Fatalf("%d bytes are left, %d in the first segment", size, first)
	}
	l.Configure(Config{RetentionBytes: 0, RetentionMs: -1, SegmentBytes: 400}) // cleanup.policy without delete
	l.store.clean()
	if l.SizeBytes() < 700 {
		t.Fatal("a log whose policy is not delete was shortened")
	}
}

func TestDeletionWaitsForReaders(t *testing.T) {
	_, c, l := opened(t, func(c *Config) { c.SegmentBytes = 400 })
	for range 10 {
		appendTest(t, l, plain(t, 1, 100, 1))
	}
	span, err := l.Read(0, ReadOptions{MaxBytes: 1000, Bound: 10})
	must(t, err)
	l.SetHighWatermark(10)
	must(t, l.AdvanceStart(10))
	c.Advance(time.Minute)
	waitFor(t, func() bool { return !slices.Contains(names(t, l), fileName(0, logSuffix)+deletedSuffix) })
	raw, err := span.ReadAll()
	if err != nil || len(raw) != span.SizeBytes {
		t.Fatalf("%d bytes of %d, %v", len(raw), span.SizeBytes, err)
	}
	span.Release()
	span.Release()
	if _, err := l.Read(0, ReadOptions{Bound: 10}); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("below the start: %v", err)
	}
	if err := l.AdvanceStart(11); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("above the high watermark: %v", err)
	}
}

func TestDeleteAndCreateAgain(t *testing.T) {
	_, c, l := opened(t, func(*Config) {})
	s := l.store
	appendTest(t, l, plain(t, 5, 10, 1))
	flushTest(t, l)
	s.checkpoint()
	if _, err := s.Create(testID, [16]byte{9}, testConfig()); !errors.Is(err, ErrTopicIDMismatch) {
		t.Fatalf("another topic id: %v", err)
	}
	must(t, s.Delete(testID))
	if s.Log(testID) != nil {
		t.Fatal("the log is still there")
	}
	if _, err := l.Append(plain(t, 1, 1, 1), 0); !errors.Is(err, ErrClosed) {
		t.Fatalf("append to a deleted log: %v", err)
	}
	again, err := s.Create(testID, [16]byte{9}, testConfig())
	must(t, err)
	if again.EndOffset() != 0 || again.TopicID() != [16]byte{9} {
		t.Fatalf("end %d, topic %v", again.EndOffset(), again.TopicID())
	}
	if offsets, err := parseOffsets(s.dirs[0].checkpoints[recoveryPointFile]); err != nil || offsets[testID] != 0 {
		t.Fatalf("the old log's recovery point lives on: %v, %v", offsets, err)
	}
	c.Advance(time.Minute)
	waitFor(t, func() bool {
		entries, err := s.o.FS.ReadDir(testDir)
		must(t, err)
		return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), deleteDirSuffix) })
	})
}

// TestGroupCommit: while one fsync runs appends go on, and all who wait meanwhile share the next.
func TestGroupCommit(t *testing.T) {
	faulty, _, l := opened(t, func(c *Config) { c.FlushMessages = 1 })
	if info := appendTest(t, l, plain(t, 1, 10, 1)); !info.FlushDue {
		t.Fatal("flush.messages=1 and no flush due")
	}
	flushTest(t, l)
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	syncs := 0
	faulty.Inject(func(o vfs.Op) error {
		if o.Kind == vfs.OpSync {
			syncs++
			once.Do(func() { close(entered); <-leave })
		}
		return nil
	})
	done := make(chan error, 100)
	appendTest(t, l, plain(t, 1, 10, 1))
	l.FlushAsync(2, func(err error) { done <- err })
	<-entered
	for range 50 {
		info := appendTest(t, l, plain(t, 1, 10, 1))
		l.FlushAsync(info.LastOffset+1, func(err error) { done <- err })
	}
	if l.DurableOffset() != 1 || l.EndOffset() != 52 {
		t.Fatalf("durable %d, end %d", l.DurableOffset(), l.EndOffset())
	}
	close(leave)
	for range 51 {
		must(t, <-done)
	}
	if syncs != 2 || l.DurableOffset() != 52 {
		t.Fatalf("%d fsyncs, durable %d", syncs, l.DurableOffset())
	}
}

func TestFlushBounds(t *testing.T) {
	_, _, l := opened(t, func(*Config) {})
	appendTest(t, l, plain(t, 1, 10, 1))
	if err := flush(l, 2); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("beyond the end: %v", err)
	}
	l.mu.Lock()
	l.flushes.waiters = make([]flushWaiter, maxFlushWaiters)
	for i := range l.flushes.waiters {
		l.flushes.waiters[i].done = func(error) {}
	}
	l.mu.Unlock()
	if err := flush(l, 1); !errors.Is(err, ErrBusy) {
		t.Fatalf("beyond the bound: %v", err)
	}
	l.mu.Lock()
	l.flushes.waiters = nil
	l.mu.Unlock()
}

func TestFlushMs(t *testing.T) {
	_, c, l := opened(t, func(c *Config) { c.FlushMs = 1000 })
	appendTest(t, l, plain(t, 1, 10, 1))
	c.Advance(999 * time.Millisecond)
	if l.DurableOffset() != 0 {
		t.Fatal("flushed too early")
	}
	c.Advance(time.Millisecond)
	waitFor(t, func() bool { return l.DurableOffset() == 1 })
}

func TestOpenFilesAreBounded(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.MaxOpenFiles = 5
	s := openTest(t, o)
	for p := range int32(40) {
		l, err := s.Create(ID{"t", p}, [16]byte{1}, testConfig())
		must(t, err)
		appendTest(t, l, plain(t, 1, 10, 1))
		if n := s.files.openCount(); n > 5 {
			t.Fatalf("%d files are open", n)
		}
	}
	for p := range int32(40) {
		if got := readBatches(t, s.Log(ID{"t", p}), 0, 1); len(got) != 1 {
			t.Fatalf("log %d: %d batches", p, len(got))
		}
	}
	must(t, s.Close())
}

// TestReadersAndWriter runs readers against appends, rolls and deletions; the race detector and the batches' own
// offsets judge.
func TestReadersAndWriter(t *testing.T) {
	_, _, l := opened(t, func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 1500, 300 })
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				from, bound := l.StartOffset(), l.EndOffset()
				batches, err := tryReadBatches(l, max(from, bound-20), bound)
				if err != nil && !errors.Is(err, ErrOffsetOutOfRange) {
					t.Error(err)
					return
				}
				for i, b := range batches {
					if b.LastOffset() >= bound || i > 0 && b.BaseOffset() != batches[i-1].LastOffset()+1 {
						t.Errorf("batch %d-%d below bound %d", b.BaseOffset(), b.LastOffset(), bound)
						return
					}
				}
			}
		})
	}
	for i := range 3000 {
		appendTest(t, l, plain(t, 1+i%2, 30, int64(i)))
		if i%100 == 99 {
			l.SetHighWatermark(l.EndOffset())
			must(t, l.AdvanceStart(l.EndOffset()-50))
		}
	}
	close(stop)
	readers.Wait()
}

func TestEpochs(t *testing.T) {
	var c epochCache
	if e, o := c.end(0, 10); e != -1 || o != -1 {
		t.Fatalf("empty: %d, %d", e, o)
	}
	for _, e := range []epochEntry{{2, 0}, {4, 10}, {4, 12}, {7, 20}} {
		c.assign(e.epoch, e.start)
	}
	for _, want := range []struct {
		ask, epoch int32
		end        int64
	}{{-1, -1, -1}, {1, 1, 0}, {2, 2, 10}, {3, 2, 10}, {4, 4, 20}, {6, 4, 20}, {7, 7, 30}, {8, -1, -1}} {
		if e, o := c.end(want.ask, 30); e != want.epoch || o != want.end {
			t.Errorf("end of %d: %d, %d, want %d, %d", want.ask, e, o, want.epoch, want.end)
		}
	}
	for offset, epoch := range map[int64]int32{0: 2, 9: 2, 10: 4, 20: 7, 99: 7} {
		if got := c.at(offset); got != epoch {
			t.Errorf("epoch at %d: %d, want %d", offset, got, epoch)
		}
	}
	c.assign(5, 15) // contradicts epoch 7
	c.cutStart(11)
	if got := c.all(); !slices.Equal(got, []epochEntry{{4, 11}, {5, 15}}) {
		t.Fatalf("%v", got)
	}
	c.cutEnd(15)
	if got := c.all(); !slices.Equal(got, []epochEntry{{4, 11}}) {
		t.Fatalf("%v", got)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]ID{"a-0": {"a", 0}, "a-b-12": {"a-b", 12}, "__consumer_offsets-49": {"__consumer_offsets", 49}} {
		if got, ok := parseDirName(name); !ok || got != want || got.String() != name {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"a", "-1", "a-", "a-+1", "a--1x", "a-b", "a-99999999999"} {
		if got, ok := parseDirName(name); ok {
			t.Errorf("%s is %v", name, got)
		}
	}
	long := asideDirName(ID{strings.Repeat("t", 249), 7}, strings.Repeat("0", 32), deleteDirSuffix)
	if len(long) != maxFileNameBytes || !strings.HasSuffix(long, "-7."+strings.Repeat("0", 32)+"-delete") {
		t.Errorf("%d bytes: %s", len(long), long)
	}
}

// Producers expire at their own interval, not with retention.
func TestProducersExpireAtTheirOwnInterval(t *testing.T) {
	o := testOptions(vfs.NewFaulty(vfs.NewMem()))
	o.CheckInterval, o.ProducerCheckInterval = time.Hour, time.Second
	s := openTest(t, o)
	t.Cleanup(func() { must(t, s.Close()) })
	c := testConfig()
	c.ProducerIDExpirationMs = 2000
	l := createTest(t, s, c)
	manual := o.Clock.(*clock.Manual)
	b, err := batch.Build(batch.BuildOptions{ProducerID: 7, ProducerEpoch: 0, BaseSequence: 0}, []batch.Record{{TimestampMs: clock.Millis(manual), Value: []byte("v")}})
	must(t, err)
	appendTest(t, l, b)
	known := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.producers.producers[7] != nil
	}
	if !known() {
		t.Fatal("the producer is not known")
	}
	for range 4 {
		manual.Advance(time.Second)
	}
	for deadline := time.Now().Add(5 * time.Second); known(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the producer is still known")
		}
	}
}

// A record that is larger than max.decompressed.message.bytes is not decompressed to find a time, and Kafka's error
// says so; the directory lives.
func TestTimestampInARecordTooLarge(t *testing.T) {
	_, _, l := opened(t, func(c *Config) { c.MaxRecordBytes = 1000 })
	for _, codec := range []batch.Codec{batch.None, batch.Gzip} {
		b, err := batch.Build(batch.BuildOptions{Codec: codec, ProducerID: batch.NoProducerID, BaseSequence: -1},
			[]batch.Record{{TimestampMs: 1000 + int64(codec), Value: make([]byte, 2000)}})
		must(t, err)
		appendTest(t, l, b)
	}
	if found, err := l.OffsetForTimestamp(1000); err != nil || found.Offset != 0 {
		t.Errorf("a record that is not compressed: %v, %v", found, err)
	}
	if _, err := l.OffsetForTimestamp(1001); !errors.Is(err, kerr.InvalidRecord) {
		t.Errorf("a compressed one: %v", err)
	}
	if err := l.dir.offlineError(); err != nil {
		t.Error(err)
	}
}

// Of an epoch below all that there were, the end is the log's start, be it negative; -1 is no epoch.
func TestEndOfAnEpochBelowAll(t *testing.T) {
	_, _, l := opened(t, func(*Config) {})
	if epoch, end := l.EpochEnd(-2); epoch != -1 || end != -1 {
		t.Errorf("without any epoch: %d, %d", epoch, end)
	}
	appendTest(t, l, plain(t, 1, 40, 1000))
	for asked, want := range map[int32][2]int64{-1: {-1, -1}, -2: {-2, 0}, -100: {-100, 0}, 0: {0, 1}} {
		if epoch, end := l.EpochEnd(asked); int64(epoch) != want[0] || end != want[1] {
			t.Errorf("epoch %d: %d, %d, want %v", asked, epoch, end, want)
		}
	}
}
