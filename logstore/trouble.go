package logstore

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/loglimit"
)

const (
	// lateFlush is how long an fsync may take before it is told.
	lateFlush = 2 * time.Second
	// troubleLogEvery is how often lines about what a disk refuses are written.
	troubleLogEvery = 10 * time.Second
)

// lack is something that the machine has run out of, and gets back.
type lack struct {
	what  string
	errs  []error
	lines *loglimit.Limit
	times atomic.Int64
}

// trouble is what an operator must know of a store that goes on. Reaching the same again and again is one line in
// troubleLogEvery.
type trouble struct {
	space, descriptors lack
	lateLines          *loglimit.Limit
	late               atomic.Int32 // flushes under way for longer than lateFlush
}

func newTrouble(c clock.Clock) *trouble {
	return &trouble{
		space:       lack{what: "no space is left on the volume", errs: []error{syscall.ENOSPC, syscall.EDQUOT}, lines: loglimit.New(c, troubleLogEvery)},
		descriptors: lack{what: "the process is out of file descriptors", errs: []error{syscall.EMFILE, syscall.ENFILE}, lines: loglimit.New(c, troubleLogEvery)},
		lateLines:   loglimit.New(c, troubleLogEvery),
	}
}

// Trouble is what a store goes on with.
type Trouble struct {
	NoSpace, NoDescriptors int64     // operations refused for want of them, since the start
	LastNoDescriptors      time.Time // zero: never
	LateFlushes            int       // under way for longer than lateFlush
}

// Trouble tells it of now. Which directories lack space is DirInfo's.
func (s *Store) Trouble() Trouble {
	t := Trouble{NoSpace: s.trouble.space.times.Load(), NoDescriptors: s.trouble.descriptors.times.Load(), LateFlushes: int(s.trouble.late.Load())}
	if ms := s.noDescriptorsMs.Load(); ms > 0 {
		t.LastNoDescriptors = time.UnixMilli(ms)
	}
	return t
}

// lacks notes an operation that was refused for want of something, if that is what err is.
func (d *logDir) lacks(id ID, op string, err error) {
	t := d.store.trouble
	for _, l := range []*lack{&t.space, &t.descriptors} {
		for _, e := range l.errs {
			if !errors.Is(err, e) {
				continue
			}
			if nowMs := clock.Millis(d.store.o.Clock); l == &t.space {
				d.noSpaceMs.Store(nowMs)
			} else {
				d.store.noDescriptorsMs.Store(nowMs)
			}
			l.times.Add(1)
			l.lines.Write(&d.store.o.Log, zerolog.ErrorLevel, func(e *zerolog.Event) {
				e.Str("dir", d.path).Stringer("log", id).Str("operation", op).Err(err).Msg("refused: " + l.what)
			})
			return
		}
	}
}

// timed runs a flush of l, and tells when it takes long, while it does.
func (l *Log) timed(flush func() error) error {
	s := l.store
	begun := s.o.Clock.Now()
	var settled atomic.Bool // by the first of the two: the flush is late, or it has ended
	timer := s.o.Clock.AfterFunc(lateFlush, func() {
		if settled.Swap(true) {
			return
		}
		s.trouble.late.Add(1)
		s.trouble.lateLines.Write(&s.o.Log, zerolog.WarnLevel, func(e *zerolog.Event) {
			e.Str("dir", l.dir.path).Stringer("log", l.id).Dur("after", lateFlush).Msg("a flush to disk is late")
		})
	})
	err := flush()
	if settled.Swap(true) {
		s.trouble.late.Add(-1)
	}
	timer.Stop()
	if s.o.OnFlush != nil {
		s.o.OnFlush(s.o.Clock.Now().Sub(begun))
	}
	return err
}
