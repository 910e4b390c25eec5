package logstore

import "sort"

// cleanRange is the part of a log that compaction may take now (Kafka's LogToClean): [dirty, end) was never compacted,
// and end is the base of a segment.
type cleanRange struct {
	log        *Log
	segments   []*segment // the log's at the moment
	dirty, end int64
	cleanBytes int64
	dirtyBytes int64
	// overdueMs is by how long a record of [dirty, end) has waited for more than max.compaction.lag.ms.
	overdueMs   int64
	truncations uint64 // Log.truncations at the moment
	// decided is above every marker that decides a transaction of the range.
	decided int64
}

// ratio is the share of bytes that are dirty.
func (r *cleanRange) ratio() float64 {
	total := r.cleanBytes + r.dirtyBytes
	if total == 0 {
		return 0
	}
	return float64(r.dirtyBytes) / float64(total)
}

// due tells whether the log is to be compacted now.
func (r *cleanRange) due() bool {
	return r.dirtyBytes > 0 && (r.overdueMs > 0 || r.ratio() > r.log.config().MinCleanableDirtyRatio)
}

// cleanRange finds it, as of nowMs. It ends before the active segment, before the last stable offset, and before
// records younger than min.compaction.lag.ms (LogCleanerManager.cleanableOffsets).
func (l *Log) cleanRange(nowMs int64) (*cleanRange, error) {
	l.mu.Lock()
	r := &cleanRange{log: l, segments: l.segments(), truncations: l.truncations}
	l.mu.Unlock()
	r.dirty = l.cleaned.Load()
	if r.dirty < l.StartOffset() || r.dirty > l.EndOffset() {
		r.dirty = l.StartOffset()
	}
	active := len(r.segments) - 1
	limit := min(l.LastStableOffset(), r.segments[active].base)
	r.decided = l.HighWatermark()
	young, err := r.firstYoung(nowMs)
	if err != nil {
		return nil, err
	}
	end := min(r.segmentOf(max(min(limit, young), r.dirty)), active)
	r.end = r.segments[end].base
	r.measure(end)
	if r.dirtyBytes > 0 {
		r.overdueMs, err = r.overdue(nowMs, end)
	}
	return r, err
}

// segmentOf is the index of the segment that offset lies in.
func (r *cleanRange) segmentOf(offset int64) int {
	after := sort.Search(len(r.segments), func(i int) bool { return r.segments[i].base > offset })
	return max(after-1, 0)
}

// firstYoung is the base of the first dirty segment with a record younger than min.compaction.lag.ms.
func (r *cleanRange) firstYoung(nowMs int64) (int64, error) {
	active := len(r.segments) - 1
	lagMs := r.log.config().MinCompactionLagMs
	if lagMs <= 0 {
		return r.segments[active].base, nil
	}
	for _, s := range r.segments[r.segmentOf(r.dirty):active] {
		largest, err := s.largestTimestamp()
		if err != nil {
			return 0, err
		}
		if largest.timestampMs > nowMs-lagMs {
			return s.base, nil
		}
	}
	return r.segments[active].base, nil
}

// measure counts bytes; the segment in which the clean part ends counts as both, as in Kafka.
func (r *cleanRange) measure(end int) {
	for i, s := range r.segments[:end] {
		size := s.size.Load()
		if s.base < r.dirty {
			r.cleanBytes += size
		}
		if r.segments[i+1].base > r.dirty {
			r.dirtyBytes += size
		}
	}
}

// overdue looks at the first batches of the dirty segments; where there is no max.compaction.lag.ms at none.
func (r *cleanRange) overdue(nowMs int64, end int) (int64, error) {
	lagMs := r.log.config().MaxCompactionLagMs
	if lagMs > nowMs {
		return 0, nil
	}
	latest := int64(0)
	for _, s := range r.segments[r.segmentOf(r.dirty):end] {
		first, err := s.firstTimestampMs()
		if err != nil {
			return 0, err
		}
		if first > 0 {
			latest = max(latest, nowMs-lagMs-first)
		}
	}
	return latest, nil
}

// groups divides the segments below end into runs that become one segment each: no more bytes together than a segment
// may have of records and of either index, and no offsets too far apart (Cleaner.groupSegmentsBySize).
func (r *cleanRange) groups(end int64) [][]*segment {
	c := r.log.config()
	var groups [][]*segment
	var sum groupSize
	for i, s := range r.segments {
		if s.base >= end {
			break
		}
		last := r.segments[i+1].base - 1 // the active segment is never below end
		if n := len(groups) - 1; n >= 0 && sum.fits(s, c) && (s.size.Load() == 0 || last-groups[n][0].base <= maxRelativeOffset) {
			groups[n] = append(groups[n], s)
		} else {
			groups = append(groups, []*segment{s})
			sum = groupSize{}
		}
		sum.add(s)
	}
	return groups
}

// groupSize is the sum of file sizes of a group.
type groupSize struct{ data, offsets, times int64 }

func (g *groupSize) add(s *segment) {
	g.data += s.size.Load()
	g.offsets += s.offsets.sizeBytes()
	g.times += s.times.sizeBytes()
}

func (g groupSize) fits(s *segment, c *Config) bool {
	g.add(s)
	index := int64(c.SegmentIndexBytes)
	return g.data <= int64(c.SegmentBytes) && g.offsets <= index && g.times <= index
}

func (x *indexFile) sizeBytes() int64 { return int64(x.len() * x.entryBytes) }
