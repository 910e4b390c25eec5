package logstore

import (
	"errors"

	"golang.org/x/sync/errgroup"
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
	return errors.Join(err, s.unlock())
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
	}
	return errs
}

// close leaves the mark of a clean stop only when every log was closed and every checkpoint written.
func (d *logDir) close() error {
	if d.offlineError() != nil {
		return nil // told when it happened; the next start recovers it
	}
	group := errgroup.Group{}
	group.SetLimit(d.store.o.RecoveryThreads)
	for _, l := range append(d.logs(), d.futures()...) {
		group.Go(l.close)
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := d.writeCheckpoints(); err != nil {
		return err
	}
	return d.putCleanMark()
}

// close makes everything durable, indexes and producer state included. A log that nothing was written to since it
// was durable has nothing to do.
func (l *Log) close() error {
	work, err := l.closing()
	if err != nil {
		return l.failed("close", -1, err)
	}
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
