package replica

import (
	"context"
	"errors"
	"slices"
	"time"

	"grete/internal/clock"
	"grete/internal/quota"
	"grete/internal/sched"
	"grete/logstore"
)

// mover copies logs that are to be in another log directory (KIP-113), one piece after another, at
// replica.alter.log.dirs.io.max.bytes.per.second for all together. When the copy has everything it takes the log's
// place.
type mover struct {
	m    *Manager
	rate *quota.Rate
	wake chan struct{} // holds one
	task task

	mu     sched.Mutex
	coming []*Partition // begin to move, and are not in moving yet

	// The goroutine's own. A round ends when each of moving has had its piece; next is whose turn it is.
	moving  []*Partition
	next    int
	failing map[*Partition]bool // of which it was told
}

const (
	moveChunkBytes = 1 << 20
	// moveAgainAfter: a copy that has everything, but not durably, or whose reading or writing failed.
	moveAgainAfter = 100 * time.Millisecond
)

func (v *mover) start() { v.task.start(v.run) }
func (v *mover) stop()  { v.task.stop() }

func (v *mover) run(ctx context.Context) {
	for await(ctx, v.wake) {
		for ctx.Err() == nil {
			moving, progress := v.round(ctx)
			if !moving {
				break
			}
			if !progress {
				_ = clock.Pause(ctx, v.m.o.Clock, moveAgainAfter)
			}
		}
	}
}

// move has the log of p, whose future is set, copied from now on.
func (v *mover) move(p *Partition) {
	v.mu.Lock()
	v.coming = append(v.coming, p)
	v.mu.Unlock()
	poke(v.wake)
}

// begin begins a round with all that move, each once.
func (v *mover) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.moving, v.coming = append(v.moving, v.coming...), nil
	seen := make(map[*Partition]bool, len(v.moving))
	v.moving = slices.DeleteFunc(v.moving, func(p *Partition) bool {
		again := seen[p]
		seen[p] = true
		if p.future.Load() == nil {
			delete(v.failing, p)
			return true
		}
		return again
	})
	v.next = 0
}

// round copies one piece of every log that moves. One that the rate has ended early goes on where it was.
func (v *mover) round(ctx context.Context) (moving, progress bool) {
	if v.next == len(v.moving) {
		v.begin()
	}
	for v.next < len(v.moving) && ctx.Err() == nil {
		if wait := v.rate.Wait(); wait > 0 {
			_ = clock.Pause(ctx, v.m.o.Clock, min(wait, time.Second)) // the rate may be changed
			return true, true
		}
		p := v.moving[v.next]
		v.next++
		if p.future.Load() == nil { // it stays, or is gone
			continue
		}
		n, err := p.copyToFuture(moveChunkBytes)
		v.rate.Record(n)
		if err == nil && n == 0 {
			err = v.promote(p)
		}
		v.note(p, err)
		progress = progress || err == nil
	}
	return len(v.moving) > 0, progress
}

// note tells of a failure once.
func (v *mover) note(p *Partition, err error) {
	if err == nil || errors.Is(err, errNotYet) {
		delete(v.failing, p)
		return
	}
	if !v.failing[p] {
		v.m.o.Log.Warn().Err(err).Str("topic", p.Topic).Int32("partition", p.Index).Msg("a log cannot be moved; trying again")
	}
	if v.failing == nil {
		v.failing = map[*Partition]bool{}
	}
	v.failing[p] = true
}

var errNotYet = errors.New("not yet")

// copyToFuture appends to the future log what follows in the log, and returns how many bytes; 0: there is nothing more.
func (p *Partition) copyToFuture(maxBytes int) (int, error) {
	p.mu.Lock()
	s, future, cuts := p.state.Load(), p.future.Load(), p.cuts
	p.mu.Unlock()
	if future == nil || s.log == nil || s.offline != nil {
		return 0, errNotYet
	}
	offset := future.EndOffset()
	if start := s.log.StartOffset(); offset < start {
		return 1, future.RestartAt(start)
	}
	span, err := s.log.Read(offset, logstore.ReadOptions{MaxBytes: maxBytes, Bound: s.log.EndOffset(), MinOneBatch: true})
	if err != nil {
		return 0, err
	}
	defer span.Release()
	if span.SizeBytes == 0 {
		return 0, nil
	}
	raw, err := span.ReadAll()
	if err != nil {
		return 0, err
	}
	if raw, err = wholeBatches(raw); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.future.Load() != future || p.cuts != cuts { // it may be another log's end by now
		return 0, errNotYet
	}
	return len(raw), appendFetched(future, raw)
}

// promote puts the future log in the log's place if it has all of it.
func (v *mover) promote(p *Partition) error {
	if err := p.flushFuture(); err != nil {
		return err
	}
	v.m.applyMu.Lock()
	defer v.m.applyMu.Unlock()
	moved, err := p.promote(v.m.o.Store)
	if err != nil {
		return err
	}
	v.m.o.Log.Info().Str("topic", p.Topic).Int32("partition", p.Index).Str("dir", moved.Dir()).Msg("a log has moved")
	p.wake()
	v.m.settle(p) // the controller is to know
	return nil
}

// flushFuture makes the copy as durable as its log may have to be.
func (p *Partition) flushFuture() error {
	future := p.future.Load()
	if future == nil {
		return errNotYet
	}
	done := make(chan error, 1)
	future.FlushAsync(future.EndOffset(), func(err error) { done <- err })
	return <-done
}

