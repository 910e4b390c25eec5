package logstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"grete/internal/sched"
	"grete/internal/vfs"
)

const (
	lockFile          = ".lock"
	cleanShutdownFile = ".kafka_cleanshutdown"
)

// logDir is one of log.dirs. It serves until the first failed write or fsync; after that nothing is written to it,
// for nobody knows what it holds.
type logDir struct {
	store       *Store
	path        string
	directoryID [16]byte
	lock        io.Closer
	volume      vfs.Volume // nil: it cannot be synced as a whole
	offline     atomic.Pointer[error]
	noSpaceMs   atomic.Int64 // when space last lacked; 0: never
	// stoppedEpoch is the broker epoch of the clean stop before this start, NoBrokerEpoch when there was none.
	stoppedEpoch int64

	checkpointMu sched.Mutex
	checkpoints  map[string][]byte // what the files hold
	stale        map[ID]bool       // logs that were deleted since, or before the start
	logCount     atomic.Int64
}

// DirInfo describes a log directory for DescribeLogDirs.
type DirInfo struct {
	Path                    string
	DirectoryID             [16]byte // of meta.properties
	TotalBytes, UsableBytes int64
	Offline                 error     // nil while it serves
	NoSpace                 time.Time // when something was last refused for want of space; zero: never
	Logs                    []*Log
	Futures                 []*Log // logs that are being moved here
}

// openDir creates and locks the directory.
func (s *Store) openDir(ctx context.Context, name string) (*logDir, error) {
	d := &logDir{store: s, path: name, stoppedEpoch: NoBrokerEpoch, checkpoints: map[string][]byte{}, stale: map[ID]bool{}}
	err := d.patiently(ctx, ID{}, func() (err error) {
		d.lock, err = d.acquire()
		return err
	})
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("log directory %s is in use by another process: %w", name, err)
	}
	if err == nil {
		err = d.patiently(ctx, ID{}, d.identify)
	}
	if err != nil {
		d.fail(err)
	}
	return d, nil
}

