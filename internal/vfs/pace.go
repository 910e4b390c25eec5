package vfs

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"grete/internal/clock"
)

// Pace gives the operations of a Mem that change the disk time of their own, chosen by a seed. One Pace may serve
// several disks. Callers often hold locks meanwhile: in a synctest bubble those must be of internal/sched.
type Pace struct {
	clock  clock.Clock
	limits Delays

	mu  sync.Mutex
	rng *rand.Rand
}

// Delays bound what operations take: an operation takes up to its own bound, and one of a hundred, StallPercent of
// them, up to Stall more.
type Delays struct {
	Write, Sync, SyncDir, Rename time.Duration
	StallPercent                 int
	Stall                        time.Duration
}

// SlowDisk is a disk that is slow for its users and fast for a simulation.
var SlowDisk = Delays{
	Write: 200 * time.Microsecond, Sync: 20 * time.Millisecond, SyncDir: 10 * time.Millisecond, Rename: 2 * time.Millisecond,
	StallPercent: 1, Stall: 500 * time.Millisecond,
}

// NewPace draws the times from source, which nobody else uses.
func NewPace(c clock.Clock, source rand.Source, d Delays) *Pace {
	return &Pace{clock: c, limits: d, rng: rand.New(source)}
}

func (p *Pace) draw(kind OpKind) time.Duration {
	limit := map[OpKind]time.Duration{
		OpWrite: p.limits.Write, OpSync: p.limits.Sync, OpSyncDir: p.limits.SyncDir, OpRename: p.limits.Rename,
	}[kind]
	p.mu.Lock()
	defer p.mu.Unlock()
	d := time.Duration(p.rng.Int64N(int64(limit) + 1))
	if p.limits.Stall > 0 && p.rng.IntN(100) < p.limits.StallPercent {
		d += time.Duration(p.rng.Int64N(int64(p.limits.Stall) + 1))
	}
	return d
}

// SetPace makes writes, syncs and renames take time from now on; nil: they take none, as at the start.
// Operations under way end as they would have.
func (m *Mem) SetPace(p *Pace) { m.pace.Store(p) }

// Busy is the number of operations that take their time now. A simulation that looks at what a program has on disk and
// in memory waits until there are none: between two operations a program may be in the middle of something.
func (m *Mem) Busy() int { return int(m.busy.Load()) }

// take lets the time of an operation pass, before it is done.
func (m *Mem) take(kind OpKind) {
	p := m.pace.Load()
	if p == nil {
		return
	}
	m.busy.Add(1)
	defer m.busy.Add(-1)
	if d := p.draw(kind); d > 0 {
		_ = clock.Pause(context.Background(), p.clock, d)
	}
}
