package logstore

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"grete/internal/clock"
	"grete/internal/memory"
	"grete/internal/vfs"
)

// TestCleanerRounds: the timer starts goroutines that compact all logs that are due, the dirtiest first, and end.
func TestCleanerRounds(t *testing.T) {
	mem, manual := vfs.NewMem(), clock.NewManual(time.UnixMilli(1_000_000))
	o := testOptions(mem)
	o.Defaults, o.Clock = compactConfig(), manual
	o.Cleaner = CleanerConfig{Threads: 2, Backoff: 15 * time.Second}
	s := openTest(t, o)
	defer s.Close()
	var logs []*Log
	for p := range int32(6) {
		l, err := s.Create(ID{"t", p}, [16]byte{1}, o.Defaults)
		must(t, err)
		for i := range 30 {
			put(t, l, keyedOptions{ms: 1}, kv(fmt.Sprint(i%3), "v"))
		}
		rollTest(t, l)
		logs = append(logs, l)
	}
	plain := createTest(t, s, testConfig())
	put(t, plain, keyedOptions{ms: 1}, kv("a", "1"), kv("a", "2"))
	rollTest(t, plain)
	manual.Advance(15*time.Second - 1)
	if s.cleaner.busyCount() != 0 || logs[0].cleaned.Load() != neverCleaned {
		t.Fatal("compaction began before its time")
	}
	manual.Advance(1)
	for s.cleaner.busyCount() > 0 {
		time.Sleep(time.Millisecond)
	}
	for _, l := range logs {
		if len(survivors(t, l)) != 3 || l.cleaned.Load() != 30 {
			t.Errorf("%s: %v, cleaned to %d", l.ID(), survivors(t, l), l.cleaned.Load())
		}
	}
	if len(survivors(t, plain)) != 2 || plain.cleaned.Load() != neverCleaned {
		t.Error("a log that is not compacted was")
	}
	data, err := readFile(mem, testDir+"/"+cleanerFile)
	must(t, err)
	offsets, err := parseOffsets(data)
	must(t, err)
	if len(offsets) != 6 || offsets[ID{"t", 3}] != 30 {
		t.Errorf("checkpoint: %q", data)
	}
	stats := s.CleanerStats()
	if stats.MaxBufferUse <= 0 || stats.RecopyRatio <= 0 || stats.RecopyRatio >= 1 || stats.SinceLastRunMs != 0 {
		t.Errorf("%+v", stats)
	}
	must(t, s.Delete(ID{"t", 3}))
	s.checkpoint()
	if data, err := readFile(mem, testDir+"/"+cleanerFile); err != nil || bytes.Contains(data, []byte("t 3 ")) {
		t.Errorf("checkpoint after a deletion: %q, %v", data, err)
	}
}

// busyCount is how many goroutines run.
func (c *cleaner) busyCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

func TestDisabledCleanerDoesNothing(t *testing.T) {
	mem, manual := vfs.NewMem(), clock.NewManual(time.UnixMilli(1_000_000))
	o := testOptions(mem)
	o.Defaults, o.Clock = compactConfig(), manual
	o.Cleaner = CleanerConfig{Disabled: true, Threads: 1, Backoff: time.Second}
	s := openTest(t, o)
	defer s.Close()
	l := createTest(t, s, o.Defaults)
	put(t, l, keyedOptions{}, kv("a", "1"), kv("a", "2"))
	rollTest(t, l)
	manual.Advance(time.Minute)
	if s.cleaner.busyCount() != 0 || l.cleaned.Load() != neverCleaned {
		t.Error("compacted")
	}
	s.ConfigureCleaner(CleanerConfig{Threads: 1, Backoff: time.Second})
	manual.Advance(time.Second)
	for l.cleaned.Load() == neverCleaned {
		time.Sleep(time.Millisecond)
	}
}

// TestDamageMakesUncleanable: a flipped bit is found before anything is rewritten.
func TestDamageMakesUncleanable(t *testing.T) {
	mem, _, l := openCompacted(t, compactConfig())
	for i := range 100 {
		put(t, l, keyedOptions{ms: 1}, kv("a", fmt.Sprint(i)))
	}
	rollTest(t, l)
	name := testDir + "/" + testID.String() + "/" + fileName(0, logSuffix)
	data, err := readFile(mem, name)
	must(t, err)
	data[len(data)-1] ^= 1
	must(t, writeFile(mem, name, data, true))
	l.store.ConfigureCleaner(CleanerConfig{Threads: 1, Backoff: time.Hour})
	l.store.cleaner.round()
	for l.store.cleaner.busyCount() > 0 {
		time.Sleep(time.Millisecond)
	}
	stats := l.store.CleanerStats()
	if !l.uncleanable.Load() || stats.UncleanablePartitions[testDir] != 1 || stats.UncleanableBytes[testDir] == 0 {
		t.Fatalf("uncleanable %v, %+v", l.uncleanable.Load(), stats)
	}
	if after, err := readFile(mem, name); err != nil || !bytes.Equal(after, data) || l.dir.offlineError() != nil {
		t.Fatalf("the file changed, or the directory is offline: %v, %v", err, l.dir.offlineError())
	}
}

