package logstore

import (
	"bytes"
	"errors"
	"testing"

	"grete/internal/vfs"
	"grete/protocol/batch"
)

func TestAppendReadRollReopen(t *testing.T) {
	fs := vfs.NewMem()
	s := openTest(t, testOptions(fs))
	l := createTest(t, s, testConfig())
	var written []batch.Batch
	for i := range 200 {
		b := plain(t, 1+i%3, 20+i%50, int64(1000+i))
		info := appendTest(t, l, b)
		if info.BaseOffset != b.BaseOffset() || info.LastOffset != b.LastOffset() {
			t.Fatalf("info %+v of batch %d-%d", info, b.BaseOffset(), b.LastOffset())
		}
		written = append(written, b)
	}
	if n := len(l.segments()); n < 4 {
		t.Fatalf("%d segments", n)
	}
	checkAll(t, l, written)
	must(t, s.Close())
	for _, unclean := range []bool{false, true} {
		if unclean {
			must(t, fs.Remove(testDir+"/"+cleanShutdownFile))
		}
		s = openTest(t, testOptions(fs))
		l = s.Log(testID)
		if l == nil {
			t.Fatal("log is gone")
		}
		checkAll(t, l, written)
		if unclean {
			b := plain(t, 1, 10, 5)
			appendTest(t, l, b)
			checkAll(t, l, append(written, b))
		}
		must(t, s.Close())
	}
}

// checkAll reads from every offset and compares with what was written.
func checkAll(t *testing.T, l *Log, written []batch.Batch) {
	t.Helper()
	end := l.EndOffset()
	for i, w := range written {
		for offset := w.BaseOffset(); offset <= w.LastOffset(); offset++ {
			span, err := l.Read(offset, ReadOptions{MaxBytes: 1, Bound: end, MinOneBatch: true})
			must(t, err)
			raw, err := span.ReadAll()
			must(t, err)
			span.Release()
			if !bytes.Equal(raw, w) {
				t.Fatalf("offset %d of batch %d: read %d bytes, want %d", offset, i, len(raw), len(w))
			}
		}
	}
	if got := readBatches(t, l, l.StartOffset(), end); len(got) != len(written) {
		t.Fatalf("read %d batches, want %d", len(got), len(written))
	}
	if _, err := l.Read(end+1, ReadOptions{}); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("reading beyond the end: %v", err)
	}
}
