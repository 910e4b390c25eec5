package logstore

import (
	"errors"
	"fmt"

	"grete/protocol/batch"
)

// cleanPass compacts one log once: it maps the keys of the dirty part, as many as fit, and writes the log anew up to
// where the map reaches (Kafka's Cleaner).
type cleanPass struct {
	*cleanTools
	log    *Log
	r      *cleanRange
	cfg    *CleanerConfig
	nowMs  int64
	reader batchReader
	// proceed is called after n bytes of IO: it waits for the throttle, and its error ends the pass.
	proceed func(n int) error
	stats   cleanStats
}

// cleanStats is what one compaction of a log did.
type cleanStats struct {
	From, To                    int64 // [From, To) was compacted for the first time
	BytesMapped                 int64 // read to map the keys
	BytesRead, BytesWritten     int64
	RecordsRead, RecordsWritten int64
	KeylessRecords              int64 // dropped: a compacted topic cannot have them
	BufferUse                   float64
	DurationMs                  int64
}

// run returns the first offset that is not compacted.
func (p *cleanPass) run() (int64, error) {
	if err := p.mapKeys(); err != nil {
		return 0, err
	}
	end := p.keys.latest + 1
	if end <= p.r.dirty {
		return 0, p.log.fault("compact", p.r.dirty, fmt.Errorf("%w: no offset is in the map", ErrCorrupt))
	}
	p.stats.From, p.stats.To = p.r.dirty, end
	p.stats.BufferUse = float64(p.keys.keys) / float64(p.cfg.maxKeys())
	groups := p.r.groups(end)
	first := p.r.segments[0].base
	aborted, err := p.log.abortedBetween(p.r.segments, first, p.r.end)
	if err != nil {
		return 0, err
	}
	txns := newCleanedTxns(aborted)
	for _, group := range groups {
		if err := p.cleanGroup(group, txns); err != nil {
			return 0, err
		}
	}
	return end, nil
}

// mapKeys notes the last offset of each key from the first dirty offset on, until the map is full or the range ends.
// What transactions aborted does not count.
func (p *cleanPass) mapKeys() error {
	dirty := p.r.segments[p.r.segmentOf(p.r.dirty):]
	aborted, err := p.log.abortedBetween(dirty, p.r.dirty, p.r.end)
	if err != nil {
		return err
	}
	txns := newCleanedTxns(aborted)
	for i, s := range dirty {
		if s.base >= p.r.end {
			return nil
		}
		full, err := p.mapSegment(s, txns)
		if err != nil || full {
			return err
		}
		p.keys.latest = dirty[i+1].base - 1 // the last offsets of a segment may have been compacted away before
	}
	return nil
}

// mapSegment tells whether the map became full.
func (p *cleanPass) mapSegment(s *segment, txns *cleanedTxns) (full bool, err error) {
	from := int64(0)
	if p.r.dirty > s.base {
		if from, err = s.positionNear(p.r.dirty); err != nil {
			return false, err
		}
	}
	o, err := s.openData()
	if err != nil {
		return false, err
	}
	defer o.release()
	p.reader.read = func(n int) error {
		p.stats.BytesMapped += int64(n)
		return p.proceed(n)
	}
	err = p.reader.each(o, from, s.size.Load(), func(b batch.Batch) error {
		return p.mapBatch(b, txns)
	})
	if err == errMapFull {
		return true, nil
	}
	return false, err
}

// errMapFull ends the reading of a segment.
var errMapFull = fmt.Errorf("the map of keys is full")

func (p *cleanPass) mapBatch(b batch.Batch, txns *cleanedTxns) error {
	switch {
	case b.Control():
		txns.control(b)
	case txns.data(b):
	default:
		fits := true
		err := b.EachKey(p.cfg.MaxHeldBytes, func(offset int64, key []byte) bool {
			fits = key == nil || offset < p.r.dirty || p.keys.put(key, offset)
			return fits
		})
		if err != nil {
			return p.unreadable(b, err)
		}
		if !fits {
			return errMapFull
		}
	}
	if b.LastOffset() >= p.r.dirty {
		p.keys.latest = b.LastOffset()
	}
	return nil
}

