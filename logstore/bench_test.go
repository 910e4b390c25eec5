package logstore

import (
	"fmt"
	"os"
	"testing"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// benchLog is a log on the real file system with default segments.
func benchLog(b *testing.B, c Config) *Log {
	b.Helper()
	s := openTest(b, Options{FS: vfs.OS, Clock: clock.System, Dirs: []string{b.TempDir()}, Defaults: c})
	b.Cleanup(func() { must(b, s.Close()) })
	l, err := s.Create(testID, [16]byte{1}, c)
	must(b, err)
	return l
}

func sizedBatch(b *testing.B, sizeBytes int) batch.Batch {
	b.Helper()
	return plain(b, 1, sizeBytes-batch.HeaderSize-20, 1)
}

// BenchmarkAppend against BenchmarkPwrite: what the log adds to one positional write.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{300, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l, data := benchLog(b, DefaultConfig()), sizedBatch(b, size)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Append(data, 1); err != nil {
					b.Fatal(err)
				}
				if l.EndOffset()%4096 == 0 && l.SizeBytes() > 1<<30 { // keep the disk small
					b.StopTimer()
					must(b, l.TruncateTo(0))
					b.StartTimer()
				}
			}
		})
	}
}

func BenchmarkPwrite(b *testing.B) {
	for _, size := range []int{300, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f, err := os.Create(b.TempDir() + "/file")
			must(b, err)
			defer f.Close()
			data, at := sizedBatch(b, size), int64(0)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := f.WriteAt(data, at); err != nil {
					b.Fatal(err)
				}
				if at += int64(len(data)); at > 1<<30 {
					at = 0
				}
			}
		})
	}
}

// BenchmarkLookup reads one batch at scattered offsets of logs of very different sizes: the cost must not differ.
func BenchmarkLookup(b *testing.B) {
	for _, total := range []int{50 << 10, 64 << 20, 1 << 30} {
		b.Run(fmt.Sprintf("%dKiB", total>>10), func(b *testing.B) {
			c := DefaultConfig()
			c.SegmentBytes = 256 << 20
			l, data := benchLog(b, c), sizedBatch(b, 1<<10)
			for range total >> 10 {
				appendTest(b, l, data)
			}
			offset := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				offset = (offset + 7919) % l.EndOffset()
				span, err := l.Read(offset, ReadOptions{MaxBytes: 1 << 10, Bound: l.EndOffset(), MinOneBatch: true})
				if err != nil || span.SizeBytes == 0 {
					b.Fatal(err, span.SizeBytes)
				}
				span.Release()
			}
		})
	}
}

// BenchmarkTailRead is a consumer at the end of the log.
func BenchmarkTailRead(b *testing.B) {
	l, data := benchLog(b, DefaultConfig()), sizedBatch(b, 300)
	for range 1000 {
		appendTest(b, l, data)
	}
	b.ReportAllocs()
	for b.Loop() {
		span, err := l.Read(l.EndOffset()-1, ReadOptions{MaxBytes: 1 << 20, Bound: l.EndOffset(), MinOneBatch: true})
		if err != nil || span.SizeBytes != len(data) {
			b.Fatal(err)
		}
		span.Release()
	}
}
