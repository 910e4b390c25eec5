package vfs

import (
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"grete/internal/clock"
)

// paced does what takes time, once each, and returns what each took.
func paced(t *testing.T, seed uint64, d Delays) (took [4]time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemWithDir(t)
		f := create(t, m, "/d/a", "before")
		m.SetPace(NewPace(clock.System, rand.NewPCG(seed, 1), d))
		for i, do := range []func() error{
			func() error { _, err := f.WriteAt([]byte("x"), 0); return err },
			f.Sync,
			func() error { return m.Rename("/d/a", "/d/b") },
			func() error { return m.SyncDir("/d") },
		} {
			began := time.Now()
			if err := do(); err != nil {
				t.Error(err)
			}
			took[i] = time.Since(began)
		}
		m.SetPace(nil)
		began := time.Now()
		if err := f.Sync(); err != nil || time.Since(began) != 0 {
			t.Errorf("without a pace: %v after %v", err, time.Since(began))
		}
	})
	return took
}

func TestPaceIsSeeded(t *testing.T) {
	limits := Delays{Write: time.Millisecond, Sync: 20 * time.Millisecond, Rename: 3 * time.Millisecond, SyncDir: 10 * time.Millisecond}
	bounds := [4]time.Duration{limits.Write, limits.Sync, limits.Rename, limits.SyncDir}
	first, again, other := paced(t, 1, limits), paced(t, 1, limits), paced(t, 2, limits)
	if first != again || first == other {
		t.Fatalf("seed 1 took %v and %v, seed 2 %v", first, again, other)
	}
	for i, took := range first {
		if took <= 0 || took > bounds[i] {
			t.Fatalf("took %v, bounded by %v", first, bounds)
		}
	}
	limits.StallPercent, limits.Stall = 100, time.Hour
	if stalled := paced(t, 1, limits); stalled[1] < time.Second {
		t.Fatalf("a stalled sync took %v", stalled[1])
	}
}

// TestSlowOperationsHappenAtTheirEnd: what a crash finds meanwhile is not durable.
func TestSlowOperationsHappenAtTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemWithDir(t)
		f := create(t, m, "/d/a", "data")
		if err := errors.Join(m.SyncDir("/"), m.SyncDir("/d")); err != nil {
			t.Fatal(err)
		}
		m.SetPace(NewPace(clock.System, rand.NewPCG(1, 1), Delays{StallPercent: 100, Stall: time.Second}))
		var wg sync.WaitGroup
		wg.Go(func() { _ = f.Sync() })
		synctest.Wait()
		if m.Busy() != 1 {
			t.Errorf("%d operations under way", m.Busy())
		}
		if got := content(t, m.CrashClone(rand.New(rand.NewPCG(1, 1)), 0), "/d/a"); got == "data" {
			t.Errorf("%q is durable before the sync has ended", got)
		}
		wg.Wait()
		if got := content(t, m.CrashClone(rand.New(rand.NewPCG(1, 1)), 0), "/d/a"); got != "data" || m.Busy() != 0 {
			t.Errorf("%q is durable, %d operations under way", got, m.Busy())
		}
	})
}

func TestLackMeetsOneFileAndHeals(t *testing.T) {
	f := NewFaulty(newMemWithDir(t))
	a, b := create(t, f, "/d/1.index", ""), create(t, f, "/d/1.log", "")
	write := func(f File) error { _, err := f.WriteAt([]byte("x"), 0); return err }
	open := func(name string) error {
		o, err := f.OpenFile(name, os.O_RDONLY, 0)
		if err == nil {
			err = o.Close()
		}
		return err
	}
	for _, c := range []struct {
		err         error
		write, open error
	}{{syscall.ENOSPC, syscall.ENOSPC, nil}, {syscall.EMFILE, nil, syscall.EMFILE}} {
		f.Lack(".index", c.err)
		if err := write(a); !errors.Is(err, c.write) {
			t.Errorf("%v: writing: %v", c.err, err)
		}
		if err := open("/d/1.index"); !errors.Is(err, c.open) {
			t.Errorf("%v: opening: %v", c.err, err)
		}
		if err := errors.Join(write(b), open("/d/1.log")); err != nil {
			t.Errorf("%v met another file: %v", c.err, err)
		}
		f.Heal()
		if err := errors.Join(write(a), open("/d/1.index")); err != nil {
			t.Errorf("%v did not heal: %v", c.err, err)
		}
	}
}
