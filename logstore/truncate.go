package logstore

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// TruncateTo removes everything at and above offset; of a batch that offset lies in, nothing stays. An error that heals
// may leave more than was asked for, but whole segments, and is repaired by the next attempt.
//
// The checkpointed recovery point is lowered first: a crash in the middle leaves a log that the next start reads
// from there. Segments go from the last to the first, so that what is left is a prefix.
func (l *Log) TruncateTo(offset int64) error {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.sound("truncate"); err != nil {
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
	do := l.truncateInside
	if offset < l.segments()[0].base {
		do = l.restartAt
	}
	if err := l.cut(offset, func() error { return do(offset) }); err != nil {
		return l.failed("truncate", offset, err)
	}
	return nil
}

// cut has do cut the log to no less than to. Where that fails the start is what it was, of what is there.
func (l *Log) cut(to int64, do func() error) error {
	start := l.start.Load()
	err := l.lowerCheckpoints(to)
	if err == nil {
		err = do()
	}
	if err != nil {
		l.start.Store(min(start, l.EndOffset()))
	}
	return err
}

// RestartAt drops all records and makes offset the start and the end (Kafka's truncateFullyAndStartAt). An error that
// heals may leave the first segment.
func (l *Log) RestartAt(offset int64) error {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.sound("restart"); err != nil {
		return err
	}
	if err := l.cut(min(offset, l.StartOffset()), func() error { return l.restartAt(offset) }); err != nil {
		return l.failed("restart", offset, err)
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
	last := segments[keep-1]
	data, err := last.openData() // before anything has changed: from here on no descriptor is needed but for the directory
	if err != nil {
		return err
	}
	defer data.release()
	if err := l.removeAfter(keep); err != nil {
		return err
	}
	if err := l.cutSegment(last, offset); err != nil {
		return err
	}
	l.afterTruncation(last, offset)
	return l.producersAfterTruncation()
}

// removeAfter removes all segments but the first keep. Where their directory cannot be synced for want of space or
// descriptors they are gone here, and sound sees to that before anything takes their place.
func (l *Log) removeAfter(keep int) error {
	segments := l.segments()
	if len(segments) == keep {
		return nil
	}
	if err := l.removeSegments(lastFirst(segments[keep:])); err != nil {
		return unhealed(err)
	}
	last := segments[keep-1]
	l.writer, l.unsynced = nil, true
	l.setSegments(segments[:keep:keep])
	l.afterTruncation(last, segments[keep].base)
	l.producersStale = true
	return l.syncRemovals()
}

// syncRemovals makes truncations durable: no crash brings a segment back behind the log's new end.
func (l *Log) syncRemovals() error {
	if !l.unsynced {
		return nil
	}
	err := l.store.o.FS.SyncDir(*l.path.Load())
	l.unsynced = err != nil
	return err
}

// sound is usable for work that goes on where an earlier truncation ended. Callers hold mu.
func (l *Log) sound(op string) error {
	if err := l.usable(op); err != nil {
		return err
	}
	if err := l.syncRemovals(); err != nil {
		return l.failed(op, -1, err)
	}
	return nil
}

// unhealed is err of an operation that cannot be left in its middle, whatever the error.
func unhealed(err error) error { return fmt.Errorf("%v", err) }

// producersAfterTruncation reads the producer state again, or leaves that to the next that needs it where space or
// descriptors lack.
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
		return unhealed(err)
	}
	s.openAtEnd.Store(openUnread)
	return s.cutIndexes(offset)
}

// cutIndexes brings the index files of a segment whose data was cut up to date. What lacks space or descriptors for
// that is made again before it is used next.
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
	if err := l.removeAfter(1); err != nil {
		return err
	}
	next := l.newSegment(offset, 0)
	if err := l.replaceFirst(next); err != nil {
		return err
	}
	l.writer = nil
	l.setSegments([]*segment{next})
	l.start.Store(offset)
	l.epochs.set(nil, true)
	l.durable.Store(offset)
	l.recovery.Store(offset)
	l.afterTruncation(next, offset)
	return l.producersAfterTruncation()
}

// replaceFirst makes next in the place of the only segment. Where space or descriptors lack for it that one stays.
func (l *Log) replaceFirst(next *segment) error {
	old := l.segments()[0]
	old.deleted.Store(true)
	if err := old.rename(deletedSuffix); err != nil {
		return unhealed(err)
	}
	err := l.store.o.FS.SyncDir(*l.path.Load())
	if err == nil {
		err = next.create()
	}
	if err != nil {
		if back := l.putBack(old, next); back != nil {
			err = unhealed(errors.Join(err, back))
		}
		return err
	}
	l.entries.made++
	if err := removeIfExists(l.store.o.FS, old.snapshotPath()); err != nil {
		return unhealed(err)
	}
	l.removeLater(old)
	return nil
}

// putBack undoes replaceFirst.
func (l *Log) putBack(old, next *segment) error {
	l.unsynced = true
	if err := next.removeFiles(); err != nil {
		return err
	}
	if err := old.rename(noSuffix); err != nil {
		return err
	}
	old.deleted.Store(false)
	return nil
}

func (l *Log) afterTruncation(last *segment, end int64) {
	l.highWatermark.Store(max(min(l.highWatermark.Load(), end), l.start.Load()))
	l.epochs.cutEnd(end)
	l.tail.reset(last.base, end, last.size.Load())
}
