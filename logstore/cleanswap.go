package logstore

import (
	"errors"
	"fmt"
	"slices"
)

// errCleanAborted ends a compaction that something else made pointless; the next one starts anew.
var errCleanAborted = errors.New("compaction was overtaken")

// swapIn puts made, whose files are durable under .cleaned, in the place of old (LocalLog.replaceSegments). Each step
// is durable before the next: made is .swap, which commits; old is aside; made has its name. A crash before the first
// leaves old alone, one after it is brought to its end by the next start (finishSwap). Appends and reads go on.
func (l *Log) swapIn(r *cleanRange, old []*segment, made *segment) error {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	if err := l.stillHas(r, old); err != nil {
		return err
	}
	if err := l.commitSwap(made); err != nil {
		return err
	}
	if err := l.finishCommitted(old, made); err != nil {
		l.dir.fail(err) // whatever it was: the files are between two states
		return l.fault("compact", made.base, fmt.Errorf("%w: %w", ErrOffline, err))
	}
	l.publishSwap(old, made)
	for _, s := range old {
		l.removeLater(s)
	}
	return nil
}

// stillHas checks that the log was neither truncated nor cut at its start since r. The caller holds reshape.
func (l *Log) stillHas(r *cleanRange, old []*segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("compact"); err != nil {
		return err
	}
	at := slices.Index(l.segments(), old[0])
	if at < 0 || l.truncations != r.truncations {
		return l.fault("compact", old[0].base, errCleanAborted)
	}
	return nil
}

// commitSwap renames made to .swap. When that fails, what was renamed is removed before what was not; where even that
// cannot be made durable, a later start could swap in what is no longer true of the log, and the directory goes
// offline.
func (l *Log) commitSwap(made *segment) error {
	sync := func() error { return l.store.o.FS.SyncDir(*l.path.Load()) }
	err := made.rename(swapSuffix)
	if err == nil {
		err = sync()
	}
	if err == nil {
		return nil
	}
	var undo error
	for _, kind := range fileKinds {
		name := l.file(fileName(made.base, kind) + swapSuffix)
		undo = errors.Join(undo, removeIfExists(l.store.o.FS, name))
	}
	if undo = errors.Join(undo, sync()); undo != nil {
		l.dir.fail(undo)
	}
	return &writeError{err}
}

// finishCommitted puts old aside, under names that no earlier compaction's have, and made in its place.
func (l *Log) finishCommitted(old []*segment, made *segment) error {
	l.swaps++
	aside := fmt.Sprintf(".%d%s", l.swaps, deletedSuffix)
	for _, s := range old {
		s.deleted.Store(true)
		if err := s.rename(aside); err != nil {
			return err
		}
	}
	if err := l.store.o.FS.SyncDir(*l.path.Load()); err != nil {
		return err
	}
	if err := made.rename(noSuffix); err != nil {
		return err
	}
	for _, s := range old[1:] {
		if err := removeIfExists(l.store.o.FS, s.snapshotPath()); err != nil {
			return err
		}
	}
	return l.store.o.FS.SyncDir(*l.path.Load())
}

func (l *Log) publishSwap(old []*segment, made *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	segments := l.segments()
	at := slices.Index(segments, old[0])
	l.setSegments(slices.Concat(segments[:at], []*segment{made}, segments[at+len(old):]))
}
