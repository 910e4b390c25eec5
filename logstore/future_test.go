package logstore

import (
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"grete/internal/vfs"
)

func twoDirs(fs vfs.FS) Options {
	o := testOptions(fs)
	o.Dirs = []string{"/a", "/b"}
	return o
}

// copied is a store with a log in /a or /b, and a future log in the other directory that has all of it.
func copied(t testing.TB, fs vfs.FS) (s *Store, l, future *Log) {
	t.Helper()
	s = openTest(t, twoDirs(fs))
	l = createTest(t, s, testConfig())
	for range 60 {
		appendTest(t, l, plain(t, 3, 20, 1000))
	}
	l.SetHighWatermark(180)
	must(t, l.AdvanceStart(7))
	flushTest(t, l)
	s.checkpoint()
	future, err := s.CreateFuture(testID, otherDir(l), testConfig())
	must(t, err)
	for _, b := range readBatches(t, l, 7, 180) {
		if future.EndOffset() == 0 {
			must(t, future.RestartAt(b.BaseOffset()))
		}
		must(t, future.AppendAsFollower(b))
	}
	future.SetHighWatermark(180)
	must(t, future.AdvanceStart(7))
	flushTest(t, future)
	return s, l, future
}

func otherDir(l *Log) string {
	if l.Dir() == "/a" {
		return "/b"
	}
	return "/a"
}

func requireMoved(t testing.TB, s *Store) *Log {
	t.Helper()
	l := s.Log(testID)
	if l == nil {
		t.Fatal("the log is lost")
	}
	if l.StartOffset() != 7 || l.EndOffset() != 180 {
		t.Fatalf("the log in %s is %d–%d", l.Dir(), l.StartOffset(), l.EndOffset())
	}
	if n := len(readBatches(t, l, 7, 180)); n != 58 {
		t.Fatalf("%d batches", n)
	}
	return l
}

func TestPromote(t *testing.T) {
	fs := vfs.NewMem()
	s, l, future := copied(t, fs)
	from, to := l.Dir(), future.Dir()
	if s.Future(testID) != future || len(s.Dirs()[0].Futures)+len(s.Dirs()[1].Futures) != 1 || s.Log(testID) != l {
		t.Error("the future log is not shown as such")
	}
	if _, err := s.CreateFuture(testID, "/c", testConfig()); !errors.Is(err, ErrNoSuchDir) {
		t.Errorf("a future log in no directory: %v", err)
	}
	moved, err := s.Promote(testID)
	must(t, err)
	if moved != future || requireMoved(t, s) != future || s.Future(testID) != nil {
		t.Error("the future log is not the log")
	}
	if _, err := l.Append(plain(t, 1, 10, 1), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("the old log takes writes: %v", err)
	}
	appendTest(t, moved, plain(t, 3, 20, 1000))
	must(t, moved.TruncateTo(180))
	if _, err := s.Promote(testID); err == nil {
		t.Error("promoted twice")
	}
	for dir, want := range map[string]bool{from: false, to: true} {
		entries, err := fs.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if e.Name() == testID.String() != want && e.IsDir() && !strings.HasSuffix(e.Name(), deleteDirSuffix) {
				t.Errorf("%s in %s", e.Name(), dir)
			}
		}
	}
	must(t, s.Close())
	s = openTest(t, twoDirs(fs))
	if l := requireMoved(t, s); l.Dir() != to {
		t.Errorf("after a restart it is in %s", l.Dir())
	}
	must(t, s.Close())
}

// A future log is there after a stop of whatever kind, and goes with its log.
func TestFutureSurvivesRestarts(t *testing.T) {
	for _, clean := range []bool{true, false} {
		fs := vfs.NewMem()
		s, _, _ := copied(t, fs)
		s.checkpoint()
		next := fs
		if clean {
			must(t, s.Close())
		} else {
			next = fs.CrashClone(rand.New(rand.NewPCG(1, 1)), 0)
			must(t, s.Close())
		}
		s = openTest(t, twoDirs(next))
		f := s.Future(testID)
		if f == nil || f.EndOffset() != 180 || f.StartOffset() != 7 || f.HighWatermark() != 180 {
			t.Fatalf("clean %v: %+v", clean, f)
		}
		must(t, s.DropFuture(testID))
		must(t, s.DropFuture(testID))
		f, err := s.CreateFuture(testID, f.Dir(), testConfig())
		must(t, err)
		if f.EndOffset() != 0 {
			t.Errorf("a new one begins at %d", f.EndOffset())
		}
		must(t, s.Delete(testID))
		if s.Future(testID) != nil {
			t.Error("the future log of a deleted log is left")
		}
		must(t, s.Close())
		s = openTest(t, twoDirs(next))
		if s.Future(testID) != nil || s.Log(testID) != nil {
			t.Error("a deleted log is back")
		}
		must(t, s.Close())
	}
}

