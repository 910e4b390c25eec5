package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
)

// TestMemAsOS does the same random operations on Mem and on the machine's file system: results and trees must agree.
func TestMemAsOS(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := &twin{t: t, rng: rng(seed), mem: NewMem(), memRoot: "/", osRoot: t.TempDir()}
			for step := range 300 {
				m.step()
				if step%20 == 0 || t.Failed() {
					m.compareTrees()
				}
				if t.Failed() {
					t.Fatalf("after %d steps:\n%s", step, strings.Join(m.history, "\n"))
				}
			}
		})
	}
}

type twin struct {
	t               *testing.T
	rng             *rand.Rand
	mem             *Mem
	memRoot, osRoot string
	history         []string
}

// name picks from few names, two directories deep, so that they collide.
func (m *twin) name() string {
	elements := make([]string, 1+m.rng.IntN(3))
	for i := range elements {
		elements[i] = string(rune('a' + m.rng.IntN(3)))
	}
	return path.Join(elements...)
}

func (m *twin) step() {
	name, other := m.name(), m.name()
	off, data := int64(m.rng.IntN(10_000)), []byte(strings.Repeat("x", m.rng.IntN(6000)))
	switch m.rng.IntN(9) {
	case 0, 1:
		m.both("mkdir "+name, func(fsys FS, root string) error { return fsys.MkdirAll(path.Join(root, name), 0o755) })
	case 2, 3:
		m.both(fmt.Sprintf("write %s %d+%d", name, off, len(data)), func(fsys FS, root string) error {
			return withFile(fsys, path.Join(root, name), os.O_RDWR|os.O_CREATE, func(f File) error {
				_, err := f.WriteAt(data, off)
				return err
			})
		})
	case 4:
		m.both(fmt.Sprintf("truncate %s %d", name, off), func(fsys FS, root string) error {
			return withFile(fsys, path.Join(root, name), os.O_RDWR, func(f File) error { return errors.Join(f.Truncate(off), f.Sync()) })
		})
	case 5:
		m.both("remove "+name, func(fsys FS, root string) error { return fsys.Remove(path.Join(root, name)) })
	case 6:
		m.both("rename "+name+" "+other, func(fsys FS, root string) error {
			return fsys.Rename(path.Join(root, name), path.Join(root, other))
		})
	case 7:
		m.both("removeall "+name, func(fsys FS, root string) error { return fsys.RemoveAll(path.Join(root, name)) })
	case 8:
		m.both("exclusive "+name, func(fsys FS, root string) error {
			return withFile(fsys, path.Join(root, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, func(File) error { return nil })
		})
	}
}

func withFile(fsys FS, name string, flag int, use func(File) error) error {
	f, err := fsys.OpenFile(name, flag, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(use(f), f.Close())
}

func (m *twin) both(what string, do func(fsys FS, root string) error) {
	ours, theirs := do(m.mem, m.memRoot), do(OS, m.osRoot)
	m.history = append(m.history, fmt.Sprintf("%s: %v", what, theirs))
	if (ours == nil) != (theirs == nil) {
		m.t.Errorf("%s: mem %v, os %v", what, ours, theirs)
	}
	for _, class := range []error{fs.ErrNotExist, fs.ErrExist, syscall.ENOTDIR} {
		if errors.Is(ours, class) != errors.Is(theirs, class) {
			m.t.Errorf("%s: mem %v, os %v", what, ours, theirs)
		}
	}
}

func (m *twin) compareTrees() {
	ours, theirs := tree(m.t, m.mem, m.memRoot), tree(m.t, OS, m.osRoot)
	if ours != theirs {
		m.t.Errorf("trees differ: mem\n%s\nos\n%s", ours, theirs)
	}
	kept := tree(m.t, m.mem.CrashClone(m.rng, 100), m.memRoot)
	if kept != ours {
		m.t.Errorf("a clone that keeps all differs: clone\n%s\nmem\n%s", kept, ours)
	}
}

// tree lists names, and files with their sizes and how much of them is not zero.
func tree(t *testing.T, fsys FS, root string) string {
	t.Helper()
	var out strings.Builder
	var walk func(dir, indent string)
	walk = func(dir, indent string) {
		entries, err := fsys.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if e.IsDir() {
				fmt.Fprintf(&out, "%s%s/\n", indent, e.Name())
				walk(name, indent+" ")
				continue
			}
			must(t, withFile(fsys, name, os.O_RDONLY, func(f File) error {
				size, err := f.Size()
				data := make([]byte, size)
				if n, readErr := f.ReadAt(data, 0); readErr != nil && (readErr != io.EOF || int64(n) != size) {
					return readErr
				}
				fmt.Fprintf(&out, "%s%s %d %d\n", indent, e.Name(), size, strings.Count(string(data), "x"))
				return err
			}))
		}
	}
	walk(root, "")
	return out.String()
}
