package replica

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"grete/cluster/metadata"
	"grete/internal/vfs"
)

// movable is a bench with two directories, whose mover the test plays.
func movable(t *testing.T) *replicated {
	return newReplicatedOn(t, vfs.NewMem(), "/more")
}

func elsewhere(p *Partition) string {
	if p.Log().Dir() == "/data" {
		return "/more"
	}
	return "/data"
}

// round is one of the mover's.
func (r *replicated) round(t *testing.T) (moving bool) {
	moving, _ = r.manager.mover.round(t.Context())
	return moving
}

// moves plays the mover to the end.
func (r *replicated) moves(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Microsecond) { // a flush may be about to end
		if !r.round(t) {
			return
		}
	}
	t.Fatal("the log does not arrive")
}

// The log moves while it is written, read and truncated, and is the same afterwards.
func TestMove(t *testing.T) {
	r := movable(t)
	p := r.following(40)
	err := p.replicate(0, fetched{offset: 40, highWatermark: 30, logStart: 3})
	requireError(t, err, nil)
	to := elsewhere(p)
	requireError(t, r.manager.MoveTo("t", 0, to), nil)
	requireError(t, r.manager.MoveTo("t", 0, to), nil) // it does already
	future := p.future.Load()
	if n, err := p.copyToFuture(500); err != nil || n == 0 || future.EndOffset() >= 40 {
		t.Fatalf("copied %d bytes to %d, %v", n, future.EndOffset(), err)
	}
	requireError(t, p.reconcile(0, EpochEnd{0, 4}), nil) // below what is copied
	if future.EndOffset() > 4 {
		t.Errorf("the copy has %d records of 4", future.EndOffset())
	}
	r.elect(3, 3)
	r.append(p, 1, 20)
	old := p.Log()
	r.moves(t)
	if p.Log() == old || p.Log() != future || p.Log().Dir() != to || p.future.Load() != nil {
		t.Fatalf("the log is in %s", p.Log().Dir())
	}
	log := p.Log()
	if log.StartOffset() != 3 || log.EndOffset() != 24 || log.HighWatermark() != old.HighWatermark() || log.LatestEpoch() != 1 {
		t.Errorf("%d–%d, high watermark %d, epoch %d", log.StartOffset(), log.EndOffset(), log.HighWatermark(), log.LatestEpoch())
	}
	if epoch, end := log.EpochEnd(0); epoch != 0 || end != 4 {
		t.Errorf("epoch 0 ends as %d at %d", epoch, end)
	}
	r.append(p, 1, 5)
	requireError(t, r.manager.MoveTo("t", 0, to), nil)
	if p.future.Load() != nil {
		t.Error("it moves to where it is")
	}
	r.elect(1, 1)
	r.writes(p, 3)
	requireHW(t, p, 32)
}

// An epoch that has no records yet is not lost.
func TestMoveOfANewLeader(t *testing.T) {
	r := movable(t)
	p := r.following(2)
	r.elect(1, 1)
	requireError(t, r.manager.MoveTo("t", 0, elsewhere(p)), nil)
	r.moves(t)
	if p.Log().LatestEpoch() != 1 {
		t.Errorf("the latest epoch is %d", p.Log().LatestEpoch())
	}
	if a := produce(t, p, AckAll); a.BaseOffset != 2 {
		t.Errorf("%+v", a)
	}
}

