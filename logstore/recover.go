package logstore

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"grete/internal/vfs"
	"grete/protocol/batch"
)

const maxRelativeOffset = math.MaxInt32

// recover walks the segments from that of the recovery point on, as they may be what a crash left: it cuts the log
// at the first batch that is not whole, rebuilds their indexes and brings producers and epochs up to the end that
// it returns. Checksums are computed from the recovery point on; what is below was synced.
func (l *Log) recover(state loadState) (int64, error) {
	recoveryPoint := state.recovery
	segments := l.segments()
	first := len(segments) - 1
	for first > 0 && segments[first].base > recoveryPoint {
		first--
	}
	from := segments[first].base
	if err := l.rebuildProducersBelow(from); err != nil {
		return 0, err
	}
	end := from
	for i := first; i < len(segments); i++ {
		s := segments[i]
		if i > first && l.isHole(end, s.base, state) {
			l.store.o.Log.Warn().Str("log", l.id.String()).Int64("end", end).Int64("segment", s.base).
				Msg("segments do not follow each other: cutting the log at the gap")
			return end, l.dropSegments(i)
		}
		next, whole, err := l.recoverSegment(s, max(end, s.base), recoveryPoint)
		if err != nil {
			return 0, err
		}
		end = next
		if !whole && i+1 < len(segments) {
			if err := l.dropSegments(i + 1); err != nil {
				return 0, err
			}
			break
		}
	}
	if end < recoveryPoint {
		l.store.o.Log.Error().Str("log", l.id.String()).Int64("end", end).Int64("recoveryPoint", recoveryPoint).
			Msg("log ends below its recovery point: synced records are lost")
	}
	return end, nil
}

// isHole: batches are missing between a segment's end and the next one's base, both above the recovery point, as when
// a crash took the last pages of the former. Compaction leaves such gaps too, but works below the recovery point only,
// which it writes down before; where the checkpoint is lost, nothing is concluded. Inside a segment a gap is no sign of
// loss: a follower gets those of its leader's compacted log, and whether the topic is compacted nobody knows at this
// time.
func (l *Log) isHole(end, base int64, state loadState) bool {
	return end < base && base > l.cleaned.Load() && state.checkpointed
}

// rebuildProducersBelow brings the producer state to the offset from which recovery walks.
func (l *Log) rebuildProducersBelow(offset int64) error {
	if err := l.producers.removeStraySnapshots(l.bases()); err != nil {
		return err
	}
	return l.rebuildProducers(max(offset, l.start.Load()))
}

func (l *Log) bases() []int64 {
	bases := make([]int64, len(l.segments()))
	for i, s := range l.segments() {
		bases[i] = s.base
	}
	return bases
}

// dropSegments removes segment i and all after it: they follow a place where the log was cut.
func (l *Log) dropSegments(i int) error {
	segments := l.segments()
	l.setSegments(segments[:i:i])
	if len(segments) == i {
		return nil
	}
	l.unsynced = true
	if err := l.removeSegments(lastFirst(segments[i:])); err != nil {
		return err
	}
	return l.syncRemovals()
}

// recoverSegment walks s, whose first offset must be at or above from. whole tells that nothing was cut.
func (l *Log) recoverSegment(s *segment, from, recoveryPoint int64) (end int64, whole bool, err error) {
	if err := s.txns.reset(); err != nil {
		return 0, false, err
	}
	size := s.size.Load()
	w := recovery{log: l, segment: s, end: from, recoveryPoint: recoveryPoint,
		built: indexBuilder{indexer: newIndexer(s.base), base: s.base}, interval: l.config().IndexIntervalBytes, epoch: -1}
	if size > 0 {
		if err := w.walk(size); err != nil {
			return 0, false, err
		}
	}
	w.built.addTime()
	if err := s.adoptIndexes(&w.built, writeChanged); err != nil {
		return 0, false, err
	}
	s.indexDirty = true
	s.txnsChecked.Store(true)
	return w.end, w.pos == size, nil
}

// writeChanged spares idle logs the writing of what their index files hold already. Nothing is synced: until the
// recovery point passes the segment it is walked again.
func writeChanged(fs vfs.FS, name string, data []byte) error {
	if old, err := readFile(fs, name); err == nil && string(old) == string(data) {
		return nil
	}
	return writeFile(fs, name, data, false)
}

// recovery is the walk of one segment.
type recovery struct {
	log           *Log
	segment       *segment
	end           int64 // offset after the last whole batch
	pos           int64 // position after it
	recoveryPoint int64
	built         indexBuilder
	interval      int32
	epoch         int32 // of the last batch
	buf           []byte
}

