package logstore

import (
	"bytes"
	"context"
	"path"
	"testing"

	"grete/internal/vfs"
)

// FuzzCheckpoints: what parses is written back as it was read; nothing panics or allocates by a lying count.
func FuzzCheckpoints(f *testing.F) {
	for _, seed := range []string{"0\n1\ntopic 0 5\n", "0\n0\n", "0\n2\n0 0\n3 17\n", "0\n4000000\na 0 1\n", "1\n0\n", "", "0\n1\na b c d\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if offsets, err := parseOffsets(data); err == nil {
			again, err := parseOffsets(encodeOffsets(offsets))
			if err != nil || len(again) != len(offsets) {
				t.Fatalf("%q: %v, %v", data, again, err)
			}
		}
		if epochs, err := parseEpochs(data); err == nil {
			again, err := parseEpochs(encodeEpochs(epochs))
			if err != nil || len(again) != len(epochs) {
				t.Fatalf("%q: %v, %v", data, again, err)
			}
		}
		_, _ = parseMetaProperties(data)
		_, _ = parsePartitionMetadata(data)
	})
}

// fuzzedLog is a log of one segment with the given files, opened as after a clean stop.
func fuzzedLog(t *testing.T, files map[string][]byte) (*vfs.Mem, *Log) {
	t.Helper()
	mem := vfs.NewMem()
	must(t, mem.MkdirAll(partitionDir, 0o755))
	for name, data := range files {
		must(t, writeFile(mem, name, data, true))
	}
	s, err := Open(context.Background(), testOptions(mem))
	must(t, err)
	l := s.Log(testID)
	if l == nil {
		t.Fatalf("not loaded: %v", s.Dirs()[0].Offline)
	}
	return mem, l
}

// FuzzIndexes opens a sound log with whatever as its indexes: the answers are those of the log.
func FuzzIndexes(f *testing.F) {
	var raw []byte
	for i := range 20 {
		b := plain(f, 2, 50, int64(1000+10*i))
		b.SetBaseOffset(int64(2 * i))
		b.SetPartitionLeaderEpoch(0)
		raw = append(raw, b...)
	}
	f.Add([]byte{}, []byte{})
	f.Add(offsetEntry{3, 200}.append(nil), timeEntry{1050, 11}.append(nil))
	f.Add(offsetEntry{-3, -200}.append(nil), timeEntry{1 << 60, 11}.append(nil))
	f.Add([]byte{1, 2, 3}, bytes.Repeat([]byte{0}, 24))
	f.Fuzz(func(t *testing.T, offsets, times []byte) {
		_, l := fuzzedLog(t, map[string][]byte{
			segmentFile(0, logSuffix): raw, segmentFile(0, indexSuffix): offsets, segmentFile(0, timeIndexSuffix): times,
			path.Join(testDir, cleanShutdownFile): nil,
		})
		if l.EndOffset() != 40 {
			t.Fatalf("end %d", l.EndOffset())
		}
		for _, from := range []int64{0, 7, 23, 39} {
			if got := readBatches(t, l, from, 40); len(got) != 20-int(from/2) {
				t.Fatalf("from %d: %d batches", from, len(got))
			}
		}
		if found, err := l.OffsetForTimestamp(1101); err != nil || found.Offset != 21 {
			t.Fatalf("by time: %+v, %v", found, err)
		}
		must(t, l.store.Close())
	})
}

// FuzzRecovery opens a directory of whatever: what is served is whole batches in order, and it can be appended to.
func FuzzRecovery(f *testing.F) {
	b := plain(f, 2, 50, 1000)
	f.Add([]byte(b), []byte{}, []byte("0\n0\n"), []byte{})
	f.Add(append(bytes.Clone(b), b...), []byte(b), []byte("0\n1\n0 0\n"), []byte{0, 1})
	f.Fuzz(func(t *testing.T, first, second, epochs, snapshot []byte) {
		_, l := fuzzedLog(t, map[string][]byte{
			segmentFile(0, logSuffix): first, segmentFile(2, logSuffix): second,
			path.Join(partitionDir, leaderEpochFile): epochs, segmentFile(2, snapshotSuffix): snapshot,
			segmentFile(0, txnIndexSuffix): snapshot,
		})
		next := l.StartOffset()
		for _, b := range readBatches(t, l, next, l.EndOffset()) {
			if b.BaseOffset() < next {
				t.Fatalf("batch at %d after %d", b.BaseOffset(), next)
			}
			next = b.LastOffset() + 1
		}
		if next != l.EndOffset() {
			t.Fatalf("batches end at %d, the log at %d", next, l.EndOffset())
		}
		_, err := l.Append(plain(t, 1, 1, 1), max(l.LatestEpoch(), 0))
		must(t, err)
		must(t, l.store.Close())
	})
}
