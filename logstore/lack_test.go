package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// lacking has a log in which a transaction of producer 1 is open, and which the test's file system may starve.
func lacking(t *testing.T) (*vfs.Faulty, Options, *Store, *Log) {
	t.Helper()
	return lackingOn(t, vfs.NewMem())
}

func lackingOn(t *testing.T, mem *vfs.Mem) (*vfs.Faulty, Options, *Store, *Log) {
	t.Helper()
	faulty := vfs.NewFaulty(mem)
	o := testOptions(faulty)
	s := openTest(t, o)
	l := createTest(t, s, testConfig())
	for i := range 60 { // several segments
		appendTest(t, l, plain(t, 1, 150, int64(i)))
	}
	appendTest(t, l, producing{pid: 1, txn: true}.at(t, 0))
	t.Cleanup(func() { faulty.Heal(); _ = s.Close() })
	return faulty, o, s, l
}

// TestAbortMarkerWithoutItsIndexEntry: where the transaction index lacks space or a descriptor, the marker is refused,
// and neither it nor the directory suffers.
func TestAbortMarkerWithoutItsIndexEntry(t *testing.T) {
	for _, why := range []error{syscall.ENOSPC, syscall.EMFILE} {
		t.Run(why.Error(), func(t *testing.T) {
			faulty, _, s, l := lacking(t)
			end := l.EndOffset()
			faulty.Lack(txnIndexSuffix, why)
			abort := func() error {
				_, err := l.AppendWith(marker(t, 0, 1, 0, false, 0), 0, AppendOptions{Coordinator: true})
				return err
			}
			if err := abort(); !errors.Is(err, why) || l.EndOffset() != end {
				t.Fatalf("the marker: %v, the log ends at %d", err, l.EndOffset())
			}
			if err := s.dirs[0].offlineError(); err != nil {
				t.Fatal(err)
			}
			appendTest(t, l, plain(t, 1, 10, 1)) // needs no transaction index
			faulty.Heal()
			must(t, abort())
			l.SetHighWatermark(l.EndOffset())
			if got := aborted(t, l); len(got) != 1 || got[0].FirstOffset != end-1 {
				t.Fatalf("aborted: %+v", got)
			}
		})
	}
}

// TestRefusedMarkerHoldsNothing: a marker for which another index has no room gives back the room that it has in the
// transaction index, and its descriptor.
func TestRefusedMarkerHoldsNothing(t *testing.T) {
	for _, part := range []string{indexSuffix, timeIndexSuffix} {
		faulty := vfs.NewFaulty(vfs.NewMem())
		s := openTest(t, testOptions(faulty))
		defer s.Close()
		c := testConfig()
		c.SegmentBytes, c.IndexIntervalBytes = 1<<20, 1
		l := createTest(t, s, c)
		appendTest(t, l, producing{pid: 1, txn: true}.at(t, 0))
		full := func(x *indexFile) bool { return len(x.pending) >= pendingEntries*x.entryBytes }
		for i := int64(2); !full(&l.active().offsets) || !full(&l.active().times); i++ { // each is due for entries
			appendTest(t, l, plain(t, 1, 10, i))
		}
		faulty.Lack(part, syscall.ENOSPC)
		if _, err := l.AppendWith(marker(t, 0, 1, 0, false, 0), 0, AppendOptions{Coordinator: true}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%s: the marker: %v", part, err)
		}
		if l.active().txns.reserved != nil {
			t.Errorf("%s: the transaction index is still open for it", part)
		}
		faulty.Heal()
	}
}

// lateClock gives timers that come too late to be stopped.
type lateClock struct {
	clock.Clock
	fire func()
}

func (c *lateClock) AfterFunc(_ time.Duration, f func()) clock.Timer {
	c.fire = f
	return tooLate{}
}

type tooLate struct{ clock.Timer }

func (tooLate) Stop() bool { return false }

// TestFlushThatEndsAsItBecomesLate is not counted as late for ever.
func TestFlushThatEndsAsItBecomesLate(t *testing.T) {
	late := &lateClock{Clock: clock.System}
	_, _, s, l := lacking(t)
	s.o.Clock = late
	must(t, l.timed(func() error { return nil }))
	late.fire()
	if n := s.Trouble().LateFlushes; n != 0 {
		t.Errorf("%d flushes are late", n)
	}
	must(t, l.timed(func() error { late.fire(); return nil }))
	if n := s.Trouble().LateFlushes; n != 0 {
		t.Errorf("%d flushes are late after one was", n)
	}
}