// A crash at every step of the move, whatever of the unsynced is lost, leaves the log once, whole.
func TestCrashWhileMoving(t *testing.T) {
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	s, _, _ := copied(t, faulty)
	var clones []*vfs.Mem
	rng := rand.New(rand.NewPCG(3, 4))
	faulty.Inject(func(o vfs.Op) error {
		for _, keep := range []int{0, 50, 100} {
			if o.Kind.Writes() || o.Kind == vfs.OpSync {
				clones = append(clones, mem.CrashClone(rng, keep))
			}
		}
		return nil
	})
	_, err := s.Promote(testID)
	must(t, err)
	faulty.Inject(nil)
	for _, keep := range []int{0, 50, 100} {
		clones = append(clones, mem.CrashClone(rng, keep))
	}
	must(t, s.Close())
	for i, clone := range clones {
		s, err := Open(t.Context(), twoDirs(clone))
		if err != nil {
			t.Fatalf("crash %d: %v", i, err)
		}
		l := requireMoved(t, s)
		for _, dir := range s.Dirs() {
			if dir.Offline != nil {
				t.Errorf("crash %d: %v", i, dir.Offline)
			}
		}
		if f := s.Future(testID); f != nil && (f.Dir() == l.Dir() || f.EndOffset() != 180) {
			t.Errorf("crash %d: a future log of %d records beside", i, f.EndOffset())
		}
		must(t, s.Close())
	}
	if len(clones) < 15 {
		t.Errorf("%d crashes", len(clones))
	}
}

// A step that fails takes its directory offline and no other; the log is in one of them.
func TestFailureWhileMoving(t *testing.T) {
	for step := 0; ; step++ {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		s, l, _ := copied(t, faulty)
		n := 0
		faulty.Inject(func(o vfs.Op) error {
			if n++; n == step+1 && (o.Kind.Writes() || o.Kind == vfs.OpSync) {
				return syscall.EIO
			}
			return nil
		})
		_, err := s.Promote(testID)
		for errors.Is(err, ErrBusy) { // the flush of the copy is about to end
			time.Sleep(50 * time.Microsecond)
			_, err = s.Promote(testID)
		}
		faulty.Inject(nil)
		if n <= step {
			must(t, err)
			must(t, s.Close())
			if step < 8 {
				t.Errorf("%d steps", step)
			}
			return
		}
		offline := 0
		for _, d := range s.Dirs() {
			if d.Offline != nil {
				offline++
			}
		}
		if offline > 1 || s.Log(testID) == nil {
			t.Errorf("step %d: %d directories offline, %v", step, offline, err)
		}
		_ = l
		_ = s.Close()
		again := openTest(t, twoDirs(mem))
		requireMoved(t, again)
		must(t, again.Close())
	}
}

func TestFutureNames(t *testing.T) {
	unique := strings.Repeat("0123456789abcdef", 2)
	for name, want := range map[string]ID{
		"t-3." + unique + "-future": {"t", 3}, "a.b-c-0." + unique + "-future": {"a.b-c", 0},
		"t-3-future": {}, "t." + unique + "-future": {}, "t-3." + unique + "-delete": {}, "-future": {},
	} {
		if got, ok := parseFutureName(name); got != want || ok != (want != ID{}) {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	s := openTest(t, twoDirs(vfs.NewMem()))
	defer s.Close()
	long := ID{strings.Repeat("x", 249), 0}
	l, err := s.Create(long, [16]byte{1}, testConfig())
	must(t, err)
	if _, err := s.CreateFuture(long, otherDir(l), testConfig()); !errors.Is(err, ErrNameTooLong) {
		t.Errorf("%v", err)
	}
	if s.anyOnline() != nil || len(s.DirectoryIDs(false)) > 0 {
		t.Error("a long name took a directory offline")
	}
}
