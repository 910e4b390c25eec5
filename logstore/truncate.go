package logstore

import (
	"errors"
	"io"
	"slices"
)

// TruncateTo removes everything at and above offset; of a batch that offset lies in, nothing stays.
//
// The checkpointed recovery point is lowered first: a crash in the middle leaves a log that the next start reads
// from there. Segments go from the last to the first, so that what is left is a prefix.
func (l *Log) TruncateTo(offset int64) error {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("truncate"); err != nil {
		return err
	}
	if offset < 0 {
		return l.fault("truncate", offset, ErrOffsetOutOfRange)
	}
	if offset >= l.EndOffset() {
		l.epochs.cutEnd(l.EndOffset()) // an epoch that began here and wrote nothing
		return nil
	}
	offset, err := l.batchStart(offset)
	if err != nil {
		return l.fault("truncate", offset, err)
	}
	if err := l.lowerCheckpoints(offset); err != nil {
		return l.failed("truncate", offset, err)
	}
	do := l.truncateInside
	if offset < l.segments()[0].base {
		do = l.restartAt
	}
	if err := do(offset); err != nil {
		return l.broken("truncate", offset, err)
	}
	return nil
}

// RestartAt drops all records and makes offset the start and the end (Kafka's truncateFullyAndStartAt).
func (l *Log) RestartAt(offset int64) error {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("restart"); err != nil {
		return err
	}
	if err := l.lowerCheckpoints(min(offset, l.StartOffset())); err != nil {
		return l.failed("restart", offset, err)
	}
	if err := l.restartAt(offset); err != nil {
		return l.broken("restart", offset, err)
	}
	return nil
}

// batchStart is the base offset of the batch that offset lies in, or offset where none does.
func (l *Log) batchStart(offset int64) (int64, error) {
	if offset < l.segments()[0].base {
		return offset, nil
	}
	r := reader{segments: l.segments()}
	f, err := r.segments[r.segmentOf(offset)].locateHolding(offset)
	if errors.Is(err, io.EOF) {
		return offset, nil
	}
	return min(offset, f.baseOffset), err
}

// lowerCheckpoints makes the durable end and the start at most offset, in the checkpoints too, and running fsyncs void.
func (l *Log) lowerCheckpoints(offset int64) error {
	l.truncations++
	durable := l.recovery.Load() > offset
	start := l.start.Load() > offset
	l.durable.Store(min(l.durable.Load(), offset))
	l.recovery.Store(min(l.recovery.Load(), offset))
	l.start.Store(min(l.start.Load(), offset))
	cleaned := l.cleaned.Load() > offset
	if cleaned {
		l.cleaned.Store(offset)
	}
	if durable {
		if err := l.dir.writeCheckpoint(recoveryPointFile); err != nil {
			return err
		}
	}
	if start {
		if err := l.dir.writeCheckpoint(logStartFile); err != nil {
			return err
		}
	}
	if cleaned {
		return l.dir.writeCheckpoint(cleanerFile)
	}
	return nil
}

func (l *Log) truncateInside(offset int64) error {
	segments := l.segments()
	keep := len(segments)
	for keep > 1 && segments[keep-1].base >= offset {
		keep--
	}
	if err := l.removeForGood(segments[keep:]); err != nil {
		return err
	}
	last := segments[keep-1]
	if err := l.cutSegment(last, offset); err != nil {
		return err
	}
	l.setSegments(segments[:keep:keep])
	l.afterTruncation(last, offset)
	return l.producersAfterTruncation()
}

// producersAfterTruncation reads the producer state again, or leaves that to the next that needs it where space or descriptors lack.
func (l *Log) producersAfterTruncation() error {
	l.producersStale = true
	if err := l.refreshProducers(); !Heals(err) {
		return err
	}
	return nil
}

// refreshProducers makes the producer state that of the log. Callers hold mu.
func (l *Log) refreshProducers() error {
	if !l.producersStale {
		return nil
	}
	l.producersStale = false
	err := l.rebuildProducers(l.EndOffset())
	l.producersStale = err != nil
	return err
}

// removeForGood removes segments, the last first, so that no crash brings one back behind the log's new end.
func (l *Log) removeForGood(segments []*segment) error {
	if len(segments) == 0 {
		return nil
	}
	if err := l.removeSegments(lastFirst(segments)); err != nil {
		return err
	}
	return l.store.o.FS.SyncDir(*l.path.Load())
}

func lastFirst(segments []*segment) []*segment {
	reversed := slices.Clone(segments)
	slices.Reverse(reversed)
	return reversed
}

// cutSegment removes the batches from offset on.
func (l *Log) cutSegment(s *segment, offset int64) error {
	l.writer = nil
	f, err := s.locateHolding(offset)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := l.cutData(s, f.pos); err != nil {
		return err
	}
	s.openAtEnd.Store(openUnread)
	return s.cutIndexes(offset)
}

// cutIndexes brings the index files of a segment whose data was cut up to date. What lacks space or descriptors for that is made again
// before it is used next.
func (s *segment) cutIndexes(offset int64) error {
	if err := s.txns.truncateTo(offset); err != nil {
		if !Heals(err) {
			return err
		}
		s.txnsChecked.Store(false)
	}
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	s.stale.Store(true)
	s.forgetLargest()
	if err := s.rebuildIndexes(); !Heals(err) {
		return err
	}
	s.indexed.Store(false)
	return nil
}

// cutData shortens the file and syncs it: bytes that came back after a crash would be taken for the log.
func (l *Log) cutData(s *segment, pos int64) error {
	o, err := s.openData()
	if err != nil {
		return err
	}
	defer o.release()
	s.size.Store(pos)
	s.forgetDamage(pos)
	if err := o.Truncate(pos); err != nil {
		return err
	}
	return o.Sync()
}

func (l *Log) restartAt(offset int64) error {
	old := l.segments()
	if err := l.removeForGood(old); err != nil {
		return err
	}
	l.writer = nil
	next := l.newSegment(offset, 0)
	if err := next.create(); err != nil {
		return err
	}
	l.entries.made++
	l.setSegments([]*segment{next})
	l.start.Store(offset)
	l.epochs.set(nil, true)
	l.durable.Store(offset)
	l.recovery.Store(offset)
	l.afterTruncation(next, offset)
	return l.producersAfterTruncation()
}

func (l *Log) afterTruncation(last *segment, end int64) {
	l.highWatermark.Store(max(min(l.highWatermark.Load(), end), l.start.Load()))
	l.epochs.cutEnd(end)
	l.tail.reset(last.base, end, last.size.Load())
}
