package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"grete/internal/vfs"
	"grete/protocol/batch"
)

// ensureIndexes loads the index files on first use and rebuilds them when they are missing or garbled.
func (s *segment) ensureIndexes() error {
	if s.indexed.Load() {
		return nil
	}
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if s.indexed.Load() {
		return nil
	}
	if s.stale.Load() {
		return s.rebuildIndexes()
	}
	err := s.loadIndexes()
	if errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errIndexSuspicious) {
		s.log.store.o.Log.Warn().Str("log", s.log.id.String()).Int64("segment", s.base).Err(err).Msg("rebuilding indexes")
		err = s.rebuildIndexes()
		s.stale.Store(Heals(err))
	}
	s.indexed.Store(err == nil)
	return err
}

func (s *segment) loadIndexes() error {
	for _, x := range []struct {
		file *indexFile
		rise func(a, b []byte) bool
	}{{&s.offsets, offsetEntriesRise}, {&s.times, timeEntriesRise}} {
		size, err := s.indexSize(x.file)
		if err != nil {
			return err
		}
		if err := x.file.load(size, x.rise); err != nil {
			return err
		}
	}
	return s.checkIndexes()
}

func (s *segment) indexSize(x *indexFile) (int64, error) {
	o, err := s.open(&x.file, x.suffix)
	if err != nil {
		return 0, err
	}
	defer o.release()
	return o.Size()
}

// checkIndexes compares the ends of the indexes with the log: neither may be empty where the log earns an
// entry, and the last time entry must be what its batch says, for retention trusts it.
func (s *segment) checkIndexes() error {
	size := s.size.Load()
	if size == 0 {
		return nil
	}
	if s.offsets.len() == 0 {
		if err := s.checkUnindexed(size); err != nil {
			return err
		}
	}
	var raw [maxEntryBytes]byte
	some, err := s.times.last(&raw)
	if err != nil {
		return err
	}
	if !some {
		return s.checkUntimed()
	}
	last := parseTimeEntry(raw[:])
	o, err := s.openData()
	if err != nil {
		return err
	}
	defer o.release()
	pos, err := s.positionBefore(s.base + int64(last.relative))
	if err != nil {
		return err
	}
	return checkTimeEntry(o, pos, size, s.base, last)
}

// checkUnindexed accepts an empty offset index only where no batch begins beyond the index interval: an entry is due
// with the append after so many bytes, so that a segment of one large batch has none.
func (s *segment) checkUnindexed(size int64) error {
	interval := int64(s.log.config().IndexIntervalBytes)
	if size <= interval {
		return nil
	}
	o, err := s.openData()
	if err != nil {
		return err
	}
	defer o.release()
	due := false
	err = walkHeaders(o, 0, size, func(pos int64, _ batch.Batch) bool {
		due = pos > interval
		return !due
	})
	if due || errors.Is(err, ErrCorrupt) {
		return errIndexSuspicious
	}
	return err
}

// checkUntimed accepts an empty time index only where the first batch has no timestamp.
func (s *segment) checkUntimed() error {
	o, err := s.openData()
	if err != nil {
		return err
	}
	defer o.release()
	scan := newHeaderScanner(o, s.size.Load())
	defer scan.close()
	h, err := scan.header(0)
	if err == nil && h.MaxTimestamp() < 0 {
		return nil
	}
	return errIndexSuspicious
}

// positionBefore is the position of an offset entry at or below offset, 0 without one.
func (s *segment) positionBefore(offset int64) (int64, error) {
	var raw [maxEntryBytes]byte
	i, err := s.offsets.search(func(e []byte) bool { return s.base+int64(parseOffsetEntry(e).relative) <= offset }, &raw)
	if err != nil || i < 0 {
		return 0, err
	}
	return int64(parseOffsetEntry(raw[:]).pos), nil
}

func checkTimeEntry(r io.ReaderAt, from, size, base int64, e timeEntry) error {
	matches := false
	err := walkHeaders(r, from, size, func(_ int64, h batch.Batch) bool {
		holds := h.LastOffset() >= base+int64(e.relative)
		matches = holds && h.MaxTimestamp() == e.timestampMs
		return !holds
	})
	if matches {
		return nil
	}
	return fmt.Errorf("%w: %w", errIndexSuspicious, errors.Join(err))
}

// rebuildIndexes reads the segment's headers and replaces both index files. Callers hold indexMu, and mu when
// the segment is active.
func (s *segment) rebuildIndexes() error {
	o, err := s.openData()
	if err != nil {
		return err
	}
	defer o.release()
	built := indexBuilder{indexer: newIndexer(s.base), base: s.base}
	interval := s.log.config().IndexIntervalBytes
	err = walkHeaders(o, 0, s.size.Load(), func(pos int64, h batch.Batch) bool {
		size, _ := batchSize(h)
		built.add(h.LastOffset(), h.MaxTimestamp(), pos, size, interval)
		return true
	})
	if err != nil && !errors.Is(err, ErrCorrupt) { // what precedes the damage is still indexed
		return err
	}
	built.addTime()
	return s.adoptIndexes(&built, replaceFile)
}

// adoptIndexes writes built to the index files and loads them.
func (s *segment) adoptIndexes(built *indexBuilder, write func(fs vfs.FS, name string, data []byte) error) error {
	for _, x := range []struct {
		file *indexFile
		data []byte
		rise func(a, b []byte) bool
	}{{&s.offsets, built.offsets, offsetEntriesRise}, {&s.times, built.times, timeEntriesRise}} {
		s.log.store.files.forget(&x.file.file)
		if err := write(s.log.store.o.FS, s.path(x.file.suffix), x.data); err != nil {
			return err
		}
		if err := x.file.load(int64(len(x.data)), x.rise); err != nil {
			return err
		}
	}
	s.stale.Store(false)
	s.rebuilt.Store(true)
	s.indexed.Store(true)
	s.setLargest(built.largest)
	return nil
}

// repairIndexes rebuilds the indexes of a segment that a reader found to contradict the log.
func (l *Log) repairIndexes(s *segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.repairIndexesHolding(s)
}

func (l *Log) repairIndexesHolding(s *segment) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if s.rebuilt.Load() {
		return nil // another reader was first
	}
	l.store.o.Log.Error().Str("log", l.id.String()).Int64("segment", s.base).Msg("index contradicts the log: rebuilding")
	if err := s.rebuildIndexes(); err != nil {
		return err
	}
	if l.writer != nil && s == l.active() {
		l.writer = nil // the next append opens the new files' tails
	}
	return nil
}
