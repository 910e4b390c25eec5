package logstore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// BenchmarkCompact is a pass over a log of benchLogBytes, half of whose records are overwritten later; bytes are those
// of the log.
func BenchmarkCompact(b *testing.B) {
	for _, codec := range []batch.Codec{batch.None, batch.Lz4, batch.Zstd} {
		for _, valueBytes := range []int{100, 1000} {
			b.Run(fmt.Sprintf("codec=%d/value=%d", codec, valueBytes), func(b *testing.B) { benchCompact(b, codec, valueBytes) })
		}
	}
}

const benchLogBytes = 256 << 20

func benchCompact(b *testing.B, codec batch.Codec, valueBytes int) {
	c := DefaultConfig()
	c.Delete, c.Compact, c.MinCleanableDirtyRatio, c.FileDeleteDelayMs = false, true, 0, 0
	c.SegmentBytes = 64 << 20
	for b.Loop() {
		b.StopTimer()
		s := openTest(b, Options{FS: vfs.OS, Clock: clock.System, Dirs: []string{b.TempDir()}, Defaults: c})
		l := createTest(b, s, c)
		fillKeyed(b, l, codec, valueBytes)
		rollTest(b, l)
		flushTest(b, l)
		b.SetBytes(l.SizeBytes())
		b.StartTimer()
		if due, err := compactOnce(l); err != nil || !due {
			b.Fatal(due, err)
		}
		b.StopTimer()
		b.ReportMetric(float64(l.SizeBytes())/(1<<20), "MiB-left")
		must(b, s.Close())
		b.StartTimer()
	}
}

func fillKeyed(b *testing.B, l *Log, codec batch.Codec, valueBytes int) {
	rng := rand.New(rand.NewPCG(1, 2))
	perBatch := 16 << 10 / (valueBytes + 20)
	keys := uint64(benchLogBytes / (valueBytes + 20) / 2)
	values := make([]byte, 1<<20)
	for i := range values {
		values[i] = "0123456789abcdef"[rng.IntN(16)]
	}
	records := make([]batch.Record, perBatch)
	for written := 0; written < benchLogBytes; written += perBatch * (valueBytes + 20) {
		for i := range records {
			at := rng.IntN(len(values) - valueBytes)
			records[i] = batch.Record{Offset: int64(i), TimestampMs: 1, Key: binary.BigEndian.AppendUint64(nil, rng.Uint64N(keys)), Value: values[at:][:valueBytes]}
		}
		o := batch.BuildOptions{Codec: codec, ProducerID: batch.NoProducerID, ProducerEpoch: -1, BaseSequence: batch.NoSequence}
		data, err := batch.Build(o, records)
		must(b, err)
		appendTest(b, l, data)
	}
	l.SetHighWatermark(l.EndOffset())
}
