package logstore

import (
	"errors"

	"grete/internal/sched"
	"grete/protocol/batch"
)

// noteProducer lets the producer state see a batch that was written to seg. What cannot be noted in the
// transaction index would be served as committed: the directory goes offline rather.
func (l *Log) noteProducer(seg *segment, b batch.Batch) {
	aborted, ok := l.producers.update(b)
	if ok {
		seg.indexDirty = true
		if err := seg.txns.append(aborted); err != nil {
			l.dir.fail(err)
		}
	}
	if b.Transactional() {
		l.advanceUnstable()
	}
}

// reserveAborted makes room in the transaction index for the abort markers among batches that are about to be written,
// so that only a broken disk keeps their entries from being written. Where they are the first since the segment was
// loaded, and what the file had is missing, that is found before: the new entries would hide the loss.
func (l *Log) reserveAborted(seg *segment, raw []byte) error {
	aborts := 0
	for len(raw) > 0 {
		size, _ := batchSize(raw)
		if b := batch.Batch(raw[:size]); b.Control() {
			if marker, err := parseEndMarker(b); err == nil && !marker.commit {
				aborts++
			}
		}
		raw = raw[size:]
	}
	if aborts == 0 {
		return nil
	}
	if err := l.checkTxnIndexHolding(seg); err != nil {
		return err
	}
	return seg.txns.reserve(aborts)
}

// advanceUnstable publishes the first unstable offset. Callers hold mu.
func (l *Log) advanceUnstable() {
	if l.producersStale {
		return // what was published of the longer log is at most too small
	}
	l.producers.onHighWatermark(l.highWatermark.Load())
	first := l.producers.firstUnstable()
	if first < 0 {
		first = noUnstable
	}
	sched.Yield()
	l.firstUnstable.Store(first)
}

// producersStartAt follows a raised log start. Callers hold mu.
func (l *Log) producersStartAt(offset int64) {
	l.producers.onLogStart(offset)
	l.advanceUnstable()
}

// snapshotProducers writes the producer state as of end. Callers hold mu.
func (l *Log) snapshotProducers(end int64) error {
	l.producers.end = max(l.producers.end, end) // the log may end above the last batch it holds
	return l.producers.takeSnapshot(false)
}

// rebuildProducers makes the producer state that of the log up to end: the newest sound snapshot, and the batch
// headers after it.
func (l *Log) rebuildProducers(end int64) error {
	p := &l.producers
	if err := p.reload(l.StartOffset(), end, l.nowMs(), l.config().ProducerIDExpirationMs); err != nil {
		return err
	}
	if err := l.replay(p.end, end, func(_ *segment, b batch.Batch) { p.update(b) }); err != nil {
		return err
	}
	p.end = end
	l.advanceUnstable()
	return nil
}

// replay calls see with the header of every batch in [from, end), and with the whole of control batches, whose
// records matter.
func (l *Log) replay(from, end int64, see func(s *segment, b batch.Batch)) error {
	segments := l.segments()
	for i, s := range segments {
		if i+1 < len(segments) && segments[i+1].base <= from || s.base >= end || s.size.Load() == 0 {
			continue
		}
		if err := s.replay(from, end, see); err != nil {
			return err
		}
	}
	return nil
}

func (s *segment) replay(from, end int64, see func(s *segment, b batch.Batch)) error {
	o, err := s.openData()
	if err != nil {
		return err
	}
	defer o.release()
	start := int64(0)
	if from > s.base {
		if start, err = s.positionNear(from); err != nil {
			return err
		}
	}
	var inner error
	var buf []byte
	err = walkHeaders(o, start, s.size.Load(), func(pos int64, h batch.Batch) bool {
		if h.LastOffset() < from {
			return true
		}
		if h.BaseOffset() >= end {
			return false
		}
		if h.Control() {
			size, _ := batchSize(h)
			if h, inner = readBatch(o, pos, size, buf); inner != nil {
				return false
			}
			buf = h
		}
		see(s, h)
		return true
	})
	if errors.Is(err, ErrCorrupt) { // damage is found and told elsewhere; what precedes it was seen
		err = nil
	}
	return errors.Join(err, inner)
}

// positionNear is a position at or before offset; the start where the index does not help, or contradicts the log.
func (s *segment) positionNear(offset int64) (int64, error) {
	e, some, err := s.floorEntry(offset)
	if err == nil && some {
		err = s.verify(e)
	}
	if errors.Is(err, errIndexSuspicious) || err == nil && !some {
		return 0, nil
	}
	return int64(e.pos), err
}

// abortedTxns collects the aborted transactions that a span from offset to position end of segment i overlaps.
func (r *reader) abortedTxns(i int, offset, end int64) ([]AbortedTxn, error) {
	bound, err := r.upperBound(i, end)
	if err != nil {
		return nil, err
	}
	return r.log.collectAborted(r.segments[i:], offset, bound)
}

// upperBound is an offset that no batch before position end of segment i reaches
// (LocalLog.collectAbortedTransactions). Without a sound index it is only further away.
func (r *reader) upperBound(i int, end int64) (int64, error) {
	s := r.segments[i]
	e, some, err := s.entryFrom(end)
	if err == nil && some {
		return s.base + int64(e.relative), nil
	}
	if err != nil && !errors.Is(err, errIndexSuspicious) {
		return 0, err
	}
	if i+1 < len(r.segments) {
		return r.segments[i+1].base, nil
	}
	return r.tail.end, nil
}
