package logstore

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
)

// A future log is a copy of a partition's log in another log directory, which takes its place once it has all of it
// (KIP-113). Until then it is in topic-partition.<unique>-future. The move commits when the copy, durable and marked,
// has the partition's name: a start that finds the partition twice goes on with the marked one.

const (
	// replacesFile marks a log that takes the place of the partition's log in another directory.
	replacesFile = ".replaces"
	// futureUnique is how many digits make a future log's directory unique.
	futureUnique = 32
)

var (
	// ErrNoSuchDir: the directory is none of log.dirs.
	ErrNoSuchDir = errors.New("no such log directory")
	// ErrNameTooLong: the file system has no room for the name of a future log's directory.
	ErrNameTooLong = errors.New("directory name too long")
	errNoFuture    = errors.New("there is no future log")
)

// Future is the future log of id, or nil.
func (s *Store) Future(id ID) *Log {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.futures[id]
}

// Futures returns all future logs, in no order.
func (s *Store) Futures() []*Log {
	s.mu.RLock()
	defer s.mu.RUnlock()
	logs := make([]*Log, 0, len(s.futures))
	for _, l := range s.futures {
		logs = append(logs, l)
	}
	return logs
}

// DirOnline says whether dir, one of log.dirs, serves; else ErrNoSuchDir or ErrOffline.
func (s *Store) DirOnline(dir string) error {
	_, err := s.dirAt(dir)
	return err
}

func (s *Store) dirAt(dir string) (*logDir, error) {
	for _, d := range s.dirs {
		if d.path == dir {
			return d, d.offlineError()
		}
	}
	return nil, ErrNoSuchDir
}

// MayHaveFuture says whether the name of a future log's directory fits a directory entry.
func MayHaveFuture(id ID) bool {
	return len(id.String())+len(".")+futureUnique+len(futureDirSuffix) <= maxFileNameBytes
}

