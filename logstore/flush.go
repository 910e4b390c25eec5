package logstore

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"syscall"
	"time"

	"grete/internal/clock"
)

// maxFlushWaiters bounds the callers that wait for one log's fsync; more are answered ErrBusy.
const maxFlushWaiters = 1 << 16

// flushState is the group commit of one log: while one fsync runs, callers and appends gather for the next. One
// goroutine exists while there is something to flush. Log.mu.
type flushState struct {
	running bool
	waiters []flushWaiter
	timer   clock.Timer // flush.ms; nil when not armed
}

type flushWaiter struct {
	offset int64
	done   func(error)
}

// FlushAsync calls done once everything below offset is fsynced: at once where that is so already, or the log refuses,
// else on another goroutine. Concurrent calls share fsyncs and appends go on meanwhile. ErrOffline: the directory is
// offline. ErrClosed: the log is no longer used. Any other error heals, or is of offset.
func (l *Log) FlushAsync(offset int64, done func(error)) {
	waits, err := l.awaitFlush(offset, done)
	if !waits {
		done(err)
	}
}

func (l *Log) awaitFlush(offset int64, done func(error)) (waits bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.flushRefusal(offset); err != nil || l.durable.Load() >= offset {
		return false, err
	}
	l.flushes.waiters = append(l.flushes.waiters, flushWaiter{offset, done})
	l.startFlush()
	return true, nil
}

func (l *Log) flushRefusal(offset int64) error {
	if err := l.usable("flush"); err != nil {
		return err
	}
	if offset > l.EndOffset() {
		return l.fault("flush", offset, ErrOffsetOutOfRange)
	}
	if len(l.flushes.waiters) >= maxFlushWaiters {
		return l.fault("flush", offset, ErrBusy)
	}
	return nil
}

// flushNow returns when everything written so far is synced, index files of closed segments included.
func (l *Log) flushNow() error {
	done := make(chan error, 1)
	l.mu.Lock()
	if err := l.flushRefusal(l.EndOffset()); err != nil {
		l.mu.Unlock()
		return err
	}
	l.flushes.waiters = append(l.flushes.waiters, flushWaiter{l.EndOffset(), func(err error) { done <- err }})
	l.startFlush()
	l.mu.Unlock()
	return <-done
}

// flushInBackground asks for everything below offset to be synced, whoever waits. Callers hold mu.
func (l *Log) flushInBackground(offset int64) {
	l.flushes.waiters = append(l.flushes.waiters, flushWaiter{offset, func(error) {}})
	l.startFlush()
}

func (l *Log) startFlush() {
	if !l.flushes.running {
		l.flushes.running = true
		l.store.background.Go(l.flushLoop)
	}
}

// armFlushTimer begins flush.ms at the first append that is not durable yet. Callers hold mu.
func (l *Log) armFlushTimer() {
	waitMs := l.config().FlushMs
	if waitMs >= math.MaxInt64/int64(time.Millisecond) || l.flushes.timer != nil {
		return
	}
	l.flushes.timer = l.store.o.Clock.AfterFunc(time.Duration(waitMs)*time.Millisecond, l.flushTimeUp)
}

func (l *Log) flushTimeUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushes.timer = nil
	if !l.closed && l.dir.offlineError() == nil {
		l.flushInBackground(l.EndOffset())
	}
}

func (l *Log) stopFlushTimer() {
	if l.flushes.timer != nil {
		l.flushes.timer.Stop()
		l.flushes.timer = nil
	}
}

// flushLoop syncs until nobody waits.
func (l *Log) flushLoop() {
	for {
		l.mu.Lock()
		if len(l.flushes.waiters) == 0 {
			l.flushes.running = false
			l.mu.Unlock()
			return
		}
		work := l.flushWork()
		l.mu.Unlock()
		err := l.sync(work)
		served := l.flushed(work, err)
		for _, w := range served {
			w.done(err)
		}
	}
}

// flushWork is what one pass makes durable.
type flushWork struct {
	end             int64
	truncations     uint64
	closedSegments  []*segment // all files
	active          *segment   // data alone: an unclean start walks the active segment again
	entries, parent changes
	epochs          []byte
	whole           bool // all files are synced, with their volume
}

// flushWork notes what lies between the recovery point and the end. Callers hold mu.
func (l *Log) flushWork() flushWork {
	w := flushWork{end: l.EndOffset(), truncations: l.truncations, active: l.active(), entries: l.entries, parent: l.parent}
	segments := l.segments()
	for _, s := range segments[:len(segments)-1] {
		if s.indexDirty {
			w.closedSegments = append(w.closedSegments, s)
			s.indexDirty = false
		}
	}
	w.epochs = l.epochs.due(w.end)
	return w
}

