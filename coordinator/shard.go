package coordinator

import (
	"sync/atomic"

	"grete/internal/clock"
	"grete/internal/sched"
)

// Bounds of one shard; reaching the first two is answered with ErrOverloaded, except to the shard's own operations.
const (
	// maxMailbox is how many operations may wait for the shard.
	maxMailbox = 8192
	// maxUncommitted is how many answers may wait for the high watermark.
	maxUncommitted = 16384
	// maxBatchBytes is where a batch of several operations is cut; one operation alone may be larger.
	maxBatchBytes = 512 << 10
)

type phase int8

const (
	loading phase = iota
	active
	failed  // the log could not be read; not served until the next election
	closing // leadership lost, or shutdown
)

// shard runs operations one after another. No goroutine belongs to it while it has nothing to do: whoever submits to
// an idle shard works for it, one round, and a goroutine takes over when more has come in meanwhile.
type shard[M Machine] struct {
	rt        *Runtime[M]
	partition int32
	epoch     int32
	log       PartitionLog

	mu      sched.Mutex
	phase   phase
	queue   []Op[M]
	chores  []func() // the shard's own work: timers, loading done, unloading; not bounded, not refused
	running bool

	// What follows belongs to whoever runs; spare is the queue of the round before.
	machine     M
	spare       []Op[M]
	nowMs       int64
	timers      timers
	pending     pending[M]
	end         int64 // of the log, as far as this shard has read or appended
	uncommitted atomic.Int32
	parked      []*parked
	commitTimer Timer
	wake        clock.Timer
	wakeMs      int64
}

// submit queues op, or refuses it. It may run it before it returns.
func (s *shard[M]) submit(op Op[M]) {
	if err := s.enqueue(op); err != nil {
		op.Refuse(err)
	}
}

func (s *shard[M]) enqueue(op Op[M]) error {
	s.mu.Lock()
	switch {
	case s.phase == loading:
		s.mu.Unlock()
		return ErrLoading
	case s.phase != active:
		s.mu.Unlock()
		return ErrNotCoordinator
	case !op.Continues && s.full():
		s.mu.Unlock()
		return ErrOverloaded
	}
	s.queue = append(s.queue, op)
	mine := !s.running
	s.running = true
	s.mu.Unlock()
	switch {
	case mine && op.Background:
		go s.drain()
	case mine:
		s.round()
		s.handOver()
	}
	return nil
}

// full tells whether clients must wait; mu is held.
func (s *shard[M]) full() bool {
	return len(s.queue) >= maxMailbox || s.uncommitted.Load() >= maxUncommitted
}

// chore queues the shard's own work and does it unless somebody is at work already.
func (s *shard[M]) chore(f func()) {
	s.mu.Lock()
	s.chores = append(s.chores, f)
	mine := !s.running
	s.running = true
	s.mu.Unlock()
	if mine {
		s.drain()
	}
}

// handOver ends a submitter's work for the shard; what came in meanwhile goes to a goroutine.
func (s *shard[M]) handOver() {
	if s.idle() {
		return
	}
	go s.drain()
}

func (s *shard[M]) drain() {
	for {
		s.round()
		if s.idle() {
			return
		}
	}
}

// idle gives the shard up if there is nothing to do.
func (s *shard[M]) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = len(s.queue) > 0 || len(s.chores) > 0
	return !s.running
}

// round does everything that is queued now. Operations of one round share appends.
func (s *shard[M]) round() {
	s.mu.Lock()
	ops, chores, ph := s.queue, s.chores, s.phase
	s.queue, s.chores, s.spare = s.spare[:0], nil, nil
	s.mu.Unlock()
	s.nowMs = clock.Millis(s.rt.opts.Clock)
	for _, f := range chores {
		f()
	}
	for i := range ops {
		if ph == active {
			s.run(&ops[i])
		} else {
			ops[i].Refuse(ErrNotCoordinator)
		}
	}
	s.flushAll()
	s.arm()
	clear(ops)
	s.spare = ops[:0]
}

func (s *shard[M]) run(op *Op[M]) {
	s.decide(op.Key, op.Blind, func(tx *Tx) { op.Run(s.machine, tx) })
}

// decide runs one operation on the applied state; operations whose effects it could miss are appended first.
func (s *shard[M]) decide(key string, blind bool, run func(*Tx)) {
	if s.pending.conflicts(key, blind) {
		s.flush()
	}
	tx := &Tx{NowMs: s.nowMs, Epoch: s.epoch, timers: &s.timers}
	run(tx)
	s.settle(tx, key, blind)
}

// settle takes what tx decided into the batch that is being gathered; without records its answers wait for what is
// in the log already.
func (s *shard[M]) settle(tx *Tx, key string, blind bool) {
	switch {
	case len(tx.records) == 0 && tx.marker == nil:
		s.release(tx.replies)
	case tx.alone():
		s.flush()
		s.pending.add(tx, key, blind)
		s.flush()
	default:
		if s.pending.sizeBytes+tx.sizeBytes > maxBatchBytes {
			s.flush()
		}
		s.pending.add(tx, key, blind)
	}
	s.follow(tx)
}

// follow runs the operations that come after tx; others may be added when its records are applied.
func (s *shard[M]) follow(tx *Tx) {
	after, later := tx.after, tx.later
	tx.after, tx.later = nil, nil
	for _, n := range later {
		s.postpone(n)
	}
	for _, n := range after {
		s.decide(n.key, false, n.run)
	}
}

// postpone queues n for the next round.
func (s *shard[M]) postpone(n next) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chores = append(s.chores, func() {
		if s.leads() {
			s.decide(n.key, false, n.run)
		}
	})
}

func (s *shard[M]) leads() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == active
}

// arm sets the clock for the next timer.
func (s *shard[M]) arm() {
	atMs, ok := s.timers.nextMs()
	if !ok || s.wakeMs == atMs {
		return
	}
	s.wakeMs = atMs
	d := millis(max(0, atMs-s.nowMs))
	if s.wake == nil {
		s.wake = s.rt.opts.Clock.AfterFunc(d, func() { s.chore(s.fireTimers) })
		return
	}
	s.wake.Reset(d)
}

func (s *shard[M]) fireTimers() {
	s.wakeMs = 0
	for t := s.timers.due(s.nowMs); t != nil; t = s.timers.due(s.nowMs) {
		s.decide("", false, t.Fire)
	}
}

// close makes the shard refuse everything and, once it has come to rest, drop its state. It does not wait.
func (s *shard[M]) close() {
	s.mu.Lock()
	before := s.phase
	s.phase = closing
	s.mu.Unlock()
	switch before {
	case active:
		go s.chore(s.unload)
	case failed:
		s.rt.alive.Done()
	case loading, closing: // the loader ends by itself; closed already
	}
}

// unload is the last chore of a shard that was active.
func (s *shard[M]) unload() {
	s.flushAll()
	tx := &Tx{NowMs: s.nowMs, Epoch: s.epoch, timers: &s.timers}
	s.machine.Unloaded(tx)
	for _, reply := range tx.replies {
		reply(nil)
	}
	for _, p := range s.parked {
		p.answer(ErrNotCoordinator)
	}
	s.parked = nil
	s.timers = timers{}
	if s.wake != nil {
		s.wake.Stop()
	}
	s.rt.alive.Done()
}
