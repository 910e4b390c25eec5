package raftlog

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"grete/internal/vfs"
)

// Without space nothing is committed and nothing is lost; with space it goes on by itself.
func TestWaitsForSpace(t *testing.T) {
	for name, kind := range map[string]vfs.OpKind{"write": vfs.OpWrite, "open": vfs.OpOpen} {
		faulty := vfs.NewFaulty(vfs.NewMem())
		r := startRig(t, faulty)
		r.commit(t, "before")
		var full atomic.Bool
		full.Store(true)
		faulty.Inject(func(o vfs.Op) error {
			if full.Load() && o.Kind == kind {
				return syscall.ENOSPC
			}
			return nil
		})
		committed := r.CommittedEnd()
		end := r.propose(t, "a", "b")
		time.Sleep(2 * roomEvery)
		if kind == vfs.OpWrite && r.CommittedEnd() != committed {
			t.Errorf("%s: committed without space", name)
		}
		if kind == vfs.OpWrite {
			if _, err := r.Propose(t.Context(), r.leader.Load().Epoch, values(t, "refused")); !errors.Is(err, ErrNoRoom) {
				t.Errorf("%s: %v", name, err)
			}
		}
		full.Store(false)
		r.await(t, func() bool { return r.CommittedEnd() >= end })
		r.commit(t, "after")
		if got, want := r.texts(t, committed-1), []string{"before", "a", "b", "after"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
		r.close(t)
	}
}

// A leader that waits for space cannot hand over, and says so in time: its stop goes on.
func TestResignsInTimeWithoutSpace(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	r := startRig(t, faulty)
	faulty.Inject(vfs.FailMatching(func(o vfs.Op) bool { return o.Kind == vfs.OpWrite }, syscall.ENOSPC))
	r.propose(t, "lost")
	time.Sleep(roomEvery / 2)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	resigned := make(chan error, 1)
	go func() { resigned <- r.Resign(ctx) }()
	select {
	case err := <-resigned:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("resigned: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it still waits")
	}
	faulty.Inject(nil)
	r.close(t)
}

// A node that waits for space can be stopped, and does not count that as a failure.
func TestStopsWhileItWaitsForSpace(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	r := startRig(t, faulty)
	faulty.Inject(vfs.FailMatching(func(o vfs.Op) bool { return o.Kind == vfs.OpWrite }, syscall.ENOSPC))
	r.propose(t, "lost")
	time.Sleep(roomEvery / 2)
	stopped := make(chan struct{})
	go func() { r.Stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Fatal("does not stop")
	}
	if err := r.Failure(); err != nil {
		t.Error(err)
	}
	faulty.Inject(nil)
	if err := r.store.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
}
