package logstore

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"grete/internal/vfs"
)

// openFaulty has a log with ten batches, of which the first five are flushed, and counts OnDirOffline calls.
func openFaulty(t *testing.T) (*vfs.Mem, *vfs.Faulty, *Log, *atomic.Int32) {
	t.Helper()
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	calls := new(atomic.Int32)
	o := testOptions(faulty)
	o.OnDirOffline = func(string, error) { calls.Add(1) }
	s := openTest(t, o)
	l := createTest(t, s, testConfig())
	for i := range 10 {
		appendTest(t, l, plain(t, 1, 100, int64(i)))
		if i == 4 {
			flushTest(t, l)
		}
	}
	t.Cleanup(func() { faulty.Inject(nil); _ = s.Close() })
	return mem, faulty, l, calls
}

func kind(kinds ...vfs.OpKind) func(vfs.Op) bool {
	return func(o vfs.Op) bool {
		for _, k := range kinds {
			if o.Kind == k {
				return true
			}
		}
		return false
	}
}

func TestFailedFsyncTakesDirectoryOffline(t *testing.T) {
	_, faulty, l, calls := openFaulty(t)
	faulty.Inject(vfs.FailMatching(kind(vfs.OpSync), syscall.EIO))
	if err := flush(l, 10); !errors.Is(err, ErrOffline) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("flush: %v", err)
	}
	faulty.Inject(nil) // nothing is retried, even though the disk recovered
	before := faulty.Count()
	if _, err := l.Append(plain(t, 1, 1, 1), 0); !errors.Is(err, ErrOffline) {
		t.Fatalf("append: %v", err)
	}
	if _, err := l.Read(0, ReadOptions{MaxBytes: 10, Bound: 10}); !errors.Is(err, ErrOffline) {
		t.Fatalf("read: %v", err)
	}
	if err := flush(l, 10); !errors.Is(err, ErrOffline) {
		t.Fatalf("second flush: %v", err)
	}
	if err := l.TruncateTo(3); !errors.Is(err, ErrOffline) {
		t.Fatalf("truncate: %v", err)
	}
	if _, err := l.store.Create(ID{"other", 0}, [16]byte{2}, testConfig()); !errors.Is(err, ErrOffline) {
		t.Fatalf("create: %v", err)
	}
	must(t, l.store.Close())
	if calls.Load() != 1 {
		t.Fatalf("OnDirOffline was called %d times", calls.Load())
	}
	if there, err := exists(faulty, testDir+"/"+cleanShutdownFile); err != nil || there {
		t.Fatalf("an offline directory was marked as cleanly closed (%v)", err)
	}
	if writes := faulty.Count() - before; writes > 2 { // the look for the mark above, and the lock
		t.Fatalf("%d operations on an offline directory", writes)
	}
}

func TestFailedWriteTakesDirectoryOffline(t *testing.T) {
	_, faulty, l, _ := openFaulty(t)
	faulty.Inject(vfs.FailMatching(kind(vfs.OpWrite), syscall.EIO))
	if _, err := l.Append(plain(t, 1, 1, 1), 0); !errors.Is(err, ErrOffline) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("append: %v", err)
	}
}

func TestNoSpaceHeals(t *testing.T) {
	_, faulty, l, _ := openFaulty(t)
	size := l.active().size.Load()
	for _, written := range []int{0, 1, 30, 100} {
		faulty.Inject(func(o vfs.Op) error {
			if o.Kind == vfs.OpWrite {
				return &vfs.ShortWrite{Bytes: written, Err: syscall.ENOSPC}
			}
			return nil
		})
		_, err := l.Append(plain(t, 2, 100, 1), 0)
		if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrOffline) {
			t.Fatalf("append: %v", err)
		}
		var typed *Error
		if !errors.As(err, &typed) || typed.Log != testID || typed.Offset != 10 {
			t.Fatalf("append: %#v", err)
		}
		if l.EndOffset() != 10 || l.active().size.Load() != size {
			t.Fatalf("end %d, size %d, want %d", l.EndOffset(), l.active().size.Load(), size)
		}
	}
	faulty.Inject(nil)
	if info := appendTest(t, l, plain(t, 1, 1, 1)); info.BaseOffset != 10 {
		t.Fatalf("appended at %d", info.BaseOffset)
	}
	if got := readBatches(t, l, 0, l.EndOffset()); len(got) != 11 {
		t.Fatalf("%d batches", len(got))
	}
}