func (p *Partition) promote(store *logstore.Store) (*logstore.Log, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, future := p.state.Load(), p.future.Load()
	if future == nil || s.offline != nil || p.flush.running || future.EndOffset() != s.log.EndOffset() || future.DurableOffset() < s.log.DurableOffset() {
		return nil, errNotYet
	}
	future.SetHighWatermark(s.log.HighWatermark())
	err := future.AdvanceStart(max(s.log.StartOffset(), future.StartOffset()))
	if err == nil && future.LatestEpoch() < s.log.LatestEpoch() { // one that has no records yet
		err = future.AssignEpoch(s.log.LatestEpoch())
	}
	if err != nil {
		return nil, err
	}
	if future, err = store.Promote(logstore.ID{Topic: p.Topic, Partition: p.Index}); err != nil {
		if errors.Is(err, logstore.ErrBusy) {
			err = errNotYet
		}
		return nil, err
	}
	next := *s
	next.log = future
	p.flush.reset()
	p.state.Store(&next)
	p.future.Store(nil)
	return future, nil
}

// cutTo truncates the log, and what was copied of it; p.mu is held.
func (p *Partition) cutTo(s *state, offset int64) error {
	p.cuts++
	p.flush.reset()
	err := s.log.TruncateTo(offset)
	if future := p.future.Load(); future != nil && err == nil && future.EndOffset() > s.log.EndOffset() {
		p.futureFailed(future.TruncateTo(s.log.EndOffset()))
	}
	return err
}

// restartAt drops all records; p.mu is held.
func (p *Partition) restartAt(s *state, offset int64) error {
	p.cuts++
	p.flush.reset()
	err := s.log.RestartAt(offset)
	if future := p.future.Load(); future != nil && err == nil {
		p.futureFailed(future.RestartAt(offset))
	}
	return err
}

// futureFailed gives up a move whose copy is of unknown content. Its directory is offline.
func (p *Partition) futureFailed(err error) {
	if err != nil {
		p.future.Store(nil)
	}
}

// MoveTo has the partition's log moved to dir, one of log.dirs; one that is there stays, and does not go where it was
// about to go. For a partition that is not here dir is remembered, in case it comes
// (ReplicaManager.alterReplicaLogDirs).
func (m *Manager) MoveTo(topic string, index int32, dir string) error {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	id := logstore.ID{Topic: topic, Partition: index}
	if !logstore.MayHaveFuture(id) {
		return ErrTopicTooLong
	}
	switch err := m.o.Store.DirOnline(dir); {
	case errors.Is(err, logstore.ErrNoSuchDir):
		return ErrUnknownLogDir
	case err != nil:
		return offlineError(err)
	}
	m.prefer(id, dir)
	p, err := m.Partition(topic, index)
	if err != nil {
		return err
	}
	s := p.state.Load()
	if s.offline != nil {
		return p.fail(s.offline)
	}
	if future := p.future.Load(); future != nil && future.Dir() != dir {
		if err := m.stopMoving(p); err != nil {
			return p.fail(logError(err))
		}
	}
	if s.log.Dir() == dir || p.future.Load() != nil {
		return nil
	}
	if len(m.o.Store.DirectoryIDs(false)) > 0 { // it may have the log, too
		return p.fail(offlineError(errDirOffline))
	}
	future, err := m.o.Store.CreateFuture(id, dir, s.config.Log)
	if err != nil {
		return p.fail(logError(err))
	}
	p.future.Store(future)
	m.mover.move(p)
	return nil
}

// stopMoving drops the copy.
func (m *Manager) stopMoving(p *Partition) error {
	p.stay()
	return m.o.Store.DropFuture(logstore.ID{Topic: p.Topic, Partition: p.Index})
}

// stay forgets the copy, which is about to go.
func (p *Partition) stay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.future.Store(nil)
}

// maxPreferred bounds the directories that are remembered for partitions that are not here.
const maxPreferred = 10_000

// prefer remembers where a partition that is not here is to be made.
func (m *Manager) prefer(id logstore.ID, dir string) {
	if m.o.Store.Log(id) == nil && len(m.preferred) < maxPreferred {
		if m.preferred == nil {
			m.preferred = map[logstore.ID]string{}
		}
		m.preferred[id] = dir
	}
}

// goOnMoving takes up the copies that were found at the start.
func (m *Manager) goOnMoving(p *Partition) {
	future := m.o.Store.Future(logstore.ID{Topic: p.Topic, Partition: p.Index})
	log := p.Log()
	if future == nil || log == nil {
		return
	}
	if future.TopicID() != log.TopicID() || future.EndOffset() > log.EndOffset() && future.TruncateTo(log.EndOffset()) != nil {
		_ = m.o.Store.DropFuture(future.ID())
		return
	}
	p.future.Store(future)
	m.mover.move(p)
}

// abandonedFutures removes copies of logs that are not here.
func (m *Manager) abandonedFutures() {
	for _, f := range m.o.Store.Futures() {
		if m.o.Store.Log(f.ID()) == nil {
			_ = m.o.Store.DropFuture(f.ID())
		}
	}
}

// notIn forgets the copies that were on their way to a directory that has failed.
func (p *Partition) notIn(dir string) {
	if future := p.future.Load(); future != nil && future.Dir() == dir {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.future.Store(nil)
	}
}
