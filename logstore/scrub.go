package logstore

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// ScrubConfig is how often, and how fast, what lies on disk is read to see whether it is still what was written. Kafka
// has no such thing.
type ScrubConfig struct {
	Interval          time.Duration // log.scrub.interval.ms; 0: never
	MaxBytesPerSecond float64       // log.scrub.io.max.bytes.per.second
	Skip              func(ID) bool // logs that others look after; nil: none
}

const (
	// firstScrub is the longest time from a start to the first round: brokers that restart often shall be read, too.
	firstScrub      = time.Hour
	scrubChunkBytes = 256 << 10
)

// scrubber reads closed segments below the recovery point, one after another, and remembers where they are damaged.
// What is above is read by recovery, and what is written last is the likeliest to be read by consumers.
type scrubber struct {
	store    *Store
	throttle throttle
	buf      []byte
	bytes    atomic.Int64 // read so far
}

// run is a goroutine of the store's.
func (x *scrubber) run() {
	wait := min(x.store.o.Scrub.Interval, firstScrub)
	for sleep(x.store.o.Clock, wait, x.store.stop) {
		x.round()
		wait = x.store.o.Scrub.Interval
	}
}

// round reads everything once.
func (x *scrubber) round() {
	x.buf = make([]byte, scrubChunkBytes)
	logs := x.store.Logs()
	slices.SortFunc(logs, func(a, b *Log) int { return strings.Compare(a.id.String(), b.id.String()) })
	for _, l := range logs {
		if skip := x.store.o.Scrub.Skip; skip != nil && skip(l.id) {
			continue
		}
		for _, s := range l.settled() {
			if !x.pay(0) {
				return
			}
			x.scrub(l, s)
		}
	}
}

// settled are the closed segments that are synced.
func (l *Log) settled() []*segment {
	segments, recovery := l.segments(), l.recovery.Load()
	n := 0
	for n+1 < len(segments) && segments[n+1].base <= recovery {
		n++
	}
	return segments[:n]
}

// pay waits as the rate wants; false: the store stops.
func (x *scrubber) pay(n int) bool {
	x.bytes.Add(int64(n))
	rate := x.store.o.Scrub.MaxBytesPerSecond
	if rate <= 0 {
		rate = 1
	}
	return x.throttle.wait(n, rate, x.store.stop)
}

// scrub reads a segment, notes its damage, and tells of it in every round until it is gone.
func (x *scrubber) scrub(l *Log, s *segment) {
	if l.dir.offlineError() != nil || l.deleted.Load() || s.deleted.Load() {
		return
	}
	truncations := l.truncationsNow()
	found, err := x.check(l, s)
	if err != nil {
		if !errors.Is(err, errCheckEnded) {
			x.store.o.Log.Warn().Str("log", l.id.String()).Int64("segment", s.base).Err(err).Msg("a segment cannot be checked")
		}
		return
	}
	known := len(s.damage())
	if len(found) == 0 && known == 0 || !l.confirmDamage(s, found, truncations) {
		return
	}
	for _, d := range s.damage() {
		if known != len(found) {
			x.store.o.Log.Error().Str("log", l.id.String()).Int64("segment", s.base).Int64("offset", d.from).Int64("to", d.to).Err(d.err).
				Msg("the log is damaged on disk")
		}
		if x.store.o.OnDamage != nil && d.to > l.StartOffset() {
			x.store.o.OnDamage(Damage{Log: l, From: max(d.from, l.StartOffset()), To: d.to, Err: d.err})
		}
	}
}

// check finds the damaged spans of a segment.
func (x *scrubber) check(l *Log, s *segment) (spans []damagedSpan, err error) {
	o, err := s.openData()
	if err != nil {
		return nil, err
	}
	defer o.release()
	c := checker{file: o, end: s.size.Load(), endOffset: l.endOf(s), buf: x.buf, pay: x.pay}
	before := damagedSpan{pos: -1} // the last good batch, if there is a gap before it
	for pos, next := int64(0), s.base; pos < c.end; {
		h, size, bad := c.batch(pos, next)
		if errors.Is(bad, errCheckEnded) {
			return nil, bad
		}
		if bad == nil {
			before.pos = -1
			if h.BaseOffset() > next {
				before = damagedSpan{pos: pos, from: next}
			}
			pos, next = pos+size, h.LastOffset()+1
			continue
		}
		d := damagedSpan{pos: pos, from: next, err: bad}
		if errors.Is(bad, errOverlap) && before.pos >= 0 {
			d.pos, d.from = before.pos, before.from // it was that one whose offset has become larger
		}
		if err := c.resync(s, &d); err != nil {
			return nil, err
		}
		if len(spans)+1 == maxDamagedSpans {
			d.end, d.to = c.end, c.endOffset
		}
		spans = append(spans, d)
		pos, next, before.pos = d.end, d.to, -1
	}
	return spans, nil
}

// resync finds the first good batch behind a damaged one: right behind it if its length can be believed, else where the
// index has one; else there is none in the segment.
func (c *checker) resync(s *segment, d *damagedSpan) error {
	at := d.pos
	if h, err := c.header(d.pos); err == nil {
		size, _ := batchSize(h)
		at = d.pos + size
	}
	for at < c.end {
		h, _, err := c.batch(at, d.from+1)
		if err == nil {
			d.end, d.to = at, h.BaseOffset()
			return nil
		}
		if errors.Is(err, errCheckEnded) {
			return err
		}
		entry, some, err := s.entryFrom(max(at, d.pos) + 1)
		if err != nil || !some {
			break // an index that does not fit the damage helps no further
		}
		at = int64(entry.pos)
	}
	d.end, d.to = c.end, c.endOffset
	return nil
}

// endOf is the offset after a closed segment.
func (l *Log) endOf(s *segment) int64 {
	segments := l.segments()
	if i := slices.Index(segments, s); i >= 0 && i+1 < len(segments) {
		return segments[i+1].base
	}
	return l.EndOffset()
}

func (l *Log) truncationsNow() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.truncations
}

// confirmDamage notes what was found, unless the log was truncated since truncations or the segment replaced: that
// looks like damage.
func (l *Log) confirmDamage(s *segment, found []damagedSpan, truncations uint64) bool {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	if !slices.Contains(l.segments(), s) || l.truncationsNow() != truncations {
		return false
	}
	s.setDamage(found)
	return true
}

// ScrubStats are the bytes that were read to look for damage, and the segments that have some.
type ScrubStats struct {
	Bytes           int64
	DamagedSegments int
}

// ScrubStats tells what the scrubber has done and found.
func (s *Store) ScrubStats() ScrubStats {
	stats := ScrubStats{Bytes: s.scrubber.bytes.Load()}
	for _, l := range s.Logs() {
		for _, seg := range l.segments() {
			if len(seg.damage()) > 0 {
				stats.DamagedSegments++
			}
		}
	}
	return stats
}
