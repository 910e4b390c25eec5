// Package logstore keeps partitions' logs on disk in Kafka's formats: segments with sparse offset and time
// indexes, transaction index, producer state and its snapshots, leader epochs, checkpoints, retention,
// recovery. It knows nothing of what topics mean nor of the network.
package logstore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"grete/internal/sched"
)

// Store is all logs of a broker.
type Store struct {
	o     Options
	files *fileCache
	dirs  []*logDir

	mu   sched.RWMutex
	logs map[ID]*Log
	// futures are copies that will take the place of logs.
	futures map[ID]*Log
	// changing serialises Create and Delete.
	changing sched.Mutex

	background sync.WaitGroup
	stop       chan struct{}
	pending    pendingWork
	cleaner    *cleaner
	scrubber   scrubber
	trouble    *trouble
	// noDescriptorsMs is when descriptors last lacked; 0: never.
	noDescriptorsMs atomic.Int64
	opening         atomic.Bool
	offlineDirs     atomic.Int32 // of dirs
	asides          atomic.Int64 // names made by uniqueName: the clock may stand still
	closeOnce       sync.Once
	closeErr        error
}

// Open locks the directories, loads every log (recovering after an unclean stop) and starts retention and checkpoints.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{o: o, files: newFileCache(o.FS, o.MaxOpenFiles, o.FileMemory), logs: map[ID]*Log{}, futures: map[ID]*Log{}, stop: make(chan struct{}), trouble: newTrouble(o.Clock)}
	s.cleaner = newCleaner(s)
	s.scrubber.store, s.scrubber.throttle.clock = s, o.Clock
	s.opening.Store(true)
	err := s.open(ctx)
	s.opening.Store(false)
	if err != nil {
		s.background.Wait()
		return nil, errors.Join(err, s.unlock())
	}
	checks, producers := o.Clock.NewTicker(o.CheckInterval), o.Clock.NewTicker(o.ProducerCheckInterval)
	checkpoints := o.Clock.NewTicker(o.FlushOffsetCheckpointInterval)
	s.background.Go(func() { s.housekeeping(checks, producers, checkpoints) })
	s.cleaner.start()
	if o.Scrub.Interval > 0 {
		s.background.Go(s.scrubber.run)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if len(s.o.Dirs) == 0 {
		return errors.New("no log directory is configured")
	}
	for _, name := range s.o.Dirs {
		d, err := s.openDir(ctx, path.Clean(name))
		if err != nil {
			return err
		}
		s.dirs = append(s.dirs, d)
	}
	s.settleMoves()
	group, loading := errgroup.WithContext(ctx)
	for _, d := range s.dirs {
		group.Go(func() error { return d.load(loading) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.anyOnline()
}

// NoBrokerEpoch: no clean stop, or none that knew its epoch.
const NoBrokerEpoch = int64(-1)

// StoppedEpoch is the broker epoch under which all directories were stopped cleanly before this start, else
// NoBrokerEpoch (LogManager.readBrokerEpochFromCleanShutdownFiles).
func (s *Store) StoppedEpoch() int64 {
	epoch := s.dirs[0].stoppedEpoch
	for _, d := range s.dirs {
		if d.offlineError() != nil || d.stoppedEpoch != epoch {
			return NoBrokerEpoch
		}
	}
	return epoch
}

func (s *Store) anyOnline() error {
	var all error
	for _, d := range s.dirs {
		err := d.offlineError()
		if err == nil {
			return nil
		}
		all = errors.Join(all, err)
	}
	return all
}

// lackPause is how long a start waits before it tries again what lacked space or descriptors.
const lackPause = time.Second

// load opens the directory's logs, several at a time. An IO error that does not heal takes the directory offline; that
// a partition is there twice, or ctx ends, fails the store.
func (d *logDir) load(ctx context.Context) error {
	if d.offlineError() != nil {
		return nil
	}
	err := d.loadLogs(ctx)
	if err == nil || errors.Is(err, ErrDuplicateLog) || ctx.Err() != nil {
		return err
	}
	d.fail(err)
	return nil
}

func (d *logDir) loadLogs(ctx context.Context) error {
	var from checkpoints
	var ids []ID
	var futures map[ID]string
	err := d.patiently(ctx, ID{}, func() (err error) {
		if from, err = d.takeCheckpoints(from.clean); err == nil {
			ids, futures, err = d.partitionDirs()
		}
		return err
	})
	if err != nil {
		return err
	}
	group, loading := errgroup.WithContext(ctx)
	group.SetLimit(d.store.o.RecoveryThreads)
	for _, id := range ids {
		if loading.Err() != nil {
			break
		}
		group.Go(func() error {
			return d.patiently(loading, id, func() error { return d.loadLog(id, from) })
		})
	}
	for id, name := range futures {
		group.Go(func() error {
			state := from.of(id)
			state.clean = false
			return d.patiently(loading, id, func() error { return d.loadFuture(name, state) })
		})
	}
	if err := errors.Join(group.Wait(), ctx.Err()); err != nil {
		return err
	}
	d.noteStale(from.recovery, from.starts, from.watermarks, from.cleaned)
	if from.recovery == nil { // from now on, that it is missing means that it was lost
		return d.patiently(ctx, ID{}, func() error { return d.writeCheckpoint(recoveryPointFile) })
	}
	return nil
}

func (d *logDir) loadLog(id ID, from checkpoints) error {
	l := d.store.newLog(id, d, d.store.o.ConfigOf(id))
	if offset, ok := from.cleaned[id]; ok {
		l.cleaned.Store(offset)
	}
	if err := l.load(from.of(id)); err != nil {
		l.producers.leaveCensus()
		l.forgetFiles()
		return l.fault("load", -1, err)
	}
	return d.store.add(l)
}

// patiently does a step of a start, of a log or of the directory, and does it again while it lacks space or
// descriptors: the directory is sound.
func (d *logDir) patiently(ctx context.Context, id ID, do func() error) error {
	for {
		err := do()
		if !Heals(err) {
			return err
		}
		d.lacks(id, "load", err)
		if !sleep(d.store.o.Clock, lackPause, ctx.Done()) {
			return errors.Join(err, ctx.Err())
		}
	}
}

func (s *Store) newLog(id ID, d *logDir, c Config) *Log { return s.newLogIn(id, d, id.String(), c) }

func (s *Store) newLogIn(id ID, d *logDir, name string, c Config) *Log {
	l := &Log{id: id, store: s, dir: d}
	dir := path.Join(d.path, name)
	l.path.Store(&dir)
	l.topicID.Store(new([16]byte))
	l.Configure(c)
	l.firstUnstable.Store(noUnstable)
	l.cleaned.Store(neverCleaned)
	l.producers = newProducerState(s.o.FS, dir)
	l.producers.lends = s.o.ProducerMemory
	return l
}

func (s *Store) add(l *Log) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.logs[l.id]; other != nil {
		return fmt.Errorf("%w: %s is in %s and in %s; remove one of them by hand", ErrDuplicateLog, l.id, other.dir.path, l.dir.path)
	}
	s.logs[l.id] = l
	l.dir.logCount.Add(1)
	return nil
}

// Log returns the log of id, or nil.
func (s *Store) Log(id ID) *Log {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.logs[id]
}

// Logs returns all logs, in no order.
func (s *Store) Logs() []*Log {
	s.mu.RLock()
	defer s.mu.RUnlock()
	logs := make([]*Log, 0, len(s.logs))
	for _, l := range s.logs {
		logs = append(logs, l)
	}
	return logs
}

// Delete renames the directory aside at once and removes it after FileDeleteDelayMs. A future log goes with it.
func (s *Store) Delete(id ID) error {
	l, aside, err := s.takeOut(id, "delete", deleteDirSuffix)
	if l == nil || err != nil {
		return err
	}
	s.removeAside(l, aside)
	return nil
}

// removeAside removes a log's directory, which is aside, after FileDeleteDelayMs.
func (s *Store) removeAside(l *Log, aside string) {
	s.later(l.config().FileDeleteDelayMs, func() {
		l.forgetFiles()
		if err := s.o.FS.RemoveAll(aside); err != nil {
			s.o.Log.Warn().Str("dir", aside).Err(err).Msg("removing a deleted log")
		}
	})
}

// SetAside renames the directory of a log that belongs to nobody known to -stray, where it is kept and never loaded.
func (s *Store) SetAside(id ID) error {
	l, aside, err := s.takeOut(id, "set aside", strayDirSuffix)
	if l == nil || err != nil {
		return err
	}
	l.forgetFiles()
	s.o.Log.Warn().Str("dir", aside).Msg("a log of a topic that the cluster does not know was set aside")
	return nil
}

// takeOut removes the log of id, if there is one, from the store and moves its directory out of the way.
func (s *Store) takeOut(id ID, op, suffix string) (l *Log, aside string, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if l = s.Log(id); l == nil {
		return nil, "", nil
	}
	if err := s.dropFuture(id); err != nil {
		s.o.Log.Warn().Stringer("log", id).Err(err).Msg("a future log cannot be removed")
	}
	s.mu.Lock()
	delete(s.logs, id)
	s.mu.Unlock()
	l.dir.logCount.Add(-1)
	l.dir.deleted(id)
	aside, err = l.moveAside(op, suffix)
	return l, aside, err
}

// moveAside closes the log for good and renames its directory at once.
func (l *Log) moveAside(op, suffix string) (aside string, err error) {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.deleted.Store(true)
	l.producers.leaveCensus()
	l.stopFlushTimer()
	if err := l.dir.offlineError(); err != nil {
		return "", l.fault(op, -1, err)
	}
	fsys := l.store.o.FS
	old := *l.path.Load()
	aside = l.asidePath(suffix)
	if err := fsys.Rename(old, aside); err != nil {
		return "", l.failed(op, -1, err)
	}
	l.path.Store(&aside)
	if err := fsys.SyncDir(l.dir.path); err != nil {
		return "", l.failed(op, -1, err)
	}
	return aside, nil
}

// asidePath is a name that no other deleted log has.
func (l *Log) asidePath(suffix string) string {
	return path.Join(l.dir.path, asideDirName(l.id, l.uniqueName(), suffix))
}

func (l *Log) uniqueName() string { return l.store.uniqueName(l.TopicID()) }

// uniqueName is made of a topic id and the moment.
func (s *Store) uniqueName(topicID [16]byte) string {
	return fmt.Sprintf("%x%016x", topicID[:8], s.o.Clock.Now().UnixNano()+s.asides.Add(1))
}

// forgetFiles closes the files that are open, of a log that may not have come to have segments.
func (l *Log) forgetFiles() {
	view := l.view.Load()
	if view == nil {
		return
	}
	for _, s := range view.segments {
		s.forget()
	}
}

// DirectoryIDs are those of the directories that serve, or of those that do not; zero where an id could not be read.
func (s *Store) DirectoryIDs(online bool) [][16]byte {
	var ids [][16]byte
	for _, d := range s.dirs {
		if (d.offlineError() == nil) == online {
			ids = append(ids, d.directoryID)
		}
	}
	return ids
}

// Dirs describes the log directories, in the order configured.
func (s *Store) Dirs() []DirInfo {
	infos := make([]DirInfo, len(s.dirs))
	for i, d := range s.dirs {
		infos[i] = DirInfo{Path: d.path, DirectoryID: d.directoryID, Offline: d.offlineError(), NoSpace: d.lastNoSpace(), Logs: d.logs(), Futures: d.futures()}
		if infos[i].Offline != nil {
			continue
		}
		total, usable, err := s.o.FS.Usage(d.path)
		if err != nil {
			s.o.Log.Warn().Str("dir", d.path).Err(err).Msg("asking for the volume's size")
		}
		infos[i].TotalBytes, infos[i].UsableBytes = total, usable
	}
	return infos
}
