package logstore

import (
	"errors"

	"golang.org/x/sync/errgroup"

	"grete/internal/vfs"
)

// Close flushes, writes checkpoints and the clean-shutdown marks, and unlocks. Logs refuse work from its beginning;
// what their running flushes took on is done before the rest is made durable. More calls answer as the first.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	close(s.stop)
	s.cancelPending()
	s.cleaner.close()
	logs := append(s.Logs(), s.Futures()...)
	for _, l := range logs {
		l.refuse()
	}
	s.background.Wait()
	group := errgroup.Group{}
	for _, d := range s.dirs {
		group.Go(d.close)
	}
	err := group.Wait()
	s.background.Wait()
	s.files.closeAll()
	for _, l := range logs {
		l.leaveCensus()
	}
	return errors.Join(err, s.unlock())
}

func (l *Log) leaveCensus() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.producers.leaveCensus()
}

// refuse ends all use of the log but reads.
func (l *Log) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.stopFlushTimer()
}

func (s *Store) unlock() error {
	var errs error
	for _, d := range s.dirs {
		if d.lock != nil {
			errs = errors.Join(errs, d.lock.Close())
			d.lock = nil
		}
		if d.volume != nil {
			errs = errors.Join(errs, d.volume.Close())
			d.volume = nil
		}
	}
	return errs
}

// close leaves the mark of a clean stop only when every log was closed and every checkpoint written.
func (d *logDir) close() error {
	if d.offlineError() != nil {
		return nil // told when it happened; the next start recovers it
	}
	if err := d.closeLogs(append(d.logs(), d.futures()...)); err != nil {
		return err
	}
	if err := d.writeCheckpoints(); err != nil {
		return err
	}
	return d.putCleanMark()
}

const (
	// closesAtOnce logs of a directory, or num.recovery.threads.per.data.dir if that is more, are closed side by side:
	// they wait for the disk.
	closesAtOnce = 16
	// volumeSyncAt logs that are not durable, their volume is synced as a whole: each has half a dozen files to sync,
	// and this costs as much as a few.
	volumeSyncAt = 64
)

// closeLogs makes everything durable, indexes and producer state included. A log that nothing was written to since it
// was durable has nothing to do.
func (d *logDir) closeLogs(logs []*Log) error {
	works := make([]flushWork, len(logs))
	err := d.sideBySide(len(logs), func(i int) (err error) {
		if works[i], err = logs[i].closing(); err != nil {
			return logs[i].failed("close", -1, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	whole := d.syncVolume(logs, works)
	return d.sideBySide(len(logs), func(i int) error {
		works[i].whole = whole
		return logs[i].closeWith(works[i])
	})
}

func (d *logDir) sideBySide(n int, f func(int) error) error {
	group := errgroup.Group{}
	group.SetLimit(max(d.store.o.RecoveryThreads, closesAtOnce))
	for i := range n {
		group.Go(func() error { return f(i) })
	}
	return group.Wait()
}

// syncVolume syncs the volume where that is cheaper than file by file. After a failure, which may be of another
// program's files, each file is synced, and tells what it lost.
func (d *logDir) syncVolume(logs []*Log, works []flushWork) bool {
	due, epochs := 0, 0
	for _, w := range works {
		if len(w.closedSegments) > 0 {
			due++
		}
		if w.epochs != nil {
			epochs++
		}
	}
	if due < volumeSyncAt || d.volume == nil {
		return false
	}
	if err := d.syncWhole(logs, works, epochs > 0); err != nil {
		d.store.o.Log.Warn().Str("dir", d.path).Err(err).Msg("the volume cannot be synced as a whole")
		return false
	}
	return true
}

// syncWhole syncs the volume with all epoch checkpoints that are due. They are written beside the old ones and durable
// before they take their names, so that a crash leaves the old or the new one; a second sync makes the names durable.
func (d *logDir) syncWhole(logs []*Log, works []flushWork, epochs bool) error {
	of := func(f func(fs vfs.FS, name string, data []byte) error) error {
		return d.sideBySide(len(logs), func(i int) error {
			if works[i].epochs == nil {
				return nil
			}
			return f(d.store.o.FS, logs[i].file(leaderEpochFile), works[i].epochs)
		})
	}
	if err := of(writeBeside); err != nil {
		return err
	}
	if err := d.volume.Sync(); err != nil || !epochs {
		return err
	}
	if err := of(takeName); err != nil {
		return err
	}
	return d.volume.Sync()
}

func (l *Log) closeWith(work flushWork) error {
	if len(work.closedSegments) > 0 {
		if err := l.sync(work); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markDurable(work.end, work.end)
	return nil
}

// closing is the last flush; without closed segments there is nothing to do.
func (l *Log) closing() (flushWork, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.finish(); err != nil {
		return flushWork{}, err
	}
	work := l.flushWork()
	if l.idle(work) {
		return work, nil
	}
	// The active segment's indexes too: the next start trusts them. They may have been missing, and never needed.
	work.closedSegments = append(work.closedSegments, work.active)
	return work, work.active.ensureIndexes()
}

// finish writes what memory alone holds: index tails and producer state.
func (l *Log) finish() error {
	if err := l.refreshProducers(); err != nil {
		return err
	}
	active := l.active()
	if l.writer != nil {
		if err := l.writer.finish(active); err != nil {
			return err
		}
	}
	if l.producers.end <= l.start.Load() {
		return nil // an empty log has no producers
	}
	before := l.producers.snapshotEnd
	if err := l.snapshotProducers(l.EndOffset()); err != nil {
		return err
	}
	if l.producers.snapshotEnd != before {
		l.entries.made++
	}
	return nil
}

func (l *Log) idle(w flushWork) bool {
	return l.writer == nil && !l.active().stale.Load() && l.durable.Load() == w.end && len(w.closedSegments) == 0 && !w.entries.dirty() && !w.parent.dirty() && w.epochs == nil
}
