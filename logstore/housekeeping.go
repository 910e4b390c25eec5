package logstore

import (
	"errors"
	"time"

	"grete/internal/clock"
	"grete/internal/sched"
)

// housekeeping is the store's one goroutine: retention, producers that expire, and checkpoints.
func (s *Store) housekeeping(checks, producers, checkpoints clock.Ticker) {
	defer checks.Stop()
	defer producers.Stop()
	defer checkpoints.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-checks.C():
			s.clean()
		case <-producers.C():
			s.expireProducers()
		case <-checkpoints.C():
			s.checkpoint()
		}
	}
}

func (s *Store) checkpoint() {
	for _, d := range s.dirs {
		if d.offlineError() != nil {
			continue
		}
		if err := d.writeCheckpoints(); err != nil {
			s.o.Log.Error().Str("dir", d.path).Err(err).Msg("writing checkpoints")
		}
	}
}

// clean applies retention to all logs, directory by directory: first the starts rise, then they are checkpointed,
// then files go.
func (s *Store) clean() {
	nowMs := clock.Millis(s.o.Clock)
	for _, d := range s.dirs {
		if d.offlineError() == nil {
			d.clean(nowMs)
		}
	}
}

func (d *logDir) clean(nowMs int64) {
	var shrink []*Log
	for _, l := range d.logs() {
		due, err := l.retain(nowMs)
		d.warn(l, err)
		if due {
			shrink = append(shrink, l)
		}
	}
	if len(shrink) == 0 {
		return
	}
	if err := d.writeCheckpoint(logStartFile); err != nil {
		d.store.o.Log.Error().Str("dir", d.path).Err(err).Msg("writing the log start checkpoint")
		return
	}
	for _, l := range shrink {
		d.warn(l, l.removeBelowStart())
	}
}

func (d *logDir) warn(l *Log, err error) {
	if err != nil && !errors.Is(err, ErrClosed) {
		d.store.o.Log.Error().Str("log", l.id.String()).Err(err).Msg("retention")
	}
}

// expireProducers forgets what producer.id.expiration.ms allows to, in all logs.
func (s *Store) expireProducers() {
	nowMs := clock.Millis(s.o.Clock)
	for _, d := range s.dirs {
		if d.offlineError() != nil {
			continue
		}
		for _, l := range d.logs() {
			l.expireProducers(nowMs)
		}
	}
}

func (l *Log) expireProducers(nowMs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.producers.expire(nowMs, l.config().ProducerIDExpirationMs)
}

// pendingWork is removals that wait for file.delete.delay.ms. They are as many as the segments and logs deleted
// within that time.
type pendingWork struct {
	mu     sched.Mutex
	next   int
	timers map[int]clock.Timer
	closed bool
}

// later runs f after delayMs, or never when the store closes first: the next start finishes what f would do.
func (s *Store) later(delayMs int64, f func()) {
	p := &s.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if p.timers == nil {
		p.timers = map[int]clock.Timer{}
	}
	n := p.next
	p.next++
	s.background.Add(1)
	p.timers[n] = s.o.Clock.AfterFunc(time.Duration(max(delayMs, 0))*time.Millisecond, func() {
		defer s.background.Done()
		if p.take(n) {
			f()
		}
	})
}

func (p *pendingWork) take(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.timers[n]
	delete(p.timers, n)
	return ok
}

// cancelPending stops the removals that have not begun.
func (s *Store) cancelPending() {
	p := &s.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for n, t := range p.timers {
		if t.Stop() {
			delete(p.timers, n)
			s.background.Done()
		}
	}
}