func TestMoveIsRefused(t *testing.T) {
	r := movable(t)
	p := r.replicate(1, 1)
	r.writes(p, 3)
	for what, c := range map[string]struct {
		topic, dir string
		want       error
	}{
		"no such directory":     {"t", "/none", ErrUnknownLogDir},
		"no such topic":         {"none", "/more", ErrUnknownTopicOrPartition},
		"a name that is longer": {strings.Repeat("x", 249), "/more", ErrTopicTooLong},
	} {
		if err := r.manager.MoveTo(c.topic, 0, c.dir); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Back to where it is: the move is off.
	to := elsewhere(p)
	requireError(t, r.manager.MoveTo("t", 0, to), nil)
	requireError(t, r.manager.MoveTo("t", 0, p.Log().Dir()), nil)
	if p.future.Load() != nil || len(r.store.Futures()) > 0 || r.round(t) {
		t.Error("it is still moving")
	}
}

// A partition that comes later is made where it was wanted.
func TestPreferredDirectory(t *testing.T) {
	for _, dir := range []string{"/data", "/more"} {
		r := movable(t)
		for i := range 4 {
			if err := r.manager.MoveTo("t", int32(i), dir); !errors.Is(err, ErrUnknownTopicOrPartition) {
				t.Fatal(err)
			}
		}
		r.create("t", 4)
		for i := range 4 {
			if got := r.partition("t", int32(i)).Log().Dir(); got != dir {
				t.Errorf("partition %d is in %s, not in %s", i, got, dir)
			}
		}
		if len(r.manager.preferred) != 0 {
			t.Errorf("%d directories are remembered", len(r.manager.preferred))
		}
	}
	r := movable(t)
	for i := range int32(maxPreferred + 10) {
		_ = r.manager.MoveTo("t", i, "/more")
	}
	if n := len(r.manager.preferred); n != maxPreferred {
		t.Errorf("%d directories are remembered", n)
	}
}

// Throttled, the mover waits; and it goes on when the rate is raised.
func TestMoveIsThrottled(t *testing.T) {
	r := movable(t)
	p := r.following(60)
	r.manager.mover.rate.Set(1)
	requireError(t, r.manager.MoveTo("t", 0, elsewhere(p)), nil)
	r.manager.mover.rate.Record(10)
	done := make(chan bool)
	go func() {
		defer close(done)
		r.round(t)
	}()
	for deadline := time.Now().Add(patience); r.clock.Pending() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if p.future.Load().EndOffset() != 0 {
		t.Error("bytes were copied")
	}
	r.manager.mover.rate.Set(1 << 40)
	r.clock.Advance(time.Second)
	<-done
	r.moves(t)
	if p.Log().EndOffset() != 60 {
		t.Errorf("%d records", p.Log().EndOffset())
	}
}

// The move survives a restart, and a topic's end ends it.
func TestMoveGoesOnAfterRestart(t *testing.T) {
	fs := vfs.NewMem()
	var moved []string
	for life := range 3 {
		r := newReplicatedOn(t, fs, "/more")
		p := r.replicate(2, 2)
		switch life {
		case 0:
			r.append(p, 0, 50)
			requireError(t, r.manager.MoveTo("t", 0, elsewhere(p)), nil)
			if _, err := p.copyToFuture(500); err != nil {
				t.Fatal(err)
			}
		case 1:
			if f := p.future.Load(); f == nil || f.EndOffset() == 0 || f.EndOffset() == 50 {
				t.Fatal("the move is forgotten")
			}
			r.moves(t)
		}
		moved = append(moved, fmt.Sprint(p.Log().Dir(), p.Log().EndOffset()))
		if err := r.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if moved[0] == moved[1] || moved[1] != moved[2] {
		t.Errorf("the log was in %v", moved)
	}
	r := movable(t)
	p := r.following(5)
	requireError(t, r.manager.MoveTo("t", 0, elsewhere(p)), nil)
	r.apply(&metadata.RemoveTopicRecord{ID: idOf("t")})
	if r.round(t) || len(r.store.Futures()) > 0 {
		t.Error("a deleted topic moves")
	}
}

// At a rate that allows one piece at a time, all logs that move get their pieces in turn, also when the first grows
// meanwhile.
func TestThrottledMovesTakeTurns(t *testing.T) {
	const moving = 3
	r := movable(t)
	r.create("u", moving)
	r.manager.mover.rate.Set(1)
	for i := range int32(moving) {
		produce(t, r.partition("u", i), AckLeader)
		requireError(t, r.manager.MoveTo("u", i, elsewhere(r.partition("u", i))), nil)
	}
	for piece := range int32(moving) {
		done := make(chan bool)
		go func() {
			defer close(done)
			r.round(t)
		}()
		for deadline := time.Now().Add(patience); r.clock.Pending() == 0 && time.Now().Before(deadline); {
			select {
			case <-done:
				deadline = time.Time{}
			case <-time.After(time.Millisecond):
			}
		}
		r.clock.Advance(time.Hour)
		<-done
		if f := r.partition("u", piece).future.Load(); f == nil || f.EndOffset() == 0 {
			t.Fatalf("after %d pieces the log of u-%d has none", piece+1, piece)
		}
		produce(t, r.partition("u", 0), AckLeader)
	}
	r.manager.mover.rate.Set(1 << 40)
	r.moves(t)
}

// A partition that is deleted while its log moves is forgotten.
func TestDeletedPartitionIsNotMoved(t *testing.T) {
	r := movable(t)
	r.create("u", 1)
	p := r.partition("u", 0)
	produce(t, p, AckLeader)
	requireError(t, r.manager.MoveTo("u", 0, elsewhere(p)), nil)
	r.apply(&metadata.RemoveTopicRecord{ID: idOf("u")})
	if r.round(t) || len(r.manager.mover.moving) > 0 {
		t.Error("it moves still")
	}
}
