// Package clock is time as the rest of Grete sees it: nothing outside calls time.Now, time.Sleep or
// starts a timer of package time.
package clock

import "time"

// Clock tells the time and wakes callers later.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f on its own goroutine once d has passed (Manual: on the one that advances it).
	AfterFunc(d time.Duration, f func()) Timer
	// NewTicker ticks every d until stopped; slow receivers miss ticks.
	NewTicker(d time.Duration) Ticker
}

// Timer is a pending AfterFunc; Stop and Reset are those of time.Timer.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// Ticker delivers ticks on C.
type Ticker interface {
	C() <-chan time.Time
	Stop()
}

// System is the machine's clock.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time                            { return time.Now() }
func (system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
func (system) NewTicker(d time.Duration) Ticker          { return systemTicker{time.NewTicker(d)} }

type systemTicker struct{ *time.Ticker }

func (t systemTicker) C() <-chan time.Time { return t.Ticker.C }

// Millis is Now in milliseconds since the epoch, the unit of Kafka's timestamps.
func Millis(c Clock) int64 { return c.Now().UnixMilli() }
