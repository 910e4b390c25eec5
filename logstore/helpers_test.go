package logstore

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

var testID = ID{"topic", 0}

const testDir = "/data"

// testConfig has segments and index intervals so small that a test sees many of them.
func testConfig() Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 4096, 200
	c.FileDeleteDelayMs = 1000
	c.RetentionMs = -1
	return c
}

func testOptions(fs vfs.FS) Options {
	return Options{FS: fs, Clock: clock.NewManual(time.UnixMilli(1_000_000)), Dirs: []string{testDir}, Defaults: testConfig()}
}

func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func createTest(t testing.TB, s *Store, c Config) *Log {
	t.Helper()
	l, err := s.Create(testID, [16]byte{1}, c)
	must(t, err)
	return l
}

// plain builds a batch of count records with the given value size and timestamps from ms on.
func plain(t testing.TB, count, valueBytes int, ms int64) batch.Batch {
	t.Helper()
	records := make([]batch.Record, count)
	for i := range records {
		records[i] = batch.Record{Offset: int64(i), TimestampMs: ms + int64(i), Value: bytes.Repeat([]byte{byte('a' + i%26)}, valueBytes)}
	}
	b, err := batch.Build(batch.BuildOptions{ProducerID: batch.NoProducerID, ProducerEpoch: -1, BaseSequence: batch.NoSequence}, records)
	must(t, err)
	return b
}

func appendTest(t testing.TB, l *Log, b batch.Batch) AppendInfo {
	t.Helper()
	info, err := l.Append(b, 0)
	must(t, err)
	return info
}

func flushTest(t testing.TB, l *Log) {
	t.Helper()
	must(t, flush(l, l.EndOffset()))
}

func flush(l *Log, offset int64) error {
	done := make(chan error, 1)
	l.FlushAsync(offset, func(err error) { done <- err })
	return <-done
}

// readBatches returns the batches in [from, bound), read span by span.
func readBatches(t testing.TB, l *Log, from, bound int64) []batch.Batch {
	t.Helper()
	batches, err := tryReadBatches(l, from, bound)
	must(t, err)
	return batches
}

func tryReadBatches(l *Log, from, bound int64) ([]batch.Batch, error) {
	var batches []batch.Batch
	for from < bound {
		span, err := l.Read(from, ReadOptions{MaxBytes: 1 << 20, Bound: bound, MinOneBatch: true})
		if err != nil {
			return nil, err
		}
		raw, err := span.ReadAll()
		span.Release()
		if err != nil {
			return nil, err
		}
		if len(raw) == 0 {
			return batches, nil
		}
		for len(raw) > 0 {
			b, rest, err := batch.Next(raw)
			if err != nil {
				return nil, err
			}
			if !b.ChecksumOK() {
				return nil, errors.New("bad checksum")
			}
			batches = append(batches, b)
			raw, from = rest, b.LastOffset()+1
		}
	}
	return batches, nil
}
