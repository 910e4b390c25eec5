package logstore

import (
	"errors"
	"io"

	"grete/protocol/batch"
)

// TimestampOffset is a record found by time.
type TimestampOffset struct {
	Offset, TimestampMs int64 // -1 when none
	LeaderEpoch         int32 // -1 when unknown
}

var noTimestampOffset = TimestampOffset{Offset: -1, TimestampMs: batch.NoTimestamp, LeaderEpoch: -1}

// OffsetForTimestamp finds the first record with timestamp >= targetMs.
func (l *Log) OffsetForTimestamp(targetMs int64) (TimestampOffset, error) {
	if err := l.dir.offlineError(); err != nil {
		return noTimestampOffset, l.fault("find timestamp", -1, err)
	}
	for _, s := range l.segments() {
		largest, err := s.largestTimestamp()
		if err != nil {
			return noTimestampOffset, l.fault("find timestamp", s.base, err)
		}
		if largest.timestampMs < targetMs {
			continue
		}
		f, err := s.findTimestamp(targetMs, l.StartOffset())
		if err == nil && f != noTimestampOffset {
			return f, nil
		}
		if err != nil {
			return noTimestampOffset, l.fault("find timestamp", s.base, err)
		}
	}
	return noTimestampOffset, nil
}

// findTimestamp finds the first record of the segment at or above from with timestamp >= targetMs.
func (s *segment) findTimestamp(targetMs, from int64) (TimestampOffset, error) {
	start, err := s.beforeTimestamp(targetMs)
	if err != nil {
		return noTimestampOffset, err
	}
	return s.firstFitting(max(start, from, s.base), func(ts, offset int64) bool { return ts >= targetMs && offset >= from })
}

// firstFitting finds the first record that fits, from the batch on that has the offset from.
func (s *segment) firstFitting(from int64, fits func(timestampMs, offset int64) bool) (TimestampOffset, error) {
	first, err := s.locate(from)
	if errors.Is(err, io.EOF) {
		return noTimestampOffset, nil
	}
	if err != nil {
		return noTimestampOffset, err
	}
	o, err := s.openData()
	if err != nil {
		return noTimestampOffset, err
	}
	defer o.release()
	return scanTimestamp(o, first.pos, s.size.Load(), s.log.config().MaxRecordBytes, fits)
}

// beforeTimestamp is an offset below which no record reaches targetMs: that of the last time entry below it.
func (s *segment) beforeTimestamp(targetMs int64) (int64, error) {
	for range 2 {
		if err := s.ensureIndexes(); err != nil {
			return 0, err
		}
		var raw [maxEntryBytes]byte
		i, err := s.times.search(func(e []byte) bool { return parseTimeEntry(e).timestampMs < targetMs }, &raw)
		if i < 0 && err == nil {
			return s.base, nil
		}
		e := parseTimeEntry(raw[:])
		if err == nil && s.trueEntry(e) {
			return s.base + int64(e.relative), nil
		}
		if err := s.log.repairIndexes(s); err != nil {
			return 0, err
		}
	}
	return s.base, nil
}

// trueEntry tells whether the log bears out a time entry.
func (s *segment) trueEntry(e timeEntry) bool {
	offset := s.base + int64(e.relative)
	if e.relative < 0 {
		return false
	}
	f, err := s.locate(offset)
	return err == nil && f.maxTimestampMs == e.timestampMs
}

// scanTimestamp finds the first record from pos on that matches, looking into batches whose largest timestamp does.
func scanTimestamp(r io.ReaderAt, pos, end int64, maxRecordBytes int32, match func(timestampMs, offset int64) bool) (TimestampOffset, error) {
	result, inner := noTimestampOffset, error(nil)
	var buf []byte
	err := walkHeaders(r, pos, end, func(pos int64, h batch.Batch) bool {
		if !match(h.MaxTimestamp(), h.LastOffset()) {
			return true
		}
		size, _ := batchSize(h)
		var b batch.Batch
		if b, inner = readBatch(r, pos, size, buf); inner != nil {
			return false
		}
		buf = b
		result, inner = matchRecord(b, maxRecordBytes, match)
		return inner == nil && result == noTimestampOffset
	})
	return result, errors.Join(err, inner)
}

func matchRecord(b batch.Batch, maxRecordBytes int32, match func(timestampMs, offset int64) bool) (TimestampOffset, error) {
	for record, err := range b.Times(maxRecordBytes) {
		if err != nil {
			return noTimestampOffset, err
		}
		if match(record.TimestampMs, record.Offset) {
			return TimestampOffset{record.Offset, record.TimestampMs, b.PartitionLeaderEpoch()}, nil
		}
	}
	return noTimestampOffset, nil
}

// MaxTimestampOffset finds the record with the largest timestamp (ListOffsets -3), the first of several.
func (l *Log) MaxTimestampOffset() (TimestampOffset, error) {
	if err := l.dir.offlineError(); err != nil {
		return noTimestampOffset, l.fault("find timestamp", -1, err)
	}
	var in *segment
	best := timestampAt{timestampMs: batch.NoTimestamp}
	for _, s := range l.segments() {
		largest, err := s.largestTimestamp()
		if err != nil {
			return noTimestampOffset, l.fault("find timestamp", s.base, err)
		}
		if in == nil || largest.timestampMs > best.timestampMs {
			in, best = s, largest
		}
	}
	if best.timestampMs < 0 {
		return noTimestampOffset, nil
	}
	f, err := in.firstFitting(best.offset, func(ts, _ int64) bool { return ts == best.timestampMs })
	if err != nil {
		return noTimestampOffset, l.fault("find timestamp", in.base, err)
	}
	return f, nil
}
