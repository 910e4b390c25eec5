package node

import (
	"fmt"
	"sync/atomic"
	"time"

	"grete/internal/clock"
)

// progress is what a node is doing, or waits for, until it has started. Readiness says it, and for how long already.
type progress struct {
	clock clock.Clock
	at    atomic.Pointer[activity] // nil: it has started
	why   atomic.Pointer[func() string]
}

type activity struct {
	what, reason string
	since        time.Time
}

// doing begins a step.
func (p *progress) doing(what string) { p.waits(what, "") }

// waits tells the reason of a wait; it goes on for as long as what stays the same. The goroutine of the start calls it.
func (p *progress) waits(what, reason string) {
	since := p.clock.Now()
	if before := p.at.Load(); before != nil && before.what == what {
		since = before.since
	}
	p.at.Store(&activity{what, reason, since})
}

// because names where to ask for the reason of a wait that has told none; "" is none.
func (p *progress) because(why func() string) { p.why.Store(&why) }

func (p *progress) done() { p.at.Store(nil) }

// pending is what the start is at; nil: it is over.
func (p *progress) pending() error {
	a := p.at.Load()
	if a == nil {
		return nil
	}
	text, reason := a.what, a.reason
	if why := p.why.Load(); why != nil && reason == "" {
		reason = (*why)()
	}
	if reason != "" {
		text += ": " + reason
	}
	if lasts := p.clock.Now().Sub(a.since).Truncate(time.Second); lasts > 0 {
		text += fmt.Sprintf("; for %v", lasts)
	}
	return fmt.Errorf("starting: %s", text)
}

// slowestLines is the longest interval between two lines of one wait.
const slowestLines = 10 * time.Minute

// pace spaces the log lines of one wait: the first one when it has lasted for loggedWait, the others after intervals
// that double, whatever the reason has become meanwhile.
type pace struct {
	clock    clock.Clock
	began    time.Time
	next     time.Time
	interval time.Duration
}

func newPace(c clock.Clock) *pace {
	now := c.Now()
	return &pace{clock: c, began: now, next: now.Add(loggedWait), interval: loggedWait}
}

// lasts is how long the wait has been going on.
func (p *pace) lasts() time.Duration { return p.clock.Now().Sub(p.began) }

// due says whether it is time for a line.
func (p *pace) due() bool {
	now := p.clock.Now()
	if now.Before(p.next) {
		return false
	}
	p.interval = min(2*p.interval, slowestLines)
	p.next = now.Add(p.interval)
	return true
}
