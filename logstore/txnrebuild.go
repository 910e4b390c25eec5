package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"

	"grete/protocol/batch"
)

// checkTxnIndexes rebuilds transaction indexes that are garbled or emptied: Kafka and we create one only to put an
// entry in. What looks sane is believed after a clean stop; after any other, readers hold it against the log first.
func (l *Log) checkTxnIndexes(clean bool) error {
	segments := l.segments()
	for i, s := range segments {
		if s.txnsChecked.Load() {
			continue
		}
		info, err := l.store.o.FS.Stat(s.path(txnIndexSuffix))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Size() > 0 && info.Size()%txnEntryBytes == 0 {
			if err = s.txns.sanityCheck(l.limitOf(segments, i)); err == nil {
				s.txnsChecked.Store(clean)
				continue
			}
			if !errors.Is(err, ErrCorrupt) {
				return err
			}
		}
		if err := l.verifyTxnIndex(s, err); err != nil {
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

// errStaleView: a segment of an older view of the log is no longer part of it, and what is missing of it cannot be
// found again.
var errStaleView = errors.New("segment was removed or replaced")

// checkTxnIndex makes sure, once a segment, that its transaction index says what the log says. Readers call it before
// they believe the index; they hold no lock.
func (l *Log) checkTxnIndex(s *segment) error {
	if s.txnsChecked.Load() {
		return nil
	}
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	i := slices.Index(l.segments(), s)
	if i < 0 && !s.txnsChecked.Load() {
		l.mu.Unlock()
		return fmt.Errorf("%w: segment %d", errStaleView, s.base)
	}
	if s == l.active() {
		defer l.mu.Unlock()
		return l.checkTxnIndexHolding(s)
	}
	l.mu.Unlock() // nothing is appended to it: appends go on meanwhile
	return l.checkTxnIndexHolding(s)
}

// checkTxnIndexHolding is for callers that hold Log.mu when the segment is active, and Log.reshape else.
func (l *Log) checkTxnIndexHolding(s *segment) error {
	if s.txnsChecked.Load() {
		return nil
	}
	n, err := s.txns.entries()
	if err != nil {
		return err
	}
	if n == 0 && !l.mayHoldMarkers(s) {
		s.txnsChecked.Store(true)
		return nil
	}
	return l.verifyTxnIndex(s, nil)
}

// verifyTxnIndex compares the index with the log, and writes it anew unless they agree; why says what is known to be
// wrong already.
func (l *Log) verifyTxnIndex(s *segment, why error) error {
	want, err := l.abortedIn(s)
	if err != nil {
		return err
	}
	have, err := s.txns.all()
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	if err != nil || !slices.Equal(have, want) {
		if s.base >= l.cleaned.Load() { // of a compacted log the first records of a transaction may be gone
			l.store.o.Log.Warn().Str("log", l.id.String()).Int64("segment", s.base).AnErr("why", why).
				Int("found", len(have)).Int("entries", len(want)).Msg("rebuilding a transaction index")
		}
		if err := s.txns.replace(want); err != nil {
			return err
		}
	}
	s.txnsChecked.Store(true)
	return nil
}

// abortedIn finds the transactions that markers in the segment aborted: it replays the log on the newest sound producer
// state up to the segment's base.
func (l *Log) abortedIn(s *segment) ([]AbortedTxn, error) {
	state := newProducerState(l.store.o.FS, *l.path.Load())
	offsets, err := state.snapshotOffsets()
	if err != nil {
		return nil, err
	}
	offsets = slices.DeleteFunc(offsets, func(o int64) bool { return o > s.base || o <= l.StartOffset() })
	if err := state.loadNewest(offsets, l.StartOffset(), 0, math.MaxInt64); err != nil {
		return nil, err
	}
	var all []AbortedTxn
	err = l.replay(state.end, s.base+maxRelativeOffset+1, func(in *segment, b batch.Batch) {
		if aborted, ok := state.update(b); ok && in == s {
			all = append(all, aborted)
		}
	})
	return all, err
}

// mayHoldMarkers asks the producer state at the segment's end whether any producer ever ended a transaction. Without a
// snapshot of it, and where a producer that did may have expired before it was taken, the answer is yes.
func (l *Log) mayHoldMarkers(s *segment) bool {
	segments := l.segments()
	i := slices.Index(segments, s)
	if i < 0 || l.producersStale || l.outlivesProducers(segments, i) {
		return true
	}
	ended := func(e *producerEntry) bool { return e.coordinatorEpoch >= 0 }
	if i == len(segments)-1 {
		return slices.ContainsFunc(slices.Collect(maps.Values(l.producers.producers)), ended)
	}
	entries, err := segments[i+1].producersAtBase()
	return err != nil || slices.ContainsFunc(entries, ended)
}

// outlivesProducers: from the segment's first batch to the next segment's, or to now, a silent producer may have
// expired.
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

// producersAtBase reads the snapshot of the producer state at the segment's base.
func (s *segment) producersAtBase() ([]*producerEntry, error) {
	data, err := readFile(s.log.store.o.FS, s.snapshotPath())
	if err != nil {
		return nil, err
	}
	return decodeSnapshot(data)
}

// values of segment.openAtEnd that are no offsets
const (
	openUnread  = -1 // nobody looked yet
	openUnknown = -2 // no sound snapshot says
	openNone    = math.MaxInt64
)

// firstOpenAtEnd is the first offset of the transactions that are open where segment i ends, or openUnknown. Later
// segments abort only those, and what begins in them.
func firstOpenAtEnd(segments []*segment, i int) int64 {
	s := segments[i]
	if open := s.openAtEnd.Load(); open != openUnread {
		return open
	}
	if i+1 == len(segments) {
		return openUnknown
	}
	open := int64(openNone)
	entries, err := segments[i+1].producersAtBase()
	if err != nil {
		open = openUnknown
	}
	for _, e := range entries {
		if e.txnFirstOffset >= 0 {
			open = min(open, e.txnFirstOffset)
		}
	}
	s.openAtEnd.Store(open)
	return open
}

// collectAborted returns the aborted transactions that overlap [from, bound), whatever segment from the first of
// segments on their markers are in.
func (l *Log) collectAborted(segments []*segment, from, bound int64) ([]AbortedTxn, error) {
	txns := []AbortedTxn{}
	for i, s := range segments {
		if err := l.checkTxnIndex(s); err != nil {
			return nil, err
		}
		var done bool
		var err error
		txns, done, err = s.txns.collect(txns, from, bound)
		if errors.Is(err, fs.ErrNotExist) && s.deleted.Load() {
			err = nil
		}
		if err != nil || done {
			return txns, err
		}
		if i+1 < len(segments) && segments[i+1].base >= bound && firstOpenAtEnd(segments, i) >= bound {
			return txns, nil
		}
	}
	return txns, nil
}
