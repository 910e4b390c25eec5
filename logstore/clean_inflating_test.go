package logstore

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"grete/protocol/batch"
)

// What compaction holds of a batch that inflates is bounded: a log with a larger one is left as it is, counted and
// served; others are compacted. Without the bound it took as much memory as the records said, again after each start.
func TestInflatingRecordsMakeUncleanable(t *testing.T) {
	const held = 1 << 20
	large := make([]byte, 48<<20)
	many := make([]keyed, 200)
	for i := range many {
		many[i] = keyed{fmt.Sprint("key", i), large[:16<<10]}
	}
	for codec := batch.Gzip; codec <= batch.Zstd; codec++ {
		for name, c := range map[string]struct {
			records     []keyed
			uncleanable bool
		}{
			"one record": {[]keyed{{"a", large}}, true},
			"all kept":   {many, true},
			"in bounds":  {many[:50], false},
		} {
			t.Run(fmt.Sprint(codec, name), func(t *testing.T) {
				cfg := compactConfig()
				cfg.SegmentBytes = 8 << 20
				_, _, l := openCompacted(t, cfg)
				put(t, l, keyedOptions{codec: codec, ms: 1}, c.records...)
				put(t, l, keyedOptions{codec: codec, ms: 1}, kv("b", "1"), kv("b", "2"))
				before := readBatches(t, l, 0, l.EndOffset())
				rollTest(t, l)
				l.store.ConfigureCleaner(CleanerConfig{Threads: 1, Backoff: time.Hour, MaxHeldBytes: held, DedupeBufferBytes: 1 << 20})
				took := allocatedBy(func() {
					l.store.cleaner.round()
					for l.store.cleaner.busyCount() > 0 {
						time.Sleep(time.Millisecond)
					}
				})
				if took > 24*held {
					t.Errorf("%d MiB were allocated", took>>20)
				}
				stats := l.store.CleanerStats()
				if l.uncleanable.Load() != c.uncleanable || (stats.UncleanablePartitions[testDir] == 1) != c.uncleanable {
					t.Fatalf("uncleanable: %v, counted %d", l.uncleanable.Load(), stats.UncleanablePartitions[testDir])
				}
				if after := readBatches(t, l, 0, l.EndOffset()); c.uncleanable && (len(after) != len(before) || !bytes.Equal(after[0], before[0])) {
					t.Error("the log has changed")
				}
			})
		}
	}
}

// allocatedBy is how many bytes were allocated meanwhile.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