// TestTruncationLacksDerivedFiles: a truncation that cannot write what a log derives from its batches succeeds all the
// same: reads go on, and appends once the lack is over.
func TestTruncationLacksDerivedFiles(t *testing.T) {
	for _, part := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix, snapshotSuffix, leaderEpochFile} {
		for _, why := range []error{syscall.ENOSPC, syscall.EMFILE} {
			t.Run(part+" "+why.Error(), func(t *testing.T) {
				faulty, o, s, l := lacking(t)
				mark := marker(t, 0, 1, 0, false, 0)
				_, err := l.AppendWith(mark, 0, AppendOptions{Coordinator: true})
				must(t, err)
				before := readBatches(t, l, 0, l.EndOffset())
				for _, to := range []int64{l.EndOffset() - 1, 43, 7} { // the marker; in the middle; in the first segment
					faulty.Lack(part, why)
					must(t, l.TruncateTo(to))
					checkAll(t, l, before[:to])
					if _, err := l.Append(plain(t, 1, 150, 100), 0); err != nil && !errors.Is(err, why) {
						t.Fatalf("append: %v", err)
					}
					faulty.Heal()
					must(t, l.TruncateTo(to))
					appendTest(t, l, plain(t, 1, 150, 100))
					checkAll(t, l, append(before[:to:to], readBatches(t, l, to, to+1)...))
					if open := l.firstUnstable.Load(); to > 60 && open != 60 || to < 60 && open != noUnstable {
						t.Fatalf("truncated to %d: first unstable offset %d", to, open)
					}
				}
				end := l.EndOffset()
				must(t, s.Close())
				again := openTest(t, o)
				defer again.Close()
				if got := again.Log(testID); got.EndOffset() != end {
					t.Fatalf("ends at %d, not at %d", got.EndOffset(), end)
				}
			})
		}
	}
}

// TestCleanRestartIsSilent: healthy data makes no line at a start, nor at its first use, whatever its batches' sizes.
func TestCleanRestartIsSilent(t *testing.T) {
	for name, sizes := range map[string][]int{
		"nothing": {}, "one small": {10}, "one large": {20_000}, "two medium": {3000, 3000}, "large and small": {20_000, 10},
		"many": {500, 1000, 1500, 10, 10, 10, 2000, 3000, 3000}, "segments of one": {3900, 3900, 3900},
	} {
		for _, interval := range []int32{0, 4096} {
			t.Run(fmt.Sprint(name, interval), func(t *testing.T) {
				c := testConfig()
				c.IndexIntervalBytes = interval
				if name != "segments of one" {
					c.SegmentBytes = 1 << 20
				}
				var lines bytes.Buffer
				o := testOptions(vfs.NewMem())
				o.Defaults, o.Log = c, zerolog.New(&lines)
				s := openTest(t, o)
				l := createTest(t, s, c)
				var written []batch.Batch
				for i, size := range sizes {
					b := plain(t, 1, size, int64(i+1))
					appendTest(t, l, b)
					written = append(written, b)
				}
				for range 2 {
					must(t, s.Close())
					s = openTest(t, o)
					l = s.Log(testID)
					checkAll(t, l, written)
				}
				appendTest(t, l, plain(t, 1, 10, 50))
				must(t, s.Close())
				if strings.Contains(lines.String(), `"level"`) {
					t.Error(lines.String())
				}
			})
		}
	}
}

// TestFlushOfAClosedLog: a closed store waits for no goroutine any more, so that none may begin.
func TestFlushOfAClosedLog(t *testing.T) {
	_, _, s, l := lacking(t)
	must(t, s.Close())
	var told error
	l.FlushAsync(l.EndOffset(), func(err error) { told = err })
	if !errors.Is(told, ErrClosed) {
		t.Fatalf("told at once: %v", told)
	}
}

// TestTruncationLacksDescriptors: whichever file or directory a truncation cannot open, it fails at worst, and leaves a
// prefix of the log, in whole segments. The directory stays online, the next attempt does what was asked for, and a
// crash between them brings nothing back behind it.
func TestTruncationLacksDescriptors(t *testing.T) {
	for name, cut := range map[string]func(*Log) error{
		"in the middle":        func(l *Log) error { return l.TruncateTo(43) },
		"in the first segment": func(l *Log) error { return l.TruncateTo(7) },
		"of everything":        func(l *Log) error { return l.RestartAt(0) },
		"to a later start":     func(l *Log) error { return l.RestartAt(1000) },
	} {
		t.Run(name, func(t *testing.T) {
			for n, hit := 1, true; hit; n++ {
				hit = truncateLacking(t, n, cut)
			}
		})
	}
}

