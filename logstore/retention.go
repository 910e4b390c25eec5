package logstore

// AdvanceStart raises the start offset (DeleteRecords, retention); segments wholly below it are deleted. The
// checkpoint is written before a file goes: no crash brings back records below the start.
func (l *Log) AdvanceStart(offset int64) error {
	if err := l.raiseStart(offset); err != nil {
		return err
	}
	if err := l.dir.writeCheckpoint(logStartFile); err != nil {
		return l.failed("advance start", offset, err)
	}
	return l.removeBelowStart()
}

// raiseStart never passes the high watermark; an offset at or below the start changes nothing.
func (l *Log) raiseStart(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("advance start"); err != nil {
		return err
	}
	if offset > l.HighWatermark() {
		return l.fault("advance start", offset, ErrOffsetOutOfRange)
	}
	if offset <= l.StartOffset() {
		return nil
	}
	l.start.Store(offset)
	l.epochs.cutStart(offset)
	l.producersStartAt(offset)
	return nil
}

// removeBelowStart deletes the segments whose successor begins at or below the start.
func (l *Log) removeBelowStart() error {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("delete segments"); err != nil {
		return err
	}
	segments := l.segments()
	n := 0
	for n+1 < len(segments) && segments[n+1].base <= l.StartOffset() {
		n++
	}
	if n == 0 {
		return nil
	}
	l.setSegments(segments[n:len(segments):len(segments)])
	if err := l.removeSegments(segments[:n]); err != nil {
		return l.failed("delete segments", segments[0].base, err)
	}
	l.durable.Store(max(l.durable.Load(), segments[n].base))
	l.recovery.Store(max(l.recovery.Load(), segments[n].base))
	return nil
}

// removeSegments renames the files of segments to .deleted in the order given, which decides what a crash can
// leave, and removes them after file.delete.delay.ms.
func (l *Log) removeSegments(segments []*segment) error {
	for _, s := range segments {
		if err := l.removeSegment(s); err != nil {
			return err
		}
		l.entries.made++
	}
	return nil
}

func (l *Log) removeSegment(s *segment) error {
	s.deleted.Store(true)
	if err := s.rename(deletedSuffix); err != nil {
		return err
	}
	if err := removeIfExists(l.store.o.FS, s.snapshotPath()); err != nil {
		return err
	}
	l.removeLater(s)
	return nil
}

// removeLater removes the files of a segment that was renamed aside, after file.delete.delay.ms.
func (l *Log) removeLater(s *segment) {
	l.store.later(l.config().FileDeleteDelayMs, func() {
		if err := s.removeFiles(); err != nil {
			l.store.o.Log.Warn().Str("log", l.id.String()).Err(err).Msg("removing a deleted segment")
		}
	})
}

// retain applies the topic's retention: it raises the start over the expired segments and tells whether
// segments are to be removed (Kafka's UnifiedLog.deleteOldSegments).
func (l *Log) retain(nowMs int64) (bool, error) {
	start, err := l.retentionStart(nowMs)
	if err != nil {
		return false, err
	}
	if start > l.StartOffset() {
		if err := l.rollForRetention(start); err != nil {
			return false, err
		}
		if err := l.raiseStart(start); err != nil {
			return false, err
		}
	}
	segments := l.segments()
	return len(segments) > 1 && segments[1].base <= l.StartOffset(), nil
}

// retentionStart is the end of the segments, from the first on, that are wholly below the high watermark and
// too many bytes, too old, or emptied by compaction.
func (l *Log) retentionStart(nowMs int64) (int64, error) {
	c, segments := l.config(), l.segments()
	if !c.Delete {
		return 0, nil
	}
	excess := l.SizeBytes() - c.RetentionBytes
	start := int64(0)
	for i, s := range segments {
		next := l.EndOffset()
		if i+1 < len(segments) {
			next = segments[i+1].base
		}
		size := s.size.Load()
		if next > l.HighWatermark() || i == len(segments)-1 && size == 0 {
			break
		}
		over := next <= l.StartOffset() || size == 0 || c.RetentionBytes >= 0 && excess-size >= 0
		if !over && c.RetentionMs >= 0 {
			largest, err := l.segmentTimeMs(s)
			if err != nil {
				return 0, err
			}
			over = nowMs-largest > c.RetentionMs
		}
		if !over {
			break
		}
		excess -= size
		start = next
	}
	return start, nil
}

// segmentTimeMs is the largest timestamp, or the file's time where no record has one.
func (l *Log) segmentTimeMs(s *segment) (int64, error) {
	largest, err := s.largestTimestamp()
	if err != nil || largest.timestampMs >= 0 {
		return largest.timestampMs, err
	}
	info, err := l.store.o.FS.Stat(s.path(logSuffix))
	if err != nil {
		return 0, err
	}
	return info.ModTime().UnixMilli(), nil
}

// rollForRetention begins a new segment when even the active one has expired.
func (l *Log) rollForRetention(start int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable("roll"); err != nil {
		return err
	}
	if start != l.EndOffset() || l.active().size.Load() == 0 {
		return nil
	}
	if err := l.openWriter(); err != nil {
		return l.fault("roll", start, err)
	}
	if err := l.roll(start); err != nil {
		return l.failed("roll", start, err)
	}
	return nil
}