// unreadable is what the records of b could not be read for.
func (p *cleanPass) unreadable(b batch.Batch, err error) error {
	if errors.Is(err, batch.ErrInflates) {
		return fmt.Errorf("batch at offset %d: %w (%d bytes)", b.BaseOffset(), err, p.cfg.MaxHeldBytes)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// cleanGroup writes what is left of a group of segments and swaps it in.
func (p *cleanPass) cleanGroup(group []*segment, txns *cleanedTxns) (err error) {
	w, err := p.log.newCleanedWriter(group[0].base, p.cfg.bufferBytes(), p.out, func(n int) error {
		p.stats.BytesWritten += int64(n)
		return p.proceed(n)
	})
	if err != nil {
		return &writeError{err}
	}
	defer func() {
		p.out = w.out
		if e := w.close(); e != nil && err == nil {
			err = &writeError{e}
		}
	}()
	g := groupPass{cleanPass: p, w: w, txns: txns}
	if g.last, err = p.log.lastOfProducers(); err != nil {
		return err
	}
	for _, s := range group {
		if err := g.cleanSegment(s); err != nil {
			return err
		}
	}
	if err := w.finish(txns.takeRetained()); err != nil {
		return err
	}
	return p.log.swapIn(p.r, group, w.segment)
}

// groupPass is the writing of one group.
type groupPass struct {
	*cleanPass
	w    *cleanedWriter
	txns *cleanedTxns
	last map[int64]lastOfProducer
}

func (g *groupPass) cleanSegment(s *segment) error {
	o, err := s.openData()
	if err != nil {
		return err
	}
	defer o.release()
	g.reader.read = func(n int) error {
		g.stats.BytesRead += int64(n)
		return g.proceed(n)
	}
	return g.reader.each(o, 0, s.size.Load(), g.cleanBatch)
}

// cleanBatch appends what is left of b to the new segment.
func (g *groupPass) cleanBatch(b batch.Batch) error {
	decided := false // data of an aborted transaction, or a marker without data
	if b.Control() {
		decided = g.txns.control(b)
	} else {
		decided = g.txns.data(b)
	}
	horizonMs, has := b.DeleteHorizonMs()
	expired := has && g.nowMs >= horizonMs
	discard := decided && (!b.Control() || expired)
	policy := batch.FilterPolicy{
		KeepEmpty:    g.isLastOfProducer(b) || b.LastOffset()+1 == g.r.end,
		HorizonMs:    g.nowMs + g.log.config().DeleteRetentionMs,
		StartHorizon: decided && b.Control(),
		Keep: func(offset int64, key []byte, tombstone bool) bool {
			return !discard && (b.Control() || g.keep(offset, key, tombstone && expired))
		},
	}
	at := len(g.w.out)
	out, counts, err := g.filter.Append(g.w.out, b, policy)
	if err != nil {
		return g.unreadable(b, err)
	}
	g.w.out = out
	g.stats.RecordsRead += int64(counts.Read)
	g.stats.RecordsWritten += int64(counts.Kept)
	return g.w.added(at)
}

// keep tells whether a record is the last of its key, as far as the map knows, and no tombstone that may go.
func (g *groupPass) keep(offset int64, key []byte, expired bool) bool {
	if offset > g.keys.latest {
		return true
	}
	if key == nil {
		g.stats.KeylessRecords++
		return false
	}
	return !expired && offset >= g.keys.get(key)
}

// lastOfProducer is what must be left in the log of a producer that the log remembers: the batch with its last
// sequence, or the marker with its epoch.
type lastOfProducer struct {
	offset int64 // of its last data, -1 when its epoch has none
	epoch  int16
}

func (l *Log) lastOfProducers() (map[int64]lastOfProducer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable("compact"); err != nil {
		return nil, err
	}
	last := make(map[int64]lastOfProducer, len(l.producers.producers))
	for id, e := range l.producers.producers {
		p := lastOfProducer{-1, e.epoch}
		if b := e.lastBatch(); b != nil {
			p.offset = b.lastOffset
		}
		last[id] = p
	}
	return last, nil
}

func (g *groupPass) isLastOfProducer(b batch.Batch) bool {
	if b.ProducerID() <= batch.NoProducerID {
		return false
	}
	last, ok := g.last[b.ProducerID()]
	if !ok {
		return false
	}
	if last.offset >= 0 {
		return b.LastOffset() == last.offset
	}
	return b.Control() && b.ProducerEpoch() == last.epoch
}