// TestNoSpaceOnVolume fills a volume for real: rolls, indexes and snapshots meet the limit too.
func TestNoSpaceOnVolume(t *testing.T) {
	mem := vfs.NewMem()
	c := testConfig()
	c.SegmentBytes = 1000
	s := openTest(t, testOptions(mem))
	l := createTest(t, s, c)
	mem.SetCapacity(8000)
	var full bool
	for i := range 200 {
		_, err := l.Append(plain(t, 1, 90, int64(i)), 0)
		if full = err != nil; full {
			if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrOffline) {
				t.Fatalf("append %d: %v", i, err)
			}
			break
		}
	}
	if !full {
		t.Fatal("the volume never filled")
	}
	end := l.EndOffset()
	mem.SetCapacity(1 << 20)
	appendTest(t, l, plain(t, 1, 90, 1))
	if got := readBatches(t, l, 0, l.EndOffset()); int64(len(got)) != end+1 {
		t.Fatalf("%d batches, want %d", len(got), end+1)
	}
	must(t, s.Close())
	s = openTest(t, testOptions(mem))
	if got := s.Log(testID).EndOffset(); got != end+1 {
		t.Fatalf("end %d after reopening, want %d", got, end+1)
	}
	must(t, s.Close())
}

func TestReadErrorIsOneReadsAffair(t *testing.T) {
	_, faulty, l, calls := openFaulty(t)
	faulty.Inject(vfs.FailMatching(kind(vfs.OpRead), syscall.EIO))
	if _, err := l.Read(1, ReadOptions{MaxBytes: 10, Bound: 10}); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrOffline) {
		t.Fatalf("read: %v", err)
	}
	faulty.Inject(nil)
	if got := readBatches(t, l, 0, 10); len(got) != 10 || calls.Load() != 0 {
		t.Fatalf("%d batches, %d offline calls", len(got), calls.Load())
	}
}

// TestEveryOperationFails fails the n-th operation of a fixed course, for every n, once alone and once with all that
// follow: what was acknowledged as flushed is there afterwards, and nothing panics or hangs.
func TestEveryOperationFails(t *testing.T) {
	for _, dies := range []bool{false, true} {
		for n := int64(1); ; n++ {
			mem := vfs.NewMem()
			faulty := vfs.NewFaulty(mem)
			inject := vfs.FailNth(n, syscall.EIO)
			if dies {
				inject = vfs.FailFrom(n, syscall.EIO)
			}
			faulty.Inject(inject)
			durable := failingCourse(t, faulty)
			if faulty.Count() < n {
				break
			}
			faulty.Inject(nil)
			s := openTest(t, testOptions(mem.CrashClone(rand.New(rand.NewPCG(uint64(n), 5)), 100)))
			l := s.Log(testID)
			if l == nil && durable > 0 || l != nil && l.EndOffset() < durable {
				t.Fatalf("operation %d (dies %v): %d offsets were durable", n, dies, durable)
			}
			if l != nil {
				readBatches(t, l, l.StartOffset(), l.EndOffset())
			}
			must(t, s.Close())
		}
	}
}