// TestFullVolumeDelaysCompaction: nothing is left over, and with space it goes on.
func TestFullVolumeDelaysCompaction(t *testing.T) {
	mem, _, l := openCompacted(t, compactConfig())
	for i := range 200 {
		put(t, l, keyedOptions{ms: 1}, kv(fmt.Sprint(i), "some value"), kv("again", "x"))
	}
	rollTest(t, l)
	flushTest(t, l)
	names := func() int {
		all, err := mem.ReadDir(testDir + "/" + testID.String())
		must(t, err)
		return len(all)
	}
	before := names()
	mem.SetCapacity(1)
	round := func() {
		l.store.ConfigureCleaner(CleanerConfig{Threads: 1, Backoff: time.Hour})
		l.store.cleaner.round()
		for l.store.cleaner.busyCount() > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	round()
	if l.cleaned.Load() != neverCleaned || l.uncleanable.Load() || l.dir.offlineError() != nil || names() != before {
		t.Fatalf("cleaned to %d, uncleanable %v, %v, %d files", l.cleaned.Load(), l.uncleanable.Load(), l.dir.offlineError(), names())
	}
	mem.SetCapacity(1 << 30)
	round()
	if len(survivors(t, l)) != 201 {
		t.Fatalf("%d records", len(survivors(t, l)))
	}
}

// TestTruncationOvertakesCompaction: what was read before a truncation is not swapped in after it.
func TestTruncationOvertakesCompaction(t *testing.T) {
	_, _, l := openCompacted(t, compactConfig())
	for i := range 100 {
		put(t, l, keyedOptions{ms: 1}, kv("a", fmt.Sprint(i)))
	}
	rollTest(t, l)
	r, err := l.cleanRange(l.nowMs())
	must(t, err)
	must(t, l.TruncateTo(50))
	err = l.store.cleaner.compact(r, newCleanTools(memory.New(0).Compacted))
	if err == nil {
		t.Fatal("it was compacted")
	}
	l.store.cleaner.note(l, err)
	if l.uncleanable.Load() || l.dir.offlineError() != nil || l.cleaned.Load() != neverCleaned {
		t.Fatalf("%v: uncleanable %v, %v", err, l.uncleanable.Load(), l.dir.offlineError())
	}
	if got := survivors(t, l); len(got) != 50 {
		t.Fatalf("%d records", len(got))
	}
	put(t, l, keyedOptions{ms: 1}, kv("a", "new"))
	rollTest(t, l)
	compactTest(t, l)
	wantSurvivors(t, l, map[int64]string{50: "a=new"})
	must(t, l.TruncateTo(20))
	if l.cleaned.Load() != 20 {
		t.Fatalf("cleaned to %d after a truncation to 20", l.cleaned.Load())
	}
}

// TestThrottle: a pass of n bytes takes n over the rate.
func TestThrottle(t *testing.T) {
	manual := clock.NewManual(time.UnixMilli(0))
	th := throttle{clock: manual}
	if d := th.owe(1<<20, 1<<20); d != time.Second {
		t.Errorf("the first MiB costs %v", d)
	}
	manual.Advance(500 * time.Millisecond)
	if d := th.owe(1<<19, 1<<20); d != time.Second {
		t.Errorf("half a second later %v are owed", d)
	}
	manual.Advance(time.Hour)
	if d := th.owe(1, 1<<20); d > time.Microsecond {
		t.Errorf("after an hour %v are owed", d)
	}
	stop := make(chan struct{})
	done := make(chan bool)
	go func() { done <- th.wait(1<<20, 1<<20, stop) }()
	close(stop)
	if <-done {
		t.Error("a stopped wait went on")
	}
}

func TestOffsetMapIsBounded(t *testing.T) {
	m := new(offsetMap)
	must(t, m.reset(1000, 1<<40, 0.9, nil))
	if len(m.slots) != 1112 {
		t.Errorf("%d slots for 1000 keys at 0.9", len(m.slots))
	}
	for i := range int64(1000) {
		if !m.put(fmt.Append(nil, i), i) {
			t.Fatalf("key %d does not fit", i)
		}
	}
	if m.put([]byte("one more"), 1000) || !m.put([]byte("7"), 1001) {
		t.Error("a full map takes known keys and no other")
	}
	for i := range int64(1000) {
		want := i
		if i == 7 {
			want = 1001
		}
		if got := m.get(fmt.Append(nil, i)); got != want {
			t.Errorf("key %d is at %d", i, got)
		}
	}
	if m.get([]byte("one more")) != -1 {
		t.Error("an unknown key is known")
	}
	must(t, m.reset(1000, 3, 0.9, nil))
	if len(m.slots) > 4 || m.get([]byte("7")) != -1 || m.latest != -1 {
		t.Errorf("%d slots for 3 records, old keys or not", len(m.slots))
	}
	c := CleanerConfig{Threads: 2, DedupeBufferBytes: 48_000_000, LoadFactor: 0.9}.withDefaults()
	if c.maxKeys() != 900_000 {
		t.Errorf("%d keys in 24 MB", c.maxKeys())
	}
}
