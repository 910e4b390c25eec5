package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"testing"
)

func create(t *testing.T, fsys FS, name, content string) File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		t.Fatal(err)
	}
	return f
}

func content(t *testing.T, fsys FS, name string) string {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "<absent>"
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); int64(n) != size || (err != nil && err != io.EOF) {
		t.Fatalf("read %d of %d: %v", n, size, err)
	}
	return string(data)
}

// TestBehaviour holds every implementation to the contract that package os sets.
func TestBehaviour(t *testing.T) {
	systems := map[string]func(t *testing.T) (FS, string){
		"os":     func(t *testing.T) (FS, string) { return OS, t.TempDir() },
		"mem":    func(t *testing.T) (FS, string) { return newMemWithDir(t), "/d" },
		"faulty": func(t *testing.T) (FS, string) { return NewFaulty(newMemWithDir(t)), "/d" },
	}
	for name, open := range systems {
		t.Run(name, func(t *testing.T) {
			fsys, dir := open(t)
			t.Run("files", func(t *testing.T) { checkFiles(t, fsys, path.Join(dir, "files")) })
			t.Run("names", func(t *testing.T) { checkNames(t, fsys, path.Join(dir, "names")) })
			t.Run("lock", func(t *testing.T) { checkLock(t, fsys, dir) })
		})
	}
}

func newMemWithDir(t *testing.T) *Mem {
	m := NewMem()
	if err := m.MkdirAll("/d", 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

func checkFiles(t *testing.T, fsys FS, dir string) {
	must(t, fsys.MkdirAll(dir, 0o755))
	name := path.Join(dir, "f")
	f := create(t, fsys, name, "hello")
	defer f.Close()
	if _, err := f.WriteAt([]byte("!"), 7); err != nil {
		t.Fatal(err)
	}
	if got := content(t, fsys, name); got != "hello\x00\x00!" {
		t.Fatalf("hole: %q", got)
	}
	must(t, f.Truncate(2))
	must(t, f.Truncate(4))
	must(t, f.Sync())
	if got := content(t, fsys, name); got != "he\x00\x00" {
		t.Fatalf("truncate: %q", got)
	}
	if n, err := f.ReadAt(make([]byte, 9), 1); n != 3 || err != io.EOF {
		t.Fatalf("short read: %d, %v", n, err)
	}
	if _, err := fsys.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("O_EXCL: %v", err)
	}
	if r, err := fsys.OpenFile(name, os.O_RDONLY, 0); err != nil {
		t.Fatal(err)
	} else {
		if _, err := r.WriteAt([]byte("x"), 0); !errors.Is(err, syscall.EBADF) {
			t.Fatalf("write to a file opened for reading: %v", err)
		}
		must(t, r.Close())
	}
	if _, usable, err := fsys.Usage(dir); err != nil || usable <= 0 {
		t.Fatalf("usage: %d, %v", usable, err)
	}
}

func checkNames(t *testing.T, fsys FS, dir string) {
	sub := path.Join(dir, "a", "b")
	must(t, fsys.MkdirAll(sub, 0o755))
	f := create(t, fsys, path.Join(sub, "one"), "1")
	must(t, create(t, fsys, path.Join(sub, "two"), "2").Close())
	must(t, fsys.Rename(path.Join(sub, "one"), path.Join(sub, "two")))
	must(t, fsys.SyncDir(sub))
	if got := content(t, fsys, path.Join(sub, "two")); got != "1" {
		t.Fatalf("rename over: %q", got)
	}
	if err := fsys.Remove(path.Join(dir, "a")); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Fatalf("remove of a full directory: %v", err)
	}
	must(t, fsys.Rename(path.Join(dir, "a"), path.Join(dir, "c")))
	entries, err := fsys.ReadDir(path.Join(dir, "c"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "b" || !entries[0].IsDir() {
		t.Fatalf("entries %v, %v", entries, err)
	}
	must(t, fsys.RemoveAll(path.Join(dir, "c")))
	must(t, fsys.RemoveAll(path.Join(dir, "c")))
	if _, err := fsys.Stat(path.Join(dir, "c")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("stat of a removed directory: %v", err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
		t.Fatalf("an open file outlives its name: %v", err)
	}
	must(t, f.Close())
	if err := fsys.Remove(path.Join(dir, "c")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("remove of nothing: %v", err)
	}
}

func checkLock(t *testing.T, fsys FS, dir string) {
	name := path.Join(dir, ".lock")
	lock, err := fsys.Lock(name)
	must(t, err)
	if _, err := fsys.Lock(name); !errors.Is(err, ErrLocked) {
		t.Fatalf("second lock: %v", err)
	}
	must(t, lock.Close())
	lock, err = fsys.Lock(name)
	must(t, err)
	must(t, lock.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFaulty(t *testing.T) {
	m := newMemWithDir(t)
	fsys := NewFaulty(m)
	f := create(t, fsys, "/d/f", "0123456789")
	defer f.Close()

	fsys.Inject(FailNth(fsys.Count()+2, syscall.EIO))
	must(t, f.Sync())
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("second operation: %v", err)
	}
	must(t, f.Sync())

	isWrite := func(o Op) bool { return o.Kind == OpWrite && o.Name == "/d/f" }
	fsys.Inject(FailMatching(isWrite, &ShortWrite{Bytes: 3, Err: syscall.ENOSPC}))
	if n, err := f.WriteAt([]byte("abcdef"), 0); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("short write: %d, %v", n, err)
	}
	fsys.Inject(nil)
	if got := content(t, fsys, "/d/f"); got != "abc3456789" {
		t.Fatalf("after a short write: %q", got)
	}

	fsys.Inject(FailFrom(1, syscall.EROFS))
	for i, err := range []error{f.Truncate(1), fsys.Remove("/d/f"), fsys.Rename("/d/f", "/d/g"), fsys.SyncDir("/d"), fsys.MkdirAll("/e", 0o755)} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("operation %d of a dead disk: %v", i, err)
		}
	}
}

func TestFaultyHookSlowsSync(t *testing.T) {
	fsys := NewFaulty(newMemWithDir(t))
	f := create(t, fsys, "/d/f", "x")
	defer f.Close()
	release, entered, done := make(chan struct{}), make(chan struct{}), make(chan error)
	fsys.Inject(func(o Op) error {
		if o.Kind == OpSync {
			close(entered)
			<-release
		}
		return nil
	})
	go func() { done <- f.Sync() }()
	<-entered
	if _, err := f.WriteAt([]byte("y"), 0); err != nil {
		t.Fatalf("a write beside a slow sync: %v", err)
	}
	close(release)
	must(t, <-done)
}
