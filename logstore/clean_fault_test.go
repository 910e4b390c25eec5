package logstore

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"grete/internal/vfs"
)

// TestCompactionEveryOperationFails fails the n-th operation of a compaction, for every n, once alone and once with all
// that follow, with an error that heals and one that does not: the last value of every key is there afterwards.
func TestCompactionEveryOperationFails(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for _, dies := range []bool{false, true} {
			n := int64(1)
			for compactionWithFault(t, n, errno, dies) {
				n++
			}
			if n < 40 {
				t.Fatalf("a compaction of %d operations", n)
			}
		}
	}
}

// compactionWithFault returns false when the compaction had fewer than n operations.
func compactionWithFault(t *testing.T, n int64, errno syscall.Errno, dies bool) bool {
	t.Helper()
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	o := testOptions(faulty)
	o.Defaults = compactConfig()
	s := openTest(t, o)
	l := createTest(t, s, o.Defaults)
	want := map[string]string{}
	for i := range 60 {
		key := fmt.Sprint(i % 7)
		want[key] = fmt.Sprint("a value that takes some room ", i)
		put(t, l, keyedOptions{ms: 1}, kv(key, want[key]), kv("pad", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"))
		want["pad"] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	}
	rollTest(t, l)
	flushTest(t, l)
	before := faulty.Count()
	if dies {
		faulty.Inject(vfs.FailFrom(before+n, errno))
	} else {
		faulty.Inject(vfs.FailNth(before+n, errno))
	}
	_, err := compactOnce(l)
	if err != nil {
		s.cleaner.note(l, err)
	}
	reached := faulty.Count() >= before+n
	faulty.Inject(nil)
	if l.dir.offlineError() == nil {
		if errno == syscall.ENOSPC && l.uncleanable.Load() {
			t.Fatalf("operation %d, %v: the log was given up: %v", n, errno, err)
		}
		wantState(t, l, want)
	}
	again := openTest(t, Options{FS: mem.CrashClone(rand.New(rand.NewPCG(uint64(n), 9)), []int{0, 50, 100}[n%3]), Clock: o.Clock,
		Dirs: o.Dirs, Defaults: o.Defaults})
	wantState(t, again.Log(testID), want)
	again.Log(testID).SetHighWatermark(again.Log(testID).EndOffset())
	compactTest(t, again.Log(testID))
	wantState(t, again.Log(testID), want)
	must(t, again.Close())
	_ = s.Close()
	return reached
}

// wantState compares the last value of each key.
func wantState(t *testing.T, l *Log, want map[string]string) {
	t.Helper()
	batches := readBatches(t, l, l.StartOffset(), l.EndOffset())
	if got := consume(t, batches, nil).state; !maps.Equal(got, want) {
		t.Fatalf("log [%d, %d) says %v, want %v", l.StartOffset(), l.EndOffset(), got, want)
	}
}

// TestReadersAndWritersDuringCompaction: whoever reads meanwhile sees whole batches in order, and the last value of
// each key at the end.
func TestReadersAndWritersDuringCompaction(t *testing.T) {
	_, _, l := openCompacted(t, compactConfig())
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				last := int64(-1)
				batches, err := tryReadBatches(l, 0, l.EndOffset())
				if err != nil {
					t.Errorf("reading: %v", err)
					return
				}
				for _, b := range batches {
					if b.BaseOffset() <= last {
						t.Errorf("batch at %d after offset %d", b.BaseOffset(), last)
						return
					}
					last = b.LastOffset()
				}
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := compactOnce(l); err != nil {
				t.Errorf("compacting: %v", err)
				return
			}
		}
	})
	want := map[string]string{}
	for i := range 1500 {
		key := fmt.Sprint(i % 13)
		want[key] = fmt.Sprint(i)
		put(t, l, keyedOptions{ms: 1}, kv(key, want[key]))
		if i%40 == 0 {
			rollTest(t, l)
		}
	}
	stop()
	wg.Wait()
	rollTest(t, l)
	compactTest(t, l)
	wantState(t, l, want)
}