// failingCourse does a bit of everything and ignores errors, as long as they are errors; it returns what was flushed.
func failingCourse(t *testing.T, fs vfs.FS) (durable int64) {
	s, err := Open(context.Background(), testOptions(fs))
	if err != nil {
		return 0
	}
	defer s.Close()
	c := testConfig()
	c.SegmentBytes = 700
	l, err := s.Create(testID, [16]byte{1}, c)
	if err != nil {
		return 0
	}
	for i := range 30 {
		if _, err := l.Append(plain(t, 1, 100, int64(i)), 0); err != nil {
			continue
		}
		if i%7 == 0 {
			end := l.EndOffset()
			if flush(l, end) == nil {
				durable = end
			}
		}
	}
	l.SetHighWatermark(l.EndOffset())
	if l.AdvanceStart(6) == nil {
		s.checkpoint()
	}
	return durable
}

func TestLockedDirectoryIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	s := openTest(t, testOptions(mem))
	_, err := Open(context.Background(), testOptions(mem))
	if !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "in use by another process") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("second store: %v", err)
	}
	must(t, s.Close())
	must(t, openTest(t, testOptions(mem)).Close())
}

// A start without any directory that can be used ends with one line, which is its error; one that goes on without some
// of them tells of each.
func TestOfflineDirectoriesOfAStartAreToldOnce(t *testing.T) {
	for _, tt := range []struct {
		dirs         []string
		fails, tells int
	}{
		{[]string{"/bad"}, 1, 0},
		{[]string{"/bad", "/bad2"}, 1, 1},
		{[]string{"/bad", testDir}, 0, 1},
		{[]string{testDir, "/bad", "/bad2"}, 0, 2},
	} {
		faulty, log := vfs.NewFaulty(vfs.NewMem()), &bytes.Buffer{}
		faulty.Inject(vfs.FailMatching(func(op vfs.Op) bool { return strings.HasPrefix(op.Name, "/bad") }, syscall.EACCES))
		o := testOptions(faulty)
		o.Dirs, o.Log = tt.dirs, zerolog.New(log)
		s, err := Open(context.Background(), o)
		if err == nil {
			must(t, s.Close())
		}
		if (err != nil) != (tt.fails > 0) || err != nil && !errors.Is(err, ErrOffline) || strings.Count(log.String(), "log directory is offline") != tt.tells {
			t.Errorf("%v: %v, and in the log\n%s", tt.dirs, err, log)
		}
	}
}

func TestUnreadableDirectoryLeavesOthersServing(t *testing.T) {
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	o := testOptions(faulty)
	o.Dirs = []string{testDir, "/bad"}
	faulty.Inject(vfs.FailMatching(func(op vfs.Op) bool { return strings.HasPrefix(op.Name, "/bad") }, syscall.EIO))
	s := openTest(t, o)
	for p := range int32(3) {
		l, err := s.Create(ID{"t", p}, [16]byte{1}, testConfig())
		must(t, err)
		if l.Dir() != testDir {
			t.Fatalf("created in %s", l.Dir())
		}
	}
	dirs := s.Dirs()
	if dirs[0].Offline != nil || !errors.Is(dirs[1].Offline, syscall.EIO) || len(dirs[0].Logs) != 3 {
		t.Fatalf("%+v", dirs)
	}
	must(t, s.Close())
	o.Dirs = []string{"/bad"}
	if _, err := Open(context.Background(), o); !errors.Is(err, ErrOffline) {
		t.Fatalf("no usable directory: %v", err)
	}
}

func TestDuplicatePartitionIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	for _, dir := range []string{"/a", "/b"} {
		o := testOptions(mem)
		o.Dirs = []string{dir}
		s := openTest(t, o)
		createTest(t, s, testConfig())
		must(t, s.Close())
	}
	o := testOptions(mem)
	o.Dirs = []string{"/a", "/b"}
	_, err := Open(context.Background(), o)
	if !errors.Is(err, ErrDuplicateLog) || !strings.Contains(err.Error(), "/a") || !strings.Contains(err.Error(), "/b") {
		t.Fatalf("opening both: %v", err)
	}
}
