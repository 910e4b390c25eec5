package logstore

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"grete/internal/clock"
	"grete/internal/memory"
	"grete/internal/sched"
	"grete/protocol/batch"
)

// cleaner compacts a store's logs (Kafka's LogCleaner and LogCleanerManager). Every log.cleaner.backoff.ms it starts as
// many goroutines as log.cleaner.threads allows; each takes the log with the largest share of dirty bytes, again and
// again, and ends when none is due. Between there is a timer and nothing else.
type cleaner struct {
	store    *Store
	cfg      atomic.Pointer[CleanerConfig]
	throttle throttle

	mu      sched.Mutex
	busy    map[*Log]bool // being compacted
	running int
	timer   clock.Timer
	closed  bool
	stats   cleanerStats
}

func newCleaner(s *Store) *cleaner {
	c := &cleaner{store: s, busy: map[*Log]bool{}, throttle: throttle{clock: s.o.Clock}}
	c.cfg.Store(s.o.Cleaner.withDefaults())
	c.stats.lastRun = s.o.Clock.Now()
	return c
}

// start arms the timer, unless the cleaner is disabled or closed.
func (c *cleaner) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	if cfg := c.cfg.Load(); !c.closed && !cfg.Disabled && cfg.Threads > 0 {
		c.timer = c.store.o.Clock.AfterFunc(max(cfg.Backoff, time.Millisecond), c.round)
	}
}

// configure applies cfg to what begins from now on; a new back-off counts from now.
func (c *cleaner) configure(cfg *CleanerConfig) {
	c.cfg.Store(cfg)
	c.start()
}

// close ends it; goroutines that run see the store's stop.
func (c *cleaner) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// round starts what goroutines may be missing, and the timer anew.
func (c *cleaner) round() {
	c.mu.Lock()
	for !c.closed && c.running < c.cfg.Load().Threads {
		c.running++
		c.store.background.Go(c.work)
	}
	c.mu.Unlock()
	c.start()
}

// work compacts logs until none is due. Logs that failed for want of space are left to the next round.
func (c *cleaner) work() {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
	}()
	tools := newCleanTools(c.cfg.Load().Memory)
	defer tools.loan.Return()
	failed := map[*Log]bool{}
	for !c.stopped() {
		r := c.take(failed)
		if r == nil {
			return
		}
		err := c.compact(r, tools)
		c.release(r.log)
		if err != nil {
			failed[r.log] = true
			c.note(r.log, err)
		}
	}
}

func (c *cleaner) stopped() bool {
	select {
	case <-c.store.stop:
		return true
	default:
		return false
	}
}

// take returns the log that is due and has the largest share of dirty bytes, and marks it busy; nil when none is due.
func (c *cleaner) take(except map[*Log]bool) *cleanRange {
	nowMs := clock.Millis(c.store.o.Clock)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.begin(c.store.o.Clock.Now())
	var best *cleanRange
	for _, l := range c.store.Logs() {
		if c.busy[l] || except[l] || !l.compactable() {
			continue
		}
		r, err := l.cleanRange(nowMs)
		if err != nil {
			except[l] = true
			c.note(l, err)
			continue
		}
		c.stats.seen(r)
		if r.due() && (best == nil || r.ratio() > best.ratio()) {
			best = r
		}
	}
	if best != nil {
		c.busy[best.log] = true
	}
	return best
}

// compactable: nothing but the active segment is left alone without a look.
func (l *Log) compactable() bool {
	return l.config().Compact && len(l.segments()) > 1 && !l.uncleanable.Load() && l.dir.offlineError() == nil
}

func (c *cleaner) release(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, l)
}

// cleanTools are what one goroutine uses for log after log: its buffers and its map, and the loan for them.
type cleanTools struct {
	loan   memory.Loan
	keys   offsetMap
	filter batch.Filter
	read   []byte
	out    []byte
}

func newCleanTools(lends *memory.Account) *cleanTools {
	t := &cleanTools{}
	t.loan.From(lends)
	return t
}

