package logstore

import (
	"fmt"
	"math"
	"path"
	"sync/atomic"

	"grete/internal/clock"
	"grete/internal/sched"
)

// Log is one partition's log: one writer at a time, readers that never wait for it.
//
// mu orders writers: appends, roll, truncation, removal of segments. Readers take view and tail, which are
// published whole. Locks are taken in the order Log.reshape, Log.mu, segment.indexMu, segment.names, fileCache.mu.
type Log struct {
	id      ID
	topicID atomic.Pointer[[16]byte]
	store   *Store
	dir     *logDir
	path    atomic.Pointer[string]
	cfg     atomic.Pointer[Config]

	view atomic.Pointer[view]
	tail tail

	start         atomic.Int64
	highWatermark atomic.Int64
	// durable is the end of the fsynced data; recovery the offset from which an unclean start must read again:
	// it waits also for index files.
	durable, recovery atomic.Int64
	// firstUnstable is the first offset of a transaction that is open or decided above the high watermark,
	// math.MaxInt64 when there is none.
	firstUnstable atomic.Int64

	epochs epochCache

	// cleaned is the first offset that compaction has not seen, neverCleaned before the first time. uncleanable: it
	// failed in a way that trying again does not mend.
	cleaned     atomic.Int64
	uncleanable atomic.Bool

	// reshape is held, before mu, by whoever truncates, removes or replaces segments; the append of new ones needs mu
	// alone.
	reshape sched.Mutex
	swaps   int // compactions since the start; reshape

	mu        sched.Mutex
	writer    *writer // nil until the first append to the active segment
	producers producerState
	// producersStale: the log was truncated, and the producer state could not be read again yet.
	producersStale bool
	unsynced       bool // the log was truncated, and its directory could not be synced yet
	flushes        flushState
	// entries and parent: files were created or removed that the partition's directory, or this directory that the
	// log directory, may not know after a crash. fsynced data is worth nothing before both are synced.
	entries, parent changes
	// truncations counts what makes a running fsync say nothing about the offsets it was started for.
	truncations uint64
	deleted     atomic.Bool // its directory is aside, or about to be
	closed      bool
}

// view is the immutable list of a log's segments by base offset; there is always one.
type view struct{ segments []*segment }

// changes counts changes of a directory, and how many of them are synced.
type changes struct{ made, synced uint64 }

func (c *changes) dirty() bool { return c.made != c.synced }

const (
	noUnstable   = math.MaxInt64
	neverCleaned = -1
)

func (l *Log) ID() ID { return l.id }

// TopicID is that of partition.metadata, zero when the directory has none.
func (l *Log) TopicID() [16]byte { return *l.topicID.Load() }

// Dir is the log directory (one of Dirs) that holds it.
func (l *Log) Dir() string { return l.dir.path }

// DirectoryID is that directory's, of meta.properties.
func (l *Log) DirectoryID() [16]byte { return l.dir.directoryID }

// Configure applies c from now on.
func (l *Log) Configure(c Config) { l.cfg.Store(c.withDefaults()) }

func (l *Log) config() *Config { return l.cfg.Load() }

func (l *Log) StartOffset() int64 { return l.start.Load() }

// EndOffset is the log end offset: the next to be written.
func (l *Log) EndOffset() int64 { return l.tail.end.Load() }

// SizeBytes is the size of the segments' .log files.
func (l *Log) SizeBytes() int64 {
	var size int64
	for _, s := range l.view.Load().segments {
		size += s.size.Load()
	}
	return size
}

// SegmentCount is at least 1.
func (l *Log) SegmentCount() int { return len(l.segments()) }

// DurableOffset is the end of what is fsynced.
func (l *Log) DurableOffset() int64 { return l.durable.Load() }

// HighWatermark and SetHighWatermark keep the offset that the checkpoint persists and retention respects;
// who sets it decides what it means.
func (l *Log) HighWatermark() int64 { return l.highWatermark.Load() }

// SetHighWatermark stores offset, held within [start, end].
func (l *Log) SetHighWatermark(offset int64) {
	offset = max(min(offset, l.EndOffset()), l.StartOffset())
	l.highWatermark.Store(offset)
	sched.Yield()
	if l.firstUnstable.Load() < offset {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.advanceUnstable()
	}
}

// Offsets are those between which a log is read, of one moment or of moments in this order, so that
// Start ≤ LastStable ≤ HighWatermark ≤ End while nothing is truncated.
type Offsets struct{ Start, LastStable, HighWatermark, End int64 }

// Offsets loads the high watermark before the first unstable offset: a transaction that begins between the two lies
// above it. The other way round an open transaction that is already below the high watermark would count as stable.
func (l *Log) Offsets() Offsets {
	o := Offsets{Start: l.StartOffset(), HighWatermark: l.HighWatermark()}
	sched.Yield()
	o.LastStable = max(min(l.firstUnstable.Load(), o.HighWatermark), o.Start)
	o.End = l.EndOffset()
	return o
}

// LastStableOffset is the first unstable offset, or the high watermark.
func (l *Log) LastStableOffset() int64 { return l.Offsets().LastStable }

// file is the path of a file of the partition's directory.
func (l *Log) file(name string) string { return path.Join(*l.path.Load(), name) }

func (l *Log) segments() []*segment { return l.view.Load().segments }

func (l *Log) active() *segment {
	s := l.segments()
	return s[len(s)-1]
}

func (l *Log) setSegments(s []*segment) { l.view.Store(&view{s}) }

func (l *Log) nowMs() int64 { return clock.Millis(l.store.o.Clock) }

// usable refuses work on a log that is closed or whose directory is offline. Callers hold mu, or accept that the
// answer ages.
func (l *Log) usable(op string) error {
	if err := l.dir.offlineError(); err != nil {
		return l.fault(op, -1, err)
	}
	if l.closed {
		return l.fault(op, -1, ErrClosed)
	}
	return nil
}

// writable is usable for work that adds to the log or needs to know the producers; it does what a truncation could not.
// Callers hold mu.
func (l *Log) writable(op string) error {
	if err := l.sound(op); err != nil {
		return err
	}
	if err := l.refreshProducers(); err != nil {
		return l.failed(op, -1, err)
	}
	return nil
}

// failed answers an operation whose IO error leaves the files unknown: the directory goes offline, unless the
// error is one that time heals. Where that leaves the middle of something that cannot be left there, it is made
// unhealed.
func (l *Log) failed(op string, offset int64, err error) error {
	l.dir.lacks(l.id, op, err)
	if !Heals(err) {
		l.dir.fail(err)
		err = fmt.Errorf("%w: %w", ErrOffline, err)
	}
	return l.fault(op, offset, err)
}
