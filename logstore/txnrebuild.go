package logstore

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"

	"grete/protocol/batch"
)

// checkTxnIndexes rebuilds transaction indexes that are garbled or emptied: Kafka and we create one only to put an
// entry in.
func (l *Log) checkTxnIndexes() error {
	segments := l.segments()
	for i, s := range segments {
		info, err := l.store.o.FS.Stat(s.path(txnIndexSuffix))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Size() > 0 && info.Size()%txnEntryBytes == 0 {
			if err = s.txns.sanityCheck(l.limitOf(segments, i)); err == nil {
				s.txnsChecked.Store(true)
				continue
			}
			if !errors.Is(err, ErrCorrupt) {
				return err
			}
		}
		l.store.o.Log.Warn().Str("log", l.id.String()).Int64("segment", s.base).AnErr("why", err).Msg("rebuilding a transaction index")
		if err := l.rebuildTxnIndex(s); err != nil {
			return err
		}
	}
	return nil
}

// limitOf is an offset that no batch of segment i reaches.
func (l *Log) limitOf(segments []*segment, i int) int64 {
	if i+1 < len(segments) {
		return segments[i+1].base
	}
	return l.EndOffset()
}

// rebuildTxnIndex replays the segment on the producer state of its base.
func (l *Log) rebuildTxnIndex(s *segment) error {
	if err := s.txns.reset(); err != nil {
		return err
	}
	state := newProducerState(l.store.o.FS, *l.path.Load())
	offsets, err := state.snapshotOffsets()
	if err != nil {
		return err
	}
	offsets = slices.DeleteFunc(offsets, func(o int64) bool { return o > s.base || o <= l.StartOffset() })
	if err := state.loadNewest(offsets, l.StartOffset(), 0, math.MaxInt64); err != nil {
		return err
	}
	var failed error
	err = l.replay(state.end, s.base+s.lastRelative(), func(in *segment, b batch.Batch) {
		if aborted, ok := state.update(b); ok && in == s && failed == nil {
			failed = s.txns.append(aborted)
		}
	})
	if err := errors.Join(err, failed, s.txns.sync()); err != nil {
		return err
	}
	s.txnsChecked.Store(true)
	return l.dropEmptyTxnIndex(s)
}

// lastRelative is above every offset of the segment, relative to its base.
func (s *segment) lastRelative() int64 { return maxRelativeOffset + 1 }

func (l *Log) dropEmptyTxnIndex(s *segment) error {
	if n, err := s.txns.entries(); err != nil || n > 0 {
		return err
	}
	s.txns.forget()
	return removeIfExists(l.store.o.FS, s.path(txnIndexSuffix))
}

// findTxnIndex rebuilds the transaction index of a segment whose file is missing although transactions ended about
// there. Readers that need aborted transactions call it once a segment.
func (l *Log) findTxnIndex(s *segment) error {
	if s.txnsChecked.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.findTxnIndexHolding(s)
}

// findTxnIndexHolding is findTxnIndex for callers that hold Log.mu.
func (l *Log) findTxnIndexHolding(s *segment) error {
	if s.txnsChecked.Load() {
		return nil
	}
	if n, err := s.txns.entries(); err != nil || n > 0 || !l.mayHoldMarkers(s) {
		s.txnsChecked.Store(err == nil)
		return err
	}
	return l.rebuildTxnIndex(s)
}

// mayHoldMarkers asks the producer state at the segment's end whether any producer ever ended a transaction. Without a
// snapshot of it, and where a producer that did may have expired before it was taken, the answer is yes.
func (l *Log) mayHoldMarkers(s *segment) bool {
	segments := l.segments()
	i := slices.Index(segments, s)
	if i < 0 {
		return false
	}
	if l.outlivesProducers(segments, i) {
		return true
	}
	ended := func(e *producerEntry) bool { return e.coordinatorEpoch >= 0 }
	if i == len(segments)-1 {
		return slices.ContainsFunc(slices.Collect(maps.Values(l.producers.producers)), ended)
	}
	data, err := readFile(l.store.o.FS, segments[i+1].snapshotPath())
	if err != nil {
		return true
	}
	entries, err := decodeSnapshot(data)
	return err != nil || slices.ContainsFunc(entries, ended)
}

// outlivesProducers: from the segment's first batch to the next segment's, or to now, a silent producer may have expired.
func (l *Log) outlivesProducers(segments []*segment, i int) bool {
	first, err := segments[i].firstTimestampMs()
	if err != nil {
		return true
	}
	end := l.nowMs()
	if i+1 < len(segments) {
		next, err := segments[i+1].firstTimestampMs()
		if err != nil {
			return true
		}
		if next >= 0 {
			end = next
		}
	}
	return end-first >= l.config().ProducerIDExpirationMs
}