// sync does w. A failed fsync takes the directory offline, for what was dirty counts as clean now; where it was only
// space or file descriptors that lacked beside the data, w is due again.
func (l *Log) sync(w flushWork) error {
	if err := l.dir.offlineError(); err != nil {
		return l.fault("flush", w.end, err)
	}
	err := l.timed(func() error { return l.syncSegments(w) })
	lacking := Heals(err) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT)
	if err == nil {
		err = errors.Join(l.syncEpochs(w), l.syncEntries(w))
		lacking = Heals(err)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist) && l.deleted.Load():
		return l.fault("flush", w.end, ErrClosed) // its files went while it was flushed
	case lacking:
		l.dir.lacks(l.id, "flush", err)
		l.stillDue(w)
		return l.fault("flush", w.end, err)
	}
	l.dir.fail(err)
	return l.fault("flush", w.end, errors.Join(ErrOffline, err))
}

// stillDue notes as dirty again what w took.
func (l *Log) stillDue(w flushWork) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range w.closedSegments {
		s.indexDirty = true
	}
	if w.epochs != nil {
		l.epochs.unwritten()
	}
}

func (l *Log) syncSegments(w flushWork) error {
	if w.whole {
		return nil
	}
	for _, s := range w.closedSegments {
		if err := ignoreDeleted(s, s.syncAll()); err != nil {
			return err
		}
	}
	return ignoreDeleted(w.active, w.active.syncData())
}

// ignoreDeleted forgives that a file of a segment is gone because the segment was deleted meanwhile.
func ignoreDeleted(s *segment, err error) error {
	if errors.Is(err, fs.ErrNotExist) && s.deleted.Load() {
		return nil
	}
	return err
}

func (s *segment) syncData() error {
	o, err := s.openData()
	if err != nil {
		return err
	}
	defer o.release()
	return o.Sync()
}

func (s *segment) syncAll() error {
	if err := errors.Join(s.syncData(), s.offsets.sync(), s.times.sync()); err != nil {
		return err
	}
	return s.txns.sync()
}

func (l *Log) syncEpochs(w flushWork) error {
	if w.epochs == nil || w.whole {
		return nil
	}
	return replaceFile(l.store.o.FS, l.file(leaderEpochFile), w.epochs)
}

func (l *Log) syncEntries(w flushWork) error {
	if w.whole {
		return nil
	}
	if w.parent.dirty() {
		if err := l.syncCreation(); err != nil {
			return err
		}
	}
	if w.entries.dirty() {
		return l.store.o.FS.SyncDir(*l.path.Load())
	}
	return nil
}

// syncCreation makes a new partition's directory last, and the topic id in it.
func (l *Log) syncCreation() error {
	err := syncFile(l.store.o.FS, l.file(partitionMetadataFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.store.o.FS.SyncDir(path.Dir(*l.path.Load()))
}

// flushed moves the durable end to where w brought it and takes out the waiters that it serves; all of them
// after a failure.
func (l *Log) flushed(w flushWork, err error) []flushWaiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		served := l.flushes.waiters
		l.flushes.waiters = nil
		return served
	}
	l.entriesSynced(w)
	if w.truncations == l.truncations {
		l.markDurable(w.end, w.recoveryPoint())
	}
	var served, waiting []flushWaiter
	for _, x := range l.flushes.waiters {
		if x.offset <= l.durable.Load() || x.offset > l.EndOffset() { // the latter were truncated away
			served = append(served, x)
		} else {
			waiting = append(waiting, x)
		}
	}
	l.flushes.waiters = waiting
	return served
}

// entriesSynced notes that the directory changes w knew of are durable. Callers hold mu.
func (l *Log) entriesSynced(w flushWork) {
	l.entries.synced = max(l.entries.synced, w.entries.made)
	l.parent.synced = max(l.parent.synced, w.parent.made)
}

// recoveryPoint lies inside the active segment, never at its end: should it roll there, an unclean start must still
// read it again, as its index files are not synced.
func (w *flushWork) recoveryPoint() int64 {
	if w.end > w.active.base {
		return w.end - 1
	}
	return w.end
}

// markDurable notes that all below end is synced; the recovery point, at most at point, stays below index files that
// are not. Callers hold mu.
func (l *Log) markDurable(end, point int64) {
	l.durable.Store(max(end, l.durable.Load()))
	segments := l.segments()
	for _, s := range segments[:len(segments)-1] {
		if s.indexDirty && s.base < point {
			point = s.base
			break
		}
	}
	l.recovery.Store(max(point, l.recovery.Load()))
}
