package sim

import (
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"grete/internal/clock"
	"grete/internal/sched"
	"grete/internal/vfs"
)

// TestMain has goroutines that meet a held lock wait for it on the bubble's clock: brokers hold locks while a disk
// takes its time.
func TestMain(m *testing.M) {
	sched.PauseOnContention(pauseOnContention)
	os.Exit(m.Run())
}

// pauseOnContention is mostly short, so that locks are as fast as ever, and at times long, so that half a minute's
// fsync is a few thousand attempts.
func pauseOnContention() {
	pause := 100 * time.Microsecond
	for pause < time.Second && rand.IntN(2) == 0 {
		pause *= 4
	}
	time.Sleep(pause)
}

// derived are files, by a part of their names, that a log or the quorum makes again from others.
var derived = []string{
	".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint", "recovery-point-offset-checkpoint",
	"replication-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint",
}

// mount has the disk of a new life take its time.
func (m *machine) mount(fs *vfs.Mem) {
	fs.SetCapacity(diskBytes)
	fs.SetPace(m.pace(vfs.SlowDisk))
}

func (m *machine) pace(d vfs.Delays) *vfs.Pace {
	return vfs.NewPace(clock.System, rand.NewPCG(m.w.seed, uint64(m.w.intN(1<<30))), d)
}

// busy says whether some disk is at work.
func (w *world) busy() bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool { return m.now != nil && m.now.fs.Busy() > 0 })
}

// slowDisk has each fsync of a disk take long for a while: up to half a minute.
func (w *world) slowDisk(m *machine) {
	l := m.now
	if m.running() == nil {
		return
	}
	slow, limit, lasts := vfs.SlowDisk, w.dice.IntN(3), time.Duration(10+w.dice.IntN(60))*time.Second
	slow.Sync = w.stretch([]time.Duration{time.Second, 5 * time.Second, 30 * time.Second}[limit])
	slow.SyncDir = slow.Sync / 4
	w.trouble("an fsync takes up to %v on n%d, for %v", slow.Sync, m.id, w.stretch(lasts))
	w.done.slowDisks++
	l.fs.SetPace(m.pace(slow))
	time.AfterFunc(w.stretch(lasts), func() { l.fs.SetPace(m.pace(vfs.SlowDisk)) })
}

// lack has one kind of derived file of a disk fail for want of space or descriptors for a while.
func (w *world) lack(m *machine) {
	l := m.now
	if m.running() == nil {
		return
	}
	part, why := derived[w.dice.IntN(len(derived))], []error{syscall.ENOSPC, syscall.EMFILE}[w.dice.IntN(2)]
	lasts := w.stretch(time.Duration(w.dice.IntN(20_000)) * time.Millisecond)
	w.trouble("%s of n%d fail for %v: %v", part, m.id, lasts, why)
	w.done.lacks++
	l.files.Lack(part, why)
	time.AfterFunc(lasts, l.files.Heal)
}
