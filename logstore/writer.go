package logstore

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
)

// writer is what appending to the active segment needs beyond reading it. Log.mu.
type writer struct {
	indexer
	firstTimestampMs int64 // of the segment's first append, from which segment.ms counts; -1 when none
	createdMs        int64
	jitterMs         int64
}

// openWriter prepares the active segment for appends.
func (l *Log) openWriter() error {
	if l.writer != nil {
		return nil
	}
	seg := l.active()
	w := &writer{indexer: newIndexer(seg.base), firstTimestampMs: -1, createdMs: l.nowMs(), jitterMs: l.jitterMs(seg.base)}
	largest, err := seg.largestTimestamp()
	if err != nil {
		return err
	}
	if err := seg.ensureIndexes(); err != nil {
		return err
	}
	if err := errors.Join(seg.offsets.openTail(), seg.times.openTail()); err != nil {
		return err
	}
	pos, err := seg.positionBefore(math.MaxInt64)
	if err != nil {
		return err
	}
	var last [maxEntryBytes]byte
	if some, err := seg.times.last(&last); err != nil {
		return err
	} else if some {
		w.lastIndexed = parseTimeEntry(last[:]).timestampMs
	}
	w.largest, w.sinceEntry = largest, seg.size.Load()-pos
	if w.firstTimestampMs, err = seg.firstTimestampMs(); err != nil {
		return err
	}
	l.writer = w
	return nil
}

// firstTimestampMs is the largest timestamp of the first batch, -1 when there is none.
func (s *segment) firstTimestampMs() (int64, error) {
	if s.size.Load() == 0 {
		return -1, nil
	}
	o, err := s.openData()
	if err != nil {
		return -1, err
	}
	defer o.release()
	scan := newHeaderScanner(o, s.size.Load())
	defer scan.close()
	h, err := scan.header(0)
	if errors.Is(err, io.EOF) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	return h.MaxTimestamp(), nil
}

// jitterMs is below segment.jitter.ms and differs from log to log and segment to segment.
func (l *Log) jitterMs(base int64) int64 {
	bound := min(l.config().SegmentJitterMs, l.config().SegmentMs)
	if bound <= 0 {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprint(h, l.id, base)
	return int64(h.Sum64() % uint64(bound))
}

// reserve makes room in the indexes, so that index cannot fail.
func (w *writer) reserve(seg *segment) error {
	return errors.Join(seg.offsets.reserve(), seg.times.reserve())
}

func (w *writer) index(seg *segment, lastOffset, maxTimestampMs, pos, size int64, intervalBytes int32) {
	if !w.observe(lastOffset, maxTimestampMs, size, intervalBytes) {
		return
	}
	var buf [maxEntryBytes]byte
	seg.offsets.append(offsetEntry{int32(lastOffset - seg.base), int32(pos)}.append(buf[:0]))
	seg.indexDirty = true
	w.indexTime(seg)
}

func (w *writer) indexTime(seg *segment) {
	if !w.timeDue() {
		return
	}
	var buf [maxEntryBytes]byte
	seg.times.append(timeEntry{w.largest.timestampMs, int32(w.largest.offset - seg.base)}.append(buf[:0]))
	seg.indexDirty = true
}

// finish brings the index files of seg up to date; the last time entry is the largest timestamp of all.
func (w *writer) finish(seg *segment) error {
	if err := w.reserve(seg); err != nil {
		return err
	}
	w.indexTime(seg)
	return errors.Join(seg.offsets.flush(), seg.times.flush())
}

// shouldRoll tells whether sizeBytes more, up to s.last, belong in a new segment (LogSegment.shouldRoll).
func (l *Log) shouldRoll(seg *segment, sizeBytes int, s span) bool {
	c, size := l.config(), seg.size.Load()
	maxEntries := func(x *indexFile) int { return int(c.SegmentIndexBytes) / x.entryBytes }
	return size > int64(c.SegmentBytes)-int64(sizeBytes) ||
		size > 0 && l.waitedMs(s.maxTimestampMs) > c.maxSegmentMs()-l.writer.jitterMs ||
		seg.offsets.len() >= maxEntries(&seg.offsets) ||
		seg.times.len() >= maxEntries(&seg.times)-1 ||
		s.last-seg.base > math.MaxInt32
}

// waitedMs is how long the segment has been filling, by the records' own time where they have one.
func (l *Log) waitedMs(maxTimestampMs int64) int64 {
	if l.writer.firstTimestampMs >= 0 {
		return maxTimestampMs - l.writer.firstTimestampMs
	}
	return l.nowMs() - l.writer.createdMs
}

// segmentFor returns the segment that takes sizeBytes more, rolling first when it must.
func (l *Log) segmentFor(sizeBytes int, s span) (*segment, error) {
	if int64(sizeBytes) > int64(l.config().SegmentBytes) {
		return nil, l.fault("append", s.first, ErrBatchTooLarge)
	}
	if err := l.openWriter(); err != nil {
		l.dir.lacks(l.id, "append", err)
		return nil, l.fault("append", s.first, err)
	}
	seg := l.active()
	if !l.shouldRoll(seg, sizeBytes, s) {
		return seg, nil
	}
	if err := l.roll(l.rollBase(s)); err != nil {
		return nil, l.failed("roll", s.first, err)
	}
	return l.active(), nil
}

// rollBase is the log end even where a follower's next batch begins later, so that segments which were never compacted
// follow each other without a gap: recovery tells by it that a segment lost its end.
func (l *Log) rollBase(s span) int64 {
	if end := l.EndOffset(); s.last-end <= math.MaxInt32 {
		return end
	}
	return s.first
}

// roll closes the active segment and begins one at base. Whatever fails, the old one stays active and whole.
func (l *Log) roll(base int64) error {
	old := l.active()
	if old.base == base && old.size.Load() == 0 {
		return nil
	}
	if err := l.writer.finish(old); err != nil {
		return err
	}
	if err := l.snapshotProducers(base); err != nil {
		return err
	}
	if err := l.nameActive(); err != nil {
		return err
	}
	next := l.newSegment(base, 0)
	if err := next.create(); err != nil {
		return err
	}
	old.offsets.seal()
	old.times.seal()
	old.indexDirty = true
	l.entries.made++
	l.setSegments(append(append([]*segment(nil), l.segments()...), next))
	l.tail.reset(base, base, 0)
	l.writer = nil
	if err := l.openWriter(); err != nil {
		return err
	}
	l.flushInBackground(base)
	return nil
}

// nameActive makes the active segment's directory entry durable before a successor exists: a crash must not leave a
// log that lacks a segment in the middle or at its start. Mostly the flush after the last roll has done it.
func (l *Log) nameActive() error {
	w := flushWork{entries: l.entries, parent: l.parent}
	if err := l.syncEntries(w); err != nil {
		return err
	}
	l.entriesSynced(w)
	return nil
}
