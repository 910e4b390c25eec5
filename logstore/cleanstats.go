package logstore

import (
	"time"

	"grete/internal/clock"
)

// recentCleans bounds the compactions that the figures are of.
const recentCleans = 16

// cleanerStats is what CleanerStats shows; cleaner.mu.
type cleanerStats struct {
	lastRun    time.Time
	maxRatio   float64
	maxOverdue int64
	recent     []cleanStats // the newest last
}

// begin forgets what the last look at the logs found.
func (s *cleanerStats) begin(now time.Time) { s.lastRun, s.maxRatio, s.maxOverdue = now, 0, 0 }

func (s *cleanerStats) seen(r *cleanRange) {
	s.maxRatio = max(s.maxRatio, r.ratio())
	s.maxOverdue = max(s.maxOverdue, r.overdueMs)
}

func (s *cleanerStats) add(c cleanStats) {
	if len(s.recent) == recentCleans {
		s.recent = append(s.recent[:0], s.recent[1:]...)
	}
	s.recent = append(s.recent, c)
}

// CleanerStats are the figures of Kafka's LogCleaner and LogCleanerManager. Where Kafka takes the last compaction of
// each thread, these are of as many of the last compactions as there are threads.
type CleanerStats struct {
	MaxBufferUse          float64 // share of the keys that fit
	RecopyRatio           float64 // bytes written by bytes read
	MaxCleanSeconds       float64
	MaxOverdueSeconds     float64 // beyond max.compaction.lag.ms
	MaxDirtyRatio         float64 // of the dirtiest log
	SinceLastRunMs        int64
	UncleanablePartitions map[string]int   // by log directory
	UncleanableBytes      map[string]int64 // by log directory
}

// CleanerStats is the present state.
func (s *Store) CleanerStats() CleanerStats {
	out := s.cleaner.figures()
	out.UncleanablePartitions, out.UncleanableBytes = map[string]int{}, map[string]int64{}
	nowMs := clock.Millis(s.o.Clock)
	for _, d := range s.dirs {
		out.UncleanablePartitions[d.path], out.UncleanableBytes[d.path] = 0, 0
	}
	for _, l := range s.Logs() {
		if !l.uncleanable.Load() {
			continue
		}
		out.UncleanablePartitions[l.dir.path]++
		if r, err := l.cleanRange(nowMs); err == nil {
			out.UncleanableBytes[l.dir.path] += r.dirtyBytes
		}
	}
	return out
}

func (c *cleaner) figures() CleanerStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := CleanerStats{
		MaxOverdueSeconds: float64(c.stats.maxOverdue) / 1000, MaxDirtyRatio: c.stats.maxRatio,
		SinceLastRunMs: c.store.o.Clock.Now().Sub(c.stats.lastRun).Milliseconds(),
	}
	var read, written int64
	recent := c.stats.recent
	for _, s := range recent[max(len(recent)-c.cfg.Load().Threads, 0):] {
		out.MaxBufferUse = max(out.MaxBufferUse, s.BufferUse)
		out.MaxCleanSeconds = max(out.MaxCleanSeconds, float64(s.DurationMs)/1000)
		read, written = read+s.BytesRead, written+s.BytesWritten
	}
	out.RecopyRatio = float64(written) / float64(max(read, 1))
	return out
}
