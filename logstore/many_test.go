package logstore

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"grete/internal/clock"
	"grete/internal/vfs"
)

// TestManyLogs opens thousands of logs with a few records each after a clean stop and after kill -9, and holds the
// memory of an idle log to its bound (GRETE_LONG=1: 10,000 logs, and the times are printed).
func TestManyLogs(t *testing.T) {
	const maxIdleLogBytes = 4 << 10
	n := int32(100)
	if os.Getenv("GRETE_LONG") != "" {
		n = 10_000
	}
	o := Options{FS: vfs.OS, Clock: clock.System, Dirs: []string{t.TempDir()}, Defaults: DefaultConfig(), RecoveryThreads: 2}
	s := timed(t, "open empty", func() *Store { return openTest(t, o) })
	timed(t, "create and append", func() any {
		for p := range n {
			l, err := s.Create(ID{"many", p}, [16]byte{1}, DefaultConfig())
			must(t, err)
			appendTest(t, l, plain(t, 3, 100, 1))
		}
		return nil
	})
	timed(t, "close", func() any { must(t, s.Close()); return nil })

	before := heapBytes()
	s = timed(t, "open after a clean stop", func() *Store { return openTest(t, o) })
	checkEnds(t, s, n)
	if per := (heapBytes() - before) / int64(n); per > maxIdleLogBytes {
		t.Errorf("an idle log costs %d bytes, at most %d are allowed", per, maxIdleLogBytes)
	} else {
		t.Logf("an idle log costs %d bytes", per)
	}
	if g := runtime.NumGoroutine(); g > 50 {
		t.Errorf("%d goroutines for %d idle logs", g, n)
	}
	for p := range n {
		appendTest(t, s.Log(ID{"many", p}), plain(t, 1, 100, 1))
	}
	t.Logf("a log that was appended to costs %d bytes, %d files are open", (heapBytes()-before)/int64(n), s.files.openCount())
	timed(t, "close", func() any { must(t, s.Close()); return nil })
	for _, name := range []string{cleanShutdownFile, recoveryPointFile} { // as a kill before the first checkpoint
		must(t, os.Remove(filepath.Join(o.Dirs[0], name)))
	}
	s = timed(t, "open after kill -9", func() *Store { return openTest(t, o) })
	if got := s.Log(ID{"many", n - 1}).EndOffset(); got != 4 {
		t.Errorf("end %d", got)
	}
	must(t, s.Close())
}

func checkEnds(t *testing.T, s *Store, n int32) {
	t.Helper()
	for p := range n {
		if l := s.Log(ID{"many", p}); l == nil || l.EndOffset() != 3 {
			t.Fatalf("log %d is missing or short", p)
		}
	}
}

func timed[T any](t *testing.T, what string, f func() T) T {
	t.Helper()
	from := time.Now()
	v := f()
	t.Logf("%s: %v", what, time.Since(from).Round(time.Millisecond))
	return v
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