// walk takes in the whole batches and cuts the file behind the last.
func (w *recovery) walk(size int64) error {
	o, err := w.segment.openData()
	if err != nil {
		return err
	}
	defer o.release()
	var bad error
	err = walkHeaders(o, 0, size, func(pos int64, h batch.Batch) bool {
		bad = w.take(o, pos, h)
		return bad == nil
	})
	if bad == nil {
		bad = err
	}
	if bad == nil {
		return nil
	}
	if !errors.Is(bad, ErrCorrupt) {
		return bad
	}
	return w.cut(o, size, bad)
}

// take checks a batch and makes it part of the log, or tells why it is not.
func (w *recovery) take(o *openFile, pos int64, h batch.Batch) error {
	size, _ := batchSize(h)
	if err := errors.Join(w.checkOrder(h), w.checkGap(o, pos+size, h)); err != nil {
		return err
	}
	if h.LastOffset() >= w.recoveryPoint || h.Control() {
		b, err := readBatch(o, pos, size, w.buf)
		if err != nil {
			return err
		}
		w.buf = b
		if !b.ChecksumOK() {
			return fmt.Errorf("%w: bad checksum at position %d", ErrCorrupt, pos)
		}
		h = b
	}
	w.built.add(h.LastOffset(), h.MaxTimestamp(), pos, size, w.interval)
	w.end, w.pos, w.epoch = h.LastOffset()+1, pos+size, h.PartitionLeaderEpoch()
	if w.epoch > w.log.epochs.latest() {
		w.log.epochs.assign(w.epoch, h.BaseOffset())
	}
	if h.LastOffset() < w.log.start.Load() {
		return nil // deleted records say nothing of producers, as when the state is reloaded
	}
	if aborted, ok := w.log.producers.update(h); ok {
		return w.segment.txns.append(aborted)
	}
	return nil
}

// checkOrder refuses batches that cannot follow what precedes them: those are bytes of an older log in the same
// file, which a crash brought back.
func (w *recovery) checkOrder(h batch.Batch) error {
	switch {
	case h.BaseOffset() < w.end:
		return fmt.Errorf("%w: batch at offset %d where %d was due", ErrCorrupt, h.BaseOffset(), w.end)
	case h.LastOffset()-w.segment.base > maxRelativeOffset:
		return fmt.Errorf("%w: offset %d does not fit its segment", ErrCorrupt, h.LastOffset())
	case h.PartitionLeaderEpoch() < w.epoch:
		return fmt.Errorf("%w: leader epoch %d after %d", ErrCorrupt, h.PartitionLeaderEpoch(), w.epoch)
	}
	return nil
}

// checkGap refuses a batch behind a gap when the batch after it, which begins at next, lies in the gap: the offset of
// the former is damaged then, which no checksum covers.
func (w *recovery) checkGap(o *openFile, next int64, h batch.Batch) error {
	if h.BaseOffset() <= w.end || next+headerBytes > w.segment.size.Load() {
		return nil
	}
	after := make(batch.Batch, headerBytes)
	if _, err := o.ReadAt(after, next); err != nil {
		return err
	}
	if _, ok := batchSize(after); ok && after.BaseOffset() <= h.LastOffset() {
		return fmt.Errorf("%w: batch at offset %d where %d was due, before one at %d", ErrCorrupt, h.BaseOffset(), w.end, after.BaseOffset())
	}
	return nil
}

// cut truncates the file behind the last whole batch. Damage below the recovery point is no crash's work: it is
// reported as an error, and what follows it is kept aside rather than destroyed.
func (w *recovery) cut(o *openFile, size int64, why error) error {
	log := w.log.store.o.Log
	if w.end < w.recoveryPoint {
		log.Error().Str("log", w.log.id.String()).Int64("segment", w.segment.base).Int64("offset", w.end).Err(why).
			Msg("log is damaged below its recovery point: synced records are lost")
		if err := w.keepAside(o, size); err != nil {
			return err
		}
	} else {
		log.Info().Str("log", w.log.id.String()).Int64("segment", w.segment.base).Int64("offset", w.end).
			Int64("bytes", size-w.pos).Err(why).Msg("cutting the tail that a crash left")
	}
	w.segment.size.Store(w.pos)
	if err := o.Truncate(w.pos); err != nil {
		return err
	}
	return o.Sync()
}

// damagedSuffix names a copy of the bytes behind a damaged place, for whoever wants to look for records in them.
const damagedSuffix = ".damaged"

func (w *recovery) keepAside(o *openFile, size int64) error {
	name := w.segment.path(logSuffix) + damagedSuffix
	fs := w.log.store.o.FS
	if err := writeFile(fs, name, nil, false); err != nil {
		return err
	}
	f, err := fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(f, 0), io.NewSectionReader(o, w.pos, size-w.pos))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
