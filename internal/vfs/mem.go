package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Mem is a file system in memory that knows which of its bytes and directory entries have been synced, so that
// CrashClone can show what a power loss would leave. Paths are cleaned and taken from the root: "a" is "/a".
//
// Durability is the strictest that POSIX allows: file data and size only after File.Sync, names only after
// SyncDir of their directory (syncing a new file does not keep its name).
type Mem struct {
	mu            sync.Mutex
	root          *memNode
	pending       []*dirChange // in the order they were made; none is durable yet
	locks         map[string]bool
	usedBytes     int64
	capacityBytes int64

	pace atomic.Pointer[Pace]
	busy atomic.Int64
}

// memDefaultCapacity is the volume size that Usage reports until SetCapacity.
const memDefaultCapacity = 1 << 40

// NewMem returns an empty file system.
func NewMem() *Mem {
	return &Mem{root: newMemDir(), locks: map[string]bool{}, capacityBytes: memDefaultCapacity}
}

// SetCapacity sets the volume size; writes that need more fail with ENOSPC after filling what is left.
func (m *Mem) SetCapacity(sizeBytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacityBytes = sizeBytes
}

// memNode is a file or a directory (an inode). For directories, entries is what programs see and durable what a
// crash keeps for sure. For files, data is what programs see; see pages.go for what a crash keeps.
type memNode struct {
	dir     bool
	perm    fs.FileMode
	entries map[string]*memNode
	durable map[string]*memNode

	data        []byte
	syncedBytes int64            // size at the last Sync
	dirty       map[int64][]byte // page number → its bytes at the last Sync, for pages changed since
	links       int              // names and open files: the space is free when none is left
}

func newMemDir() *memNode {
	return &memNode{dir: true, perm: 0o755, entries: map[string]*memNode{}, durable: map[string]*memNode{}}
}

// dirChange is one namespace operation: all its edits survive a crash, or none.
type dirChange struct {
	edits []dirEdit
}

// dirEdit sets name in dir to node; nil removes it.
type dirEdit struct {
	dir  *memNode
	name string
	node *memNode
}

func (m *Mem) change(edits ...dirEdit) {
	for _, e := range edits {
		if e.node != nil && !e.node.dir {
			e.node.links++
		}
		if old := e.dir.entries[e.name]; old != nil {
			m.unlink(old)
		}
		if e.node == nil {
			delete(e.dir.entries, e.name)
		} else {
			e.dir.entries[e.name] = e.node
		}
	}
	m.pending = append(m.pending, &dirChange{edits: edits})
}

func (m *Mem) unlink(n *memNode) {
	if n.dir {
		return
	}
	n.links--
	if n.links == 0 {
		m.usedBytes -= int64(len(n.data))
	}
}

// apply makes c durable.
func (c *dirChange) apply() {
	for _, e := range c.edits {
		if e.node == nil {
			delete(e.dir.durable, e.name)
		} else {
			e.dir.durable[e.name] = e.node
		}
	}
}

func (c *dirChange) touches(dir *memNode) bool {
	return slices.ContainsFunc(c.edits, func(e dirEdit) bool { return e.dir == dir })
}

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// split cleans name and returns its elements.
func split(name string) []string {
	name = path.Clean("/" + name)
	if name == "/" {
		return nil
	}
	return strings.Split(name[1:], "/")
}

// lookup returns the node of name.
func (m *Mem) lookup(name string) (*memNode, error) {
	n := m.root
	for _, element := range split(name) {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		if n = n.entries[element]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

// parent returns the directory that holds name, and name's last element.
func (m *Mem) parent(name string) (*memNode, string, error) {
	elements := split(name)
	if len(elements) == 0 {
		return nil, "", syscall.EINVAL
	}
	dir, err := m.lookup(path.Dir(path.Clean("/" + name)))
	if err != nil {
		return nil, "", err
	}
	if !dir.dir {
		return nil, "", syscall.ENOTDIR
	}
	return dir, elements[len(elements)-1], nil
}

func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	n := dir.entries[base]
	switch {
	case n == nil:
		return pathError("remove", name, fs.ErrNotExist)
	case n.dir && len(n.entries) > 0:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	m.change(dirEdit{dir, base, nil})
	return nil
}

func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathError("removeall", name, err)
	}
	if dir.entries[base] != nil {
		m.removeTree(dir, base)
	}
	return nil
}

// removeTree removes children before their directory, each as a change of its own, as a real file system does.
func (m *Mem) removeTree(dir *memNode, base string) {
	n := dir.entries[base]
	if n.dir {
		for _, child := range sortedNames(n.entries) {
			m.removeTree(n, child)
		}
	}
	m.change(dirEdit{dir, base, nil})
}

func (m *Mem) Rename(oldName, newName string) error {
	m.take(OpRename)
	m.mu.Lock()
	defer m.mu.Unlock()
	oldDir, oldBase, err := m.parent(oldName)
	if err != nil {
		return pathError("rename", oldName, err)
	}
	newDir, newBase, err := m.parent(newName)
	if err != nil {
		return pathError("rename", newName, err)
	}
	n, target := oldDir.entries[oldBase], newDir.entries[newBase]
	switch {
	case n == nil:
		return pathError("rename", oldName, fs.ErrNotExist)
	case target != nil && target.dir: // os.Rename replaces no directory, not even an empty one
		return pathError("rename", newName, fs.ErrExist)
	case n == target:
		return nil
	case n.dir && strings.HasPrefix(path.Clean("/"+newName), path.Clean("/"+oldName)+"/"): // into itself
		return pathError("rename", newName, syscall.EINVAL)
	case target != nil && n.dir:
		return pathError("rename", newName, syscall.ENOTDIR)
	}
	m.change(dirEdit{newDir, newBase, n}, dirEdit{oldDir, oldBase, nil})
	return nil
}

func (m *Mem) MkdirAll(name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, element := range split(name) {
		child := n.entries[element]
		if child == nil {
			child = newMemDir()
			child.perm = perm
			m.change(dirEdit{n, element, child})
		}
		if !child.dir {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		n = child
	}
	return nil
}

func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(name)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	entries := make([]fs.DirEntry, 0, len(n.entries))
	for _, child := range sortedNames(n.entries) {
		entries = append(entries, fs.FileInfoToDirEntry(n.entries[child].info(child)))
	}
	return entries, nil
}

func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return n.info(path.Base(name)), nil
}

func (m *Mem) SyncDir(name string) error {
	m.take(OpSyncDir)
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.lookup(name)
	if err != nil {
		return pathError("sync", name, err)
	}
	m.pending = slices.DeleteFunc(m.pending, func(c *dirChange) bool {
		touched := c.touches(dir)
		if touched {
			c.apply()
		}
		return touched
	})
	return nil
}

func (m *Mem) Lock(name string) (io.Closer, error) {
	f, err := m.OpenFile(name, syscall.O_RDWR|syscall.O_CREAT, 0o644)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := path.Clean("/" + name)
	if m.locks[key] {
		return nil, pathError("lock", name, ErrLocked)
	}
	m.locks[key] = true
	return &memLock{m, key}, nil
}

type memLock struct {
	fs  *Mem
	key string
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.key)
	return nil
}

func (m *Mem) Usage(name string) (totalBytes, usableBytes int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.lookup(name); err != nil {
		return 0, 0, pathError("statfs", name, err)
	}
	return m.capacityBytes, max(0, m.capacityBytes-m.usedBytes), nil
}
