package logstore

import (
	"fmt"
	"testing"
	"time"

	"grete/protocol/batch"
)

func TestSegmentsAreGrouped(t *testing.T) {
	mem, _, l := openCompacted(t, compactConfig())
	for i := range 500 {
		put(t, l, keyedOptions{ms: int64(i)}, kv(fmt.Sprint(i%50), "some value that is longer than nothing"))
	}
	rollTest(t, l)
	before := l.SegmentCount()
	compactTest(t, l)
	put(t, l, keyedOptions{ms: 500}, kv("new", ""))
	rollTest(t, l)
	compactTest(t, l)
	if after := l.SegmentCount(); before < 10 || after > 4 {
		t.Fatalf("%d segments became %d", before, after)
	}
	for _, s := range l.segments() {
		if s.size.Load() > int64(l.config().SegmentBytes) {
			t.Errorf("segment %d has %d bytes", s.base, s.size.Load())
		}
	}
	names, err := mem.ReadDir(testDir + "/" + testID.String())
	must(t, err)
	for _, e := range names {
		if base, ok := offsetOfFile(e.Name()); ok && e.Name() == fileName(base, snapshotSuffix) && base < l.segments()[1].base {
			t.Errorf("snapshot %s belongs to no segment", e.Name())
		}
	}
}

// TestReadersOfReplacedSegments: a view taken before goes on reading what it saw, by name or by open file.
func TestReadersOfReplacedSegments(t *testing.T) {
	_, manual, l := openCompacted(t, compactConfig())
	for i := range 100 {
		put(t, l, keyedOptions{ms: int64(i)}, kv("k", fmt.Sprintf("value %d", i)))
	}
	rollTest(t, l)
	old := l.segments()
	for _, s := range old {
		s.forget() // opened anew by name
	}
	compactTest(t, l)
	wantSurvivors(t, l, map[int64]string{99: "k=value 99"})
	r := reader{log: l, tail: l.tail.load(), segments: old, bound: l.EndOffset()}
	for offset := range int64(100) {
		span, err := r.read(offset, ReadOptions{MaxBytes: 1, MinOneBatch: true})
		must(t, err)
		raw, err := span.ReadAll()
		must(t, err)
		span.Release()
		if b := batch.Batch(raw); len(raw) == 0 || b.BaseOffset() != offset || !b.ChecksumOK() {
			t.Fatalf("old view at %d: %d bytes", offset, len(raw))
		}
	}
	manual.Advance(2 * time.Second)
	names, err := l.store.o.FS.ReadDir(*l.path.Load())
	must(t, err)
	for _, e := range names {
		if e.Name() != fileName(0, logSuffix) && len(e.Name()) > len(fileName(0, timeIndexSuffix)) && e.Name() != leaderEpochFile && e.Name() != partitionMetadataFile {
			t.Errorf("%s is left", e.Name())
		}
	}
}