// identify opens the directory's volume and reads its id.
func (d *logDir) identify() (err error) {
	if d.volume == nil {
		if d.volume, err = vfs.OpenVolume(d.store.o.FS, d.path); err != nil {
			return err
		}
	}
	meta, err := ReadMetaProperties(d.store.o.FS, d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.directoryID = meta.DirectoryID
	return nil
}

func (d *logDir) acquire() (io.Closer, error) {
	if err := makeDir(d.store.o.FS, d.path); err != nil {
		return nil, err
	}
	return d.store.o.FS.Lock(path.Join(d.path, lockFile))
}

// makeDir creates a log directory that is still there after a crash.
func makeDir(fs vfs.FS, name string) error {
	if there, err := exists(fs, name); err != nil || there {
		return err
	}
	if err := fs.MkdirAll(name, 0o755); err != nil {
		return err
	}
	return fs.SyncDir(path.Dir(name))
}

// fail takes the directory offline, once.
func (d *logDir) fail(err error) {
	if !d.offline.CompareAndSwap(nil, &err) {
		return
	}
	last := int(d.store.offlineDirs.Add(1)) == len(d.store.o.Dirs)
	if !last || !d.store.opening.Load() { // a start without any directory ends with this error
		d.store.o.Log.Error().Str("dir", d.path).Err(err).Msg("log directory is offline")
	}
	if d.store.o.OnDirOffline != nil {
		d.store.background.Go(func() { d.store.o.OnDirOffline(d.path, err) })
	}
}

// offlineError wraps ErrOffline and what took the directory offline; nil while it serves.
func (d *logDir) offlineError() error {
	if why := d.offline.Load(); why != nil {
		return fmt.Errorf("%w: %s: %w", ErrOffline, d.path, *why)
	}
	return nil
}

func (d *logDir) lastNoSpace() time.Time {
	if ms := d.noSpaceMs.Load(); ms > 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// cleanMark is what a clean stop leaves behind (Kafka's CleanShutdownFileHandler).
type cleanMark struct {
	Version     int   `json:"version"`
	BrokerEpoch int64 `json:"brokerEpoch"`
}

// takeCleanMark tells whether the last stop was clean, and removes the mark: a crash from here on is one. An earlier
// try may have taken it, and failed to make that durable.
func (d *logDir) takeCleanMark(taken bool) (bool, error) {
	if taken {
		return true, d.store.o.FS.SyncDir(d.path)
	}
	name := path.Join(d.path, cleanShutdownFile)
	text, err := readFile(d.store.o.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	mark := cleanMark{BrokerEpoch: NoBrokerEpoch}
	if json.Unmarshal(text, &mark) == nil { // of a Kafka before 3.8 it is empty
		d.stoppedEpoch = mark.BrokerEpoch
	}
	if err := d.store.o.FS.Remove(name); err != nil {
		return false, err
	}
	return true, d.store.o.FS.SyncDir(d.path)
}

func (d *logDir) putCleanMark() error {
	text, err := json.Marshal(cleanMark{BrokerEpoch: d.store.o.BrokerEpoch()})
	if err != nil {
		return err
	}
	return replaceFile(d.store.o.FS, path.Join(d.path, cleanShutdownFile), text)
}

// checkpoints are what a directory's files say of its logs.
type checkpoints struct {
	clean                                 bool // it was stopped cleanly
	recovery, starts, watermarks, cleaned map[ID]int64
}

func (c checkpoints) of(id ID) loadState {
	return loadState{clean: c.clean, checkpointed: c.recovery != nil, recovery: c.recovery[id], start: c.starts[id], highWatermark: c.watermarks[id]}
}

// takeCheckpoints reads them, and takes the mark of a clean stop away. taken says that an earlier try has done that.
func (d *logDir) takeCheckpoints(taken bool) (c checkpoints, err error) {
	if c.clean, err = d.takeCleanMark(taken); err != nil {
		return c, err
	}
	for name, to := range map[string]*map[ID]int64{recoveryPointFile: &c.recovery, logStartFile: &c.starts, highWatermarkFile: &c.watermarks, cleanerFile: &c.cleaned} {
		if *to, err = d.readCheckpoint(name); err != nil {
			return c, err
		}
	}
	return c, nil
}

// readCheckpoint reads one of the offset checkpoints; a missing or garbled one says nothing (as in Kafka:
// recovery from the start, start at the first segment). The error of one that cannot be read now heals.
func (d *logDir) readCheckpoint(name string) (map[ID]int64, error) {
	data, err := readFile(d.store.o.FS, path.Join(d.path, name))
	if err == nil {
		var offsets map[ID]int64
		if offsets, err = parseOffsets(data); err == nil {
			d.checkpoints[name] = data
			return offsets, nil
		}
	}
	if Heals(err) {
		return nil, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		d.store.o.Log.Warn().Str("dir", d.path).Str("file", name).Err(err).Msg("ignoring a checkpoint")
	}
	return nil, nil
}

// writeCheckpoint gathers the offsets of the directory's logs and replaces the file when they changed.
func (d *logDir) writeCheckpoint(name string) error {
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	if err := d.offlineError(); err != nil {
		return err
	}
	data := encodeOffsets(d.offsets(name))
	if bytes.Equal(data, d.checkpoints[name]) {
		return nil
	}
	if err := replaceFile(d.store.o.FS, path.Join(d.path, name), data); err != nil {
		return err
	}
	d.checkpoints[name] = data
	return nil
}

// forgetOld makes sure that no checkpoint says anything of a log of this name that was deleted.
func (d *logDir) forgetOld(id ID) error {
	d.checkpointMu.Lock()
	stale := d.stale[id]
	d.checkpointMu.Unlock()
	if !stale {
		return nil
	}
	return d.writeCheckpoints()
}

// deleted notes that the checkpoints may still speak of id.
func (d *logDir) deleted(id ID) {
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	d.stale[id] = true
}

// noteStale does so for what the checkpoints name and the directory does not hold.
func (d *logDir) noteStale(checkpoints ...map[ID]int64) {
	for _, offsets := range checkpoints {
		for id := range offsets {
			if d.store.Log(id) == nil && d.store.Future(id) == nil {
				d.deleted(id)
			}
		}
	}
}

// offsets are those of the checkpoint name. Kafka leaves out a start that is the first segment's base; we do not,
// for the removal of the segments before may not be durable yet.
func (d *logDir) offsets(name string) map[ID]int64 {
	offsets := map[ID]int64{}
	for _, l := range append(d.logs(), d.futures()...) { // no directory has both of one partition
		switch name {
		case recoveryPointFile:
			offsets[l.id] = l.recovery.Load()
		case highWatermarkFile:
			offsets[l.id] = l.highWatermark.Load()
		case logStartFile:
			if start := l.StartOffset(); start > 0 {
				offsets[l.id] = start
			}
		case cleanerFile:
			if cleaned := l.cleaned.Load(); cleaned != neverCleaned {
				offsets[l.id] = cleaned
			}
		}
	}
	return offsets
}

func (d *logDir) futures() []*Log {
	var logs []*Log
	for _, l := range d.store.Futures() {
		if l.dir == d {
			logs = append(logs, l)
		}
	}
	return logs
}

func (d *logDir) logs() []*Log {
	var logs []*Log
	for _, l := range d.store.Logs() {
		if l.dir == d {
			logs = append(logs, l)
		}
	}
	return logs
}

// writeCheckpoints writes all of them; an error that does not heal takes the directory offline.
func (d *logDir) writeCheckpoints() error {
	d.checkpointMu.Lock()
	gone := d.stale
	d.stale = map[ID]bool{}
	d.checkpointMu.Unlock()
	for _, name := range checkpointFiles {
		if err := d.writeCheckpoint(name); err != nil {
			for id := range gone {
				d.deleted(id)
			}
			if !Heals(err) {
				d.fail(err)
			}
			return err
		}
	}
	return nil
}

// partitionDirs lists the directories to load, those of future logs by name, and removes those whose log was deleted.
// -stray is left alone, as is what is no partition's.
func (d *logDir) partitionDirs() (ids []ID, futures map[ID]string, err error) {
	entries, err := d.store.o.FS.ReadDir(d.path)
	if err != nil {
		return nil, nil, err
	}
	futures = map[ID]string{}
	for _, e := range entries {
		name := e.Name()
		switch id, ok := parseDirName(name); {
		case !e.IsDir():
		case strings.HasSuffix(name, deleteDirSuffix):
			if err := d.store.o.FS.RemoveAll(path.Join(d.path, name)); err != nil {
				return nil, nil, err
			}
		case strings.HasSuffix(name, futureDirSuffix):
			future, _ := parseFutureName(name)
			futures[future] = name
		case strings.HasSuffix(name, strayDirSuffix):
		case ok:
			ids = append(ids, id)
		default:
			d.store.o.Log.Warn().Str("dir", d.path).Str("name", name).Msg("ignoring a directory that is no partition's")
		}
	}
	return ids, futures, nil
}
