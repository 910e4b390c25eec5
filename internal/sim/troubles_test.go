package sim

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"grete/cluster/metadata"
	"grete/internal/vfs"
)

// pause is the time between two troubles: mostly long enough to be noticed, at times none.
func (w *world) pause() time.Duration {
	switch w.dice.IntN(10) {
	case 0:
		return 0
	case 1, 2:
		return w.stretch(time.Duration(w.dice.IntN(300)) * time.Millisecond)
	case 3:
		return w.stretch(time.Duration(w.dice.IntN(60)) * time.Second)
	default:
		return w.stretch(time.Duration(w.dice.IntN(12_000)) * time.Millisecond)
	}
}

// step makes one trouble, or ends some.
func (w *world) step() {
	m := w.machines[w.dice.IntN(len(w.machines))]
	other := w.machines[w.dice.IntN(len(w.machines))]
	dice := w.dice.IntN(100)
	if w.fragile != nil && dice < 70 && w.recovers() {
		return
	}
	switch {
	case w.seed%7 == 3 && dice%5 == 0: // some worlds have much of one trouble
		w.halfJoin(m)
	case m.now == nil && dice < 60, w.down() > len(w.machines)/2 && dice < 80:
		w.restart()
	case dice < 14:
		w.kill(m)
	case dice < 22:
		w.losePower(m)
	case dice < 25:
		w.all()
	case dice < 30:
		w.stop(m)
	case dice < 34:
		w.wipe(m)
	case dice < 36:
		w.failFsync(m)
	case dice < 38:
		w.halfJoin(m)
	case dice < 40:
		w.fillDisk(m)
	case dice < 46:
		w.isolate(m)
	case dice < 56 && m != other:
		w.trouble("n%d no longer hears n%d", other.id, m.id)
		w.net.cut(m.host, other.host, true)
		w.done.cuts++
	case dice < 62 && m != other:
		w.trouble("connections between n%d and n%d are reset", m.id, other.id)
		w.net.resetSome(m.host, other.host)
	case dice < 70:
		w.jump(m)
	case dice < 73:
		w.slander(m)
	case dice < 76:
		w.slowDisk(m)
	case dice < 80:
		w.lack(m)
	case dice < 85:
		w.trouble("cuts are mended")
		w.net.mend(false)
	default:
		w.clients.change(w.dice)
	}
}

func (w *world) down() (n int) {
	for _, m := range w.machines {
		if m.now == nil {
			n++
		}
	}
	return n
}

func (w *world) restart() {
	for _, m := range w.machines {
		if m.now == nil && w.dice.IntN(2) == 0 {
			w.trouble("n%d starts", m.id)
			m.start()
		}
	}
}

// kill is kill -9, now or at one of the next writes.
func (w *world) kill(m *machine) {
	if m.now == nil {
		return
	}
	w.done.crashes++
	if w.dice.IntN(2) == 0 {
		n := 1 + w.dice.Int64N(40)
		w.trouble("n%d is killed at write %d", m.id, n)
		m.now.crashAt(n, false, 100)
		return
	}
	w.trouble("n%d is killed", m.id)
	m.now.crash(false, 100)
	if w.dice.IntN(2) == 0 { // back before anybody notices
		w.reap()
		m.start()
	}
}

// mayForget says whether what a machine has not fsynced may be lost without loss of what was acknowledged: always where
// all is fsynced; else when everybody runs and every partition has others in sync. Until it has recovered the others
// are spared.
func (w *world) mayForget(m *machine) bool { return w.durable || w.replaceable(m) }

// replaceable: other machines have every committed record that m has. Kafka elects m, empty, where m is the last known
// leader and nobody else is eligible (KIP-966).
func (w *world) replaceable(m *machine) bool {
	if w.fragile != nil {
		return false
	}
	for _, o := range w.machines {
		if o != m && (o.running() == nil || w.net.isolated(o.host)) {
			return false
		}
	}
	for t := range w.checks.image.Topics() {
		for _, p := range t.Partitions {
			if slices.Contains(slices.Concat(p.ISR, p.ELR, p.LastKnownELR), m.id) && !othersEligible(p, m.id) {
				return false
			}
		}
	}
	return true
}

// othersEligible: a broker other than n may lead p, and so has everything that is committed.
func othersEligible(p metadata.Partition, n int32) bool {
	return slices.ContainsFunc(slices.Concat(p.ISR, p.ELR), func(o int32) bool { return o != n })
}