// compact runs one pass over r and checkpoints how far it came.
func (c *cleaner) compact(r *cleanRange, tools *cleanTools) error {
	cfg, started := c.cfg.Load(), c.store.o.Clock.Now()
	if err := r.secure(); err != nil {
		return err
	}
	if !tools.loan.Grow(max(cfg.loanBytes(r.end-r.dirty)-tools.loan.Bytes(), 0), c.store.stop, nil) {
		return r.log.fault("compact", -1, ErrClosed)
	}
	if err := tools.keys.reset(cfg.maxKeys(), r.end-r.dirty, cfg.LoadFactor, cfg.Entropy); err != nil {
		return err
	}
	p := &cleanPass{log: r.log, r: r, cfg: cfg, nowMs: started.UnixMilli(), cleanTools: tools, proceed: c.proceed(r.log, cfg)}
	p.filter.MaxHeldBytes = cfg.MaxHeldBytes
	p.reader.buf = sized(tools.read, cfg.bufferBytes())
	tools.read = p.reader.buf
	end, err := p.run()
	if err != nil {
		return &rangeError{r, err}
	}
	r.log.cleaned.Store(end)
	if err := r.log.dir.writeCheckpoint(cleanerFile); err != nil {
		return &writeError{err}
	}
	p.stats.DurationMs = c.store.o.Clock.Now().Sub(started).Milliseconds()
	c.compacted(r.log, p.stats)
	return nil
}

// secure makes durable what a compaction of r relies on: no record may go for the sake of a later one, or of a marker,
// that a crash could still take. The recovery point is written down as recovery asks (isHole).
func (r *cleanRange) secure() error {
	l := r.log
	if l.durable.Load() < r.decided || l.recovery.Load() < r.end {
		if err := l.flushNow(); err != nil {
			return err
		}
	}
	if err := l.dir.writeCheckpoint(recoveryPointFile); err != nil {
		return &writeError{err}
	}
	return nil
}

// sized is buf with that size, or a new one.
func sized(buf []byte, sizeBytes int) []byte {
	if cap(buf) < sizeBytes {
		return make([]byte, sizeBytes)
	}
	return buf[:sizeBytes]
}

// proceed waits for the throttle, and ends a pass whose log or store is closing.
func (c *cleaner) proceed(l *Log, cfg *CleanerConfig) func(int) error {
	return func(n int) error {
		if !c.throttle.wait(n, cfg.MaxBytesPerSecond, c.store.stop) || l.deleted.Load() {
			return l.fault("compact", -1, ErrClosed)
		}
		return nil
	}
}

func (c *cleaner) compacted(l *Log, s cleanStats) {
	c.mu.Lock()
	c.stats.add(s)
	c.mu.Unlock()
	c.store.o.Log.Info().Str("log", l.id.String()).Int64("from", s.From).Int64("to", s.To).
		Int64("bytesRead", s.BytesRead).Int64("bytesWritten", s.BytesWritten).
		Int64("recordsRead", s.RecordsRead).Int64("recordsWritten", s.RecordsWritten).Int64("tookMs", s.DurationMs).Msg("log compacted")
	if s.KeylessRecords > 0 {
		c.store.o.Log.Warn().Str("log", l.id.String()).Int64("records", s.KeylessRecords).Msg("records without a key were removed from a compacted log")
	}
}

// note decides what an error means: that something overtook the compaction, nothing; lack of space or file descriptors,
// to try again; another failure to write, that the directory goes offline; what is left, that the log cannot be
// compacted.
func (c *cleaner) note(l *Log, err error) {
	overtaken := errors.Is(err, errCleanAborted) || errors.Is(err, ErrClosed) || errors.Is(err, ErrOffline) || l.overtaken(err)
	if overtaken {
		return
	}
	log := c.store.o.Log.Error().Str("log", l.id.String()).Err(err)
	var writing *writeError
	switch {
	case Heals(err):
		log.Msg("compaction failed for now")
	case errors.As(err, &writing):
		log.Msg("compaction could not write")
		l.dir.fail(err)
	default:
		l.uncleanable.Store(true)
		log.Msg("compaction failed: the log is left uncompacted until the next start")
	}
}

// overtaken: a file was not there, or shorter, because the log was truncated or deleted meanwhile.
func (l *Log) overtaken(err error) bool {
	if l.deleted.Load() {
		return true
	}
	var at *rangeError
	return errors.As(err, &at) && (errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist)) && l.stillHas(at.r, at.r.segments[:1]) != nil
}

// rangeError is the failure of the compaction of a range.
type rangeError struct {
	r *cleanRange
	error
}

func (e *rangeError) Unwrap() error { return e.error }