// truncateLacking has the nth opening of a truncation fail, and says whether there were as many.
func truncateLacking(t *testing.T, n int, cut func(*Log) error) (hit bool) {
	mem := vfs.NewMem()
	faulty, o, s, l := lackingOn(t, mem)
	flushTest(t, l)
	before := readBatches(t, l, 0, l.EndOffset())
	left := n
	faulty.Inject(func(op vfs.Op) error {
		if op.Kind == vfs.OpSyncDir || op.Kind == vfs.OpOpen {
			if left--; left == 0 {
				hit = true
				return syscall.EMFILE
			}
		}
		return nil
	})
	err := cut(l)
	if offline := s.dirs[0].offlineError(); offline != nil || err != nil && !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("opening %d: %v, offline: %v", n, err, offline)
	}
	if err != nil {
		checkAll(t, l, before[:l.EndOffset()])
		crashed := o
		crashed.FS = mem.CrashClone(rand.New(rand.NewPCG(uint64(n), 1)), n%2*100)
		again := openTest(t, crashed)
		if got := again.Log(testID); got.EndOffset() > 0 {
			checkAll(t, got, before[:got.EndOffset()])
		}
		must(t, again.Close())
	}
	faulty.Inject(nil)
	must(t, cut(l))
	end := l.EndOffset()
	appendTest(t, l, plain(t, 1, 150, 100))
	must(t, s.Close())
	again := openTest(t, o)
	if got := again.Log(testID); got.EndOffset() != end+1 || got.StartOffset() != l.StartOffset() {
		t.Fatalf("opening %d: starts at %d and ends at %d, not at %d and %d", n, got.StartOffset(), got.EndOffset(), l.StartOffset(), end+1)
	}
	must(t, again.Close())
	return hit
}

// TestStartWithoutDescriptorsWaits: what lacks descriptors or space as logs load is tried again, and nothing is taken
// for lost: offsets, epochs, producers and the topic's id are what they were, and the directory serves.
func TestStartWithoutDescriptorsWaits(t *testing.T) {
	files := []string{
		MetaPropertiesFile, lockFile, cleanShutdownFile, recoveryPointFile, logStartFile, highWatermarkFile, cleanerFile, leaderEpochFile,
		partitionMetadataFile, snapshotSuffix, txnIndexSuffix, indexSuffix, timeIndexSuffix, logSuffix,
	}
	for _, part := range files {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, clean %v", part, clean), func(t *testing.T) { startsWithout(t, part, clean) })
		}
	}
}

func startsWithout(t *testing.T, part string, clean bool) {
	mem := vfs.NewMem()
	faulty, o, s, l := lackingOn(t, mem)
	l.SetHighWatermark(40)
	must(t, l.AdvanceStart(7))
	must(t, l.flushNow())
	must(t, s.dirs[0].writeCheckpoints())
	want := whole(l)
	if clean {
		must(t, s.Close())
	} else {
		faulty = vfs.NewFaulty(mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 100))
		o.FS = faulty
	}
	manual := clock.NewManual(time.UnixMilli(1_000_000))
	o.Clock = manual
	faulty.Lack(part, syscall.EMFILE)
	type opened struct {
		s   *Store
		err error
	}
	done := make(chan opened)
	go func() {
		s, err := Open(t.Context(), o)
		done <- opened{s, err}
	}()
	for i := 0; ; i++ {
		select {
		case got := <-done:
			must(t, got.err)
			defer got.s.Close()
			if err := got.s.dirs[0].offlineError(); err != nil {
				t.Fatal(err)
			}
			if got := whole(got.s.Log(testID)); got != want {
				t.Fatalf("it was %s\nand is %s", want, got)
			}
			return
		case <-time.After(2 * time.Millisecond):
			if i == 5 {
				faulty.Heal()
			}
			manual.Advance(lackPause)
		}
	}
}

// whole is what a start must find again.
func whole(l *Log) string {
	return fmt.Sprint(l.StartOffset(), l.EndOffset(), l.HighWatermark(), l.epochs.all(), l.TopicID(), l.producers.ongoing)
}
