package clock

import (
	"container/heap"
	"sync"
	"time"
)

// Manual is a clock that stands still until Advance moves it, for tests. Functions of AfterFunc run on the goroutine
// of Advance, one after the other in the order of their times, and may set new timers.
type Manual struct {
	mu      sync.Mutex
	now     time.Time
	pending alarms
	set     int64 // alarms ever set, which orders those of one moment
}

// NewManual returns a clock at now.
func NewManual(now time.Time) *Manual { return &Manual{now: now} }

// Now implements Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Advance moves time by d, stopping at each timer on the way to let it fire.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	end := m.now.Add(d)
	for len(m.pending) > 0 && !m.pending[0].at.After(end) {
		a := heap.Pop(&m.pending).(*alarm)
		at := a.at
		m.now = at
		if a.every > 0 {
			m.schedule(a, a.every)
		}
		m.mu.Unlock()
		a.fire(at)
		m.mu.Lock()
	}
	m.now = end
	m.mu.Unlock()
}

// Pending is the number of timers and tickers that are set.
func (m *Manual) Pending() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending)
}

// AfterFunc implements Clock; a d of 0 or less fires with the next Advance.
func (m *Manual) AfterFunc(d time.Duration, f func()) Timer {
	a := &alarm{clock: m, fire: func(time.Time) { f() }, index: -1}
	a.Reset(d)
	return a
}

// NewTicker implements Clock.
func (m *Manual) NewTicker(d time.Duration) Ticker {
	if d <= 0 {
		panic("clock: ticker interval is not positive")
	}
	t := &manualTicker{c: make(chan time.Time, 1)}
	t.alarm = &alarm{clock: m, every: d, index: -1, fire: func(at time.Time) {
		select {
		case t.c <- at:
		default: // a slow receiver misses ticks
		}
	}}
	t.alarm.Reset(d)
	return t
}

type manualTicker struct {
	alarm *alarm
	c     chan time.Time
}

func (t *manualTicker) C() <-chan time.Time { return t.c }
func (t *manualTicker) Stop()               { t.alarm.Stop() }

// alarm is a timer, or with every a ticker.
type alarm struct {
	clock *Manual
	fire  func(at time.Time)
	every time.Duration
	at    time.Time
	seq   int64
	index int // in pending, -1 when not set
}

func (a *alarm) Stop() bool {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	return a.clock.cancel(a)
}

func (a *alarm) Reset(d time.Duration) bool {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	was := a.clock.cancel(a)
	a.clock.schedule(a, d)
	return was
}

func (m *Manual) cancel(a *alarm) bool {
	if a.index < 0 {
		return false
	}
	heap.Remove(&m.pending, a.index)
	return true
}

func (m *Manual) schedule(a *alarm, d time.Duration) {
	m.set++
	a.at, a.seq = m.now.Add(max(d, 0)), m.set
	heap.Push(&m.pending, a)
}

// alarms is a heap by time, then by the order of setting.
type alarms []*alarm

func (q alarms) Len() int { return len(q) }
func (q alarms) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].seq < q[j].seq
	}
	return q[i].at.Before(q[j].at)
}
func (q alarms) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *alarms) Push(x any) {
	a := x.(*alarm)
	a.index = len(*q)
	*q = append(*q, a)
}
func (q *alarms) Pop() any {
	last := len(*q) - 1
	a := (*q)[last]
	a.index = -1
	(*q)[last] = nil
	*q = (*q)[:last]
	return a
}