// forgets begins the time in which only m has lost something, and nobody else may.
func (w *world) forgets(m *machine) {
	w.fragile = m
	w.net.mend(false)
	for _, o := range w.machines {
		if o != m && o.now != nil && !o.now.dying.Load() {
			o.now.files.Inject(nil)
		}
	}
}

// recovers says whether somebody has still not got back what it lost; if nobody runs there, it does from now on.
func (w *world) recovers() bool {
	if w.fragile.now == nil {
		w.trouble("n%d starts", w.fragile.id)
		w.fragile.start()
		return true
	}
	for t := range w.checks.image.Topics() {
		for _, p := range t.Partitions {
			if slices.Contains(p.Replicas, w.fragile.id) && !slices.Contains(p.ISR, w.fragile.id) {
				return true
			}
		}
	}
	b := w.checks.image.Broker(w.fragile.id)
	if w.fragile.running() == nil || b == nil || b.Epoch != w.fragile.running().Inside().Epoch {
		return true
	}
	w.fragile = nil
	return false
}

func (w *world) losePower(m *machine) {
	if m.now == nil || !w.mayForget(m) {
		return
	}
	w.done.powerLosses++
	keep := w.dice.IntN(101)
	if !w.durable {
		w.forgets(m)
	}
	if w.durable && w.dice.IntN(2) == 0 {
		n := 1 + w.dice.Int64N(40)
		w.trouble("n%d loses power at write %d, keeping %d%%", m.id, n, keep)
		m.now.crashAt(n, true, keep)
		return
	}
	w.trouble("n%d loses power, keeping %d%%", m.id, keep)
	m.now.crash(true, keep)
}

// all is the end of everybody at once.
func (w *world) all() {
	powerLoss, keep := w.durable && w.dice.IntN(2) == 0, 100
	if powerLoss {
		keep = w.dice.IntN(101)
	}
	w.trouble("all are killed; loss of power: %v, keeping %d%%", powerLoss, keep)
	for _, m := range w.machines {
		if m.now != nil {
			m.now.crash(powerLoss, keep)
			w.done.crashes++
		}
	}
	w.reap()
	time.Sleep(w.stretch(time.Duration(w.dice.IntN(5000)) * time.Millisecond))
	for _, m := range w.machines {
		m.start()
	}
}

func (w *world) stop(m *machine) {
	if m.running() == nil {
		return
	}
	w.trouble("n%d is stopped", m.id)
	w.done.stops++
	m.now.stop()
}

// wipe has a machine lose its partitions, every other time with its vote, its metadata log and its name, and start
// again.
func (w *world) wipe(m *machine) {
	if !w.replaceable(m) {
		return
	}
	w.forgets(m)
	if m.now != nil {
		m.now.crash(false, 100)
		w.reap()
	}
	if w.done.wipes++; w.done.wipes%2 == 0 {
		w.trouble("n%d loses its disk", m.id)
		w.done.lostDisks++
		m.disk = vfs.NewMem()
		m.start()
		return
	}
	w.trouble("n%d loses its partitions", m.id)
	entries, err := m.disk.ReadDir("/data")
	if err != nil {
		return // it never started
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), "__cluster_metadata") {
			_ = m.disk.RemoveAll("/data/" + e.Name())
		}
	}
	_ = m.disk.SyncDir("/data")
	m.start()
}

// failFsync has every fsync fail from one on: the process must end, and acknowledge nothing more.
func (w *world) failFsync(m *machine) {
	if m.running() == nil {
		return
	}
	w.trouble("n%d's fsyncs fail", m.id)
	w.done.failedFsyncs++
	m.now.dying.Store(true)
	m.now.files.Inject(vfs.FailMatching(func(op vfs.Op) bool { return op.Kind == vfs.OpSync }, syscall.EIO))
}

// fillDisk leaves no space for a while.
func (w *world) fillDisk(m *machine) {
	l := m.now
	if m.running() == nil {
		return
	}
	w.trouble("n%d's disk is full", m.id)
	l.fs.SetCapacity(1)
	time.AfterFunc(w.stretch(time.Duration(w.dice.IntN(8000))*time.Millisecond), func() { l.fs.SetCapacity(diskBytes) })
}

// isolate cuts a machine off from the other brokers, and sometimes from clients too.
func (w *world) isolate(m *machine) {
	w.trouble("n%d is cut off", m.id)
	w.done.cuts++
	for _, o := range w.machines {
		if o != m {
			w.net.cut(m.host, o.host, true)
			w.net.cut(o.host, m.host, true)
		}
	}
}

