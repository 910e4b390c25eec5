// Package loglimit keeps what happens often from flooding the log.
package loglimit

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
)

// Limit writes at most one line in a time, and tells with the next how many were suppressed. The clock's own mutex
// order: nothing is locked inside.
type Limit struct {
	clock clock.Clock
	every time.Duration

	mu         sync.Mutex
	last       time.Time
	suppressed int
}

// New makes a limit of one line per every.
func New(c clock.Clock, every time.Duration) *Limit { return &Limit{clock: c, every: every} }

// Write finishes an event of log at level with write, or counts it.
func (l *Limit) Write(log *zerolog.Logger, level zerolog.Level, write func(*zerolog.Event)) {
	now := l.clock.Now()
	l.mu.Lock()
	if !l.last.IsZero() && now.Sub(l.last) < l.every {
		l.suppressed++
		l.mu.Unlock()
		return
	}
	suppressed := l.suppressed
	l.last, l.suppressed = now, 0
	l.mu.Unlock()
	e := log.WithLevel(level)
	if suppressed > 0 {
		e = e.Int("suppressed", suppressed)
	}
	write(e)
}