// CreateFuture makes an empty future log of the log of id, in dir; there must be none yet.
func (s *Store) CreateFuture(id ID, dir string, c Config) (*Log, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	current := s.Log(id)
	d, err := s.dirAt(dir)
	if err == nil && current == nil {
		err = ErrClosed
	}
	if err != nil {
		return nil, &Error{Log: id, Op: "create", Offset: -1, Err: err}
	}
	if !MayHaveFuture(id) {
		return nil, &Error{Log: id, Op: "create", Offset: -1, Err: ErrNameTooLong}
	}
	name := fmt.Sprintf("%s.%s%s", id, current.uniqueName(), futureDirSuffix)
	l := s.newLogIn(id, d, name, c)
	if err := l.create(current.TopicID()); err != nil {
		return nil, l.failed("create", -1, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.futures[id] = l
	return l, nil
}

// DropFuture removes the future log of id, if there is one.
func (s *Store) DropFuture(id ID) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.dropFuture(id)
}

func (s *Store) dropFuture(id ID) error {
	l := s.Future(id)
	if l == nil {
		return nil
	}
	s.mu.Lock()
	delete(s.futures, id)
	s.mu.Unlock()
	l.dir.deleted(id)
	aside, err := l.moveAside("drop", deleteDirSuffix)
	if err == nil {
		s.removeAside(l, aside)
	}
	return err
}

// Promote puts the future log of id in the place of its log, which goes. ErrBusy: try again. Nobody may write to either
// meanwhile.
func (s *Store) Promote(id ID) (*Log, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	current, future := s.Log(id), s.Future(id)
	if current == nil || future == nil {
		return nil, &Error{Log: id, Op: "move", Offset: -1, Err: errNoFuture}
	}
	if err := future.dir.writeCheckpoints(); err != nil { // log start and high watermark count from the commit on
		return nil, future.failed("move", -1, err)
	}
	if err := future.takeName(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.logs[id] = future
	delete(s.futures, id)
	s.mu.Unlock()
	current.dir.logCount.Add(-1)
	future.dir.logCount.Add(1)
	current.dir.deleted(id)
	if aside, err := current.moveAside("move", deleteDirSuffix); err == nil {
		s.removeAside(current, aside)
		err = removeIfExists(s.o.FS, future.file(replacesFile))
		if err != nil {
			s.o.Log.Warn().Str("log", id.String()).Err(err).Msg("the mark of a log that was moved cannot be removed; it does no harm")
		}
	}
	return future, nil
}

// takeName marks the log as the one that counts and gives its directory the partition's name; each step is durable
// before the next.
func (l *Log) takeName() error {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("move"); err != nil {
		return err
	}
	if l.flushes.running { // it opens files by their names
		return l.fault("move", -1, ErrBusy)
	}
	fs, to := l.store.o.FS, path.Join(l.dir.path, l.id.String())
	err := writeFile(fs, l.file(replacesFile), nil, true)
	if err == nil {
		err = fs.SyncDir(*l.path.Load())
	}
	if err == nil {
		err = fs.Rename(*l.path.Load(), to)
	}
	if err == nil {
		err = fs.SyncDir(l.dir.path)
	}
	if err != nil {
		return l.failed("move", -1, err)
	}
	l.path.Store(&to)
	l.producers.dir = to
	return nil
}

// settleMoves brings to its end what a crash interrupted. It runs before any log is loaded.
func (s *Store) settleMoves() {
	if len(s.dirs) < 2 {
		return
	}
	holders := map[ID][]*logDir{}
	for _, d := range s.dirs {
		if d.offlineError() != nil {
			continue
		}
		if err := d.noteHolders(holders); err != nil {
			d.fail(err)
		}
	}
	for id, dirs := range holders {
		if len(dirs) > 1 {
			s.settleMove(id, dirs)
		}
	}
}

func (d *logDir) noteHolders(holders map[ID][]*logDir) error {
	entries, err := d.store.o.FS.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if id, ok := parseDirName(e.Name()); ok && e.IsDir() {
			holders[id] = append(holders[id], d)
		}
	}
	return nil
}

// settleMove deletes the copies without a mark beside one with it. Without such one, somebody must look.
func (s *Store) settleMove(id ID, dirs []*logDir) {
	marked := func(d *logDir) bool {
		there, err := exists(s.o.FS, path.Join(d.path, id.String(), replacesFile))
		return err == nil && there
	}
	var keeps *logDir
	for _, d := range dirs {
		if marked(d) {
			if keeps != nil {
				return
			}
			keeps = d
		}
	}
	if keeps == nil {
		return
	}
	for _, d := range dirs {
		if d == keeps {
			continue
		}
		s.o.Log.Info().Stringer("log", id).Str("from", d.path).Str("to", keeps.path).Msg("finishing the move of a log that a stop interrupted")
		aside := path.Join(d.path, asideDirName(id, s.uniqueName([16]byte{}), deleteDirSuffix))
		err := s.o.FS.Rename(path.Join(d.path, id.String()), aside)
		if err == nil {
			err = s.o.FS.SyncDir(d.path)
		}
		if err != nil {
			d.fail(err)
			return
		}
	}
	_ = removeIfExists(s.o.FS, path.Join(keeps.path, id.String(), replacesFile)) // it does no harm
}

// parseFutureName is the partition of topic-partition.<unique>-future.
func parseFutureName(name string) (ID, bool) {
	name, isFuture := strings.CutSuffix(name, futureDirSuffix)
	dot := len(name) - futureUnique - 1
	if !isFuture || dot <= 0 || name[dot] != '.' {
		return ID{}, false
	}
	return parseDirName(name[:dot])
}

// loadFuture loads a future log, from which the copying goes on. One that cannot be loaded is removed: all of it is
// elsewhere.
func (d *logDir) loadFuture(name string, state loadState) error {
	id, ok := parseFutureName(name)
	if !ok {
		d.store.o.Log.Warn().Str("dir", d.path).Str("name", name).Msg("ignoring a directory that is no partition's")
		return nil
	}
	l := d.store.newLogIn(id, d, name, d.store.o.ConfigOf(id))
	err := l.load(state)
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	if err == nil && d.store.futures[id] == nil {
		d.store.futures[id] = l
		return nil
	}
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, os.ErrNotExist) {
		return l.fault("load", -1, err)
	}
	l.producers.leaveCensus()
	l.forgetFiles()
	return d.store.o.FS.RemoveAll(*l.path.Load())
}