// halfJoin has a follower asked into an ISR whose leader does not hear the answer, and stops the follower then: what
// the leader gets acknowledged by the others is not committed, for the next leader may be that follower.
func (w *world) halfJoin(m *machine) {
	if w.down() > 0 || m.running() == nil {
		return
	}
	m.now.crash(false, 100)
	w.reap()
	w.done.crashes++
	time.Sleep(w.stretch(6 * time.Second)) // it leaves the ISRs
	m.start()
	leader := w.leaderThatLacks(m)
	if leader == nil {
		return
	}
	w.trouble("n%d leads and no longer hears the controller; n%d, which is about to join, is cut off soon", leader.id, m.id)
	w.done.halfJoins++
	for _, o := range w.machines {
		if o != leader && o != m {
			w.net.cut(o.host, leader.host, o.id == w.controllerID())
		}
	}
	time.Sleep(w.stretch(time.Duration(w.dice.IntN(1000)) * time.Millisecond))
	w.net.cut(m.host, leader.host, true)
	w.net.cut(leader.host, m.host, true)
	time.Sleep(w.stretch(time.Duration(5000+w.dice.IntN(4000)) * time.Millisecond))
	if leader.now != nil {
		leader.now.crash(false, 100)
	}
	w.reap()
	w.net.mend(false)
	w.look()
}

// leaderThatLacks waits for a leader, not of the quorum, that knows that m is in service and does not have it in an ISR
// yet.
func (w *world) leaderThatLacks(m *machine) *machine {
	for end := time.Now().Add(w.stretch(20 * time.Second)); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, o := range w.machines {
			n := o.running()
			if n == nil || o == m || o.id == w.controllerID() {
				continue
			}
			in := n.Inside()
			if b := in.Image.Broker(m.id); b == nil || !b.Active() || m.now == nil {
				continue
			}
			for t := range in.Image.Topics() {
				for _, p := range t.Partitions {
					if p.Leader == o.id && slices.Contains(p.Replicas, m.id) && !slices.Contains(p.ISR, m.id) {
						return o
					}
				}
			}
		}
	}
	return nil
}

// controllerID is who leads the quorum, as it believes itself; 0 when nobody does.
func (w *world) controllerID() int32 {
	for _, m := range w.machines {
		if n := m.running(); n != nil && n.Inside().Quorum.NodeID == m.id {
			return m.id
		}
	}
	return 0
}

// slander has everybody believe that a machine is gone, as gossip that was lost, delayed or forged could.
func (w *world) slander(m *machine) {
	w.trouble("n%d is said to be gone", m.id)
	w.done.slanders++
	for _, o := range w.machines {
		if n := o.running(); n != nil && o != m {
			n.Inside().Suspect(m.id)
		}
	}
}

// jump sets a clock forward or back, or right.
func (w *world) jump(m *machine) {
	m.skew = 0
	if w.dice.IntN(3) > 0 {
		m.skew = w.stretch(time.Duration(w.dice.IntN(60_000)-30_000) * time.Millisecond)
	}
	w.trouble("n%d's clock is off by %v", m.id, m.skew)
	w.done.jumps++
	if m.now != nil {
		m.now.clock.by.Store(int64(m.skew))
	}
}

// ended decides whether a process may have ended with err.
func (w *world) ended(l *life, err error) {
	w.log.Info().Err(err).Int32("node", l.m.id).Msg("a process has ended")
	// A node that lost its disk gives up on a quorum that has heard of its former life lately, and is started again.
	formerLife := strings.Contains(err.Error(), "is in use by a node with directory")
	expected := l.dying.Load() || formerLife || strings.Contains(err.Error(), "the controller does not let this broker in") ||
		!l.alive.Load() || errors.Is(err, syscall.ENOSPC) || errors.Is(err, fs.ErrClosed)
	if !expected {
		w.found("n%d ended by itself: %v", l.m.id, err)
	}
	l.crash(false, 100)
}

// heal ends all troubles; everybody gets time to recover.
func (w *world) heal() {
	w.trouble("everything is mended")
	w.net.mend(true)
	for _, m := range w.machines {
		m.skew = 0
		if m.now == nil {
			continue
		}
		m.now.fs.SetCapacity(diskBytes)
		m.now.fs.SetPace(m.pace(vfs.SlowDisk))
		m.now.files.Heal()
		m.now.clock.by.Store(0)
		if m.now.dying.Load() {
			m.now.crash(false, 100)
			continue
		}
		m.now.files.Inject(nil)
	}
	w.reap()
	for end := time.Now().Add(w.stretch(2 * time.Minute)); time.Now().Before(end); time.Sleep(w.stretch(time.Second)) {
		w.reap()
		for _, m := range w.machines {
			if m.now == nil {
				m.start()
			}
		}
	}
}
