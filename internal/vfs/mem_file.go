package vfs

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// memPageBytes is the unit in which unsynced data survives a crash or does not.
const memPageBytes = 4096

// OpenFile implements FS.
func (m *Mem) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.openNode(name, flag, perm)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	n.links++
	f := &memFile{fs: m, node: n, name: name, writable: flag&(os.O_WRONLY|os.O_RDWR) != 0}
	if flag&os.O_TRUNC != 0 {
		m.resize(n, 0)
	}
	return f, nil
}

func (m *Mem) openNode(name string, flag int, perm fs.FileMode) (*memNode, error) {
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, err
	}
	n := dir.entries[base]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, fs.ErrNotExist
	case n == nil:
		n = &memNode{perm: perm}
		m.change(dirEdit{dir, base, n})
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, fs.ErrExist
	case n.dir:
		return nil, syscall.EISDIR
	}
	return n, nil
}

// memFile is an open file of Mem.
type memFile struct {
	fs       *Mem
	node     *memNode
	name     string
	writable bool
	closed   bool
}

func (f *memFile) check(op string, write bool) error {
	switch {
	case f.closed:
		return pathError(op, f.name, fs.ErrClosed)
	case write && !f.writable:
		return pathError(op, f.name, syscall.EBADF)
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("read", f.name, syscall.EINVAL)
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.take(OpWrite)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("write", f.name, syscall.EINVAL)
	}
	end := off + int64(len(p))
	var err error
	if room := f.fs.capacityBytes - f.fs.usedBytes + int64(len(f.node.data)); end > room {
		end, err = max(off, room), pathError("write", f.name, syscall.ENOSPC)
	}
	if end == off {
		return 0, err
	}
	f.node.saveDirty(min(off, int64(len(f.node.data))), end)
	if end > int64(len(f.node.data)) {
		f.fs.grow(f.node, end)
	}
	return copy(f.node.data[off:end], p), err
}

func (f *memFile) Truncate(sizeBytes int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("truncate", true); err != nil {
		return err
	}
	f.fs.resize(f.node, sizeBytes)
	return nil
}

func (f *memFile) Sync() error {
	f.fs.take(OpSync)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("sync", false); err != nil {
		return err
	}
	f.node.synced()
	return nil
}

// synced notes that a crash keeps the node's data.
func (n *memNode) synced() {
	n.dirty = nil
	n.syncedBytes = int64(len(n.data))
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("stat", false); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("close", false); err != nil {
		return err
	}
	f.closed = true
	f.fs.unlink(f.node)
	return nil
}

func (f *memFile) Name() string     { return f.name }
func (f *memFile) OSFile() *os.File { return nil }

// resize truncates or extends with zeros.
func (m *Mem) resize(n *memNode, sizeBytes int64) {
	old := int64(len(n.data))
	n.saveDirty(min(old, sizeBytes), max(old, sizeBytes))
	if sizeBytes > old {
		m.grow(n, sizeBytes)
		return
	}
	clear(n.data[sizeBytes:]) // growing again must show zeros
	n.data = n.data[:sizeBytes]
	m.usedBytes -= old - sizeBytes
}

func (m *Mem) grow(n *memNode, sizeBytes int64) {
	m.usedBytes += sizeBytes - int64(len(n.data))
	n.data = slices.Grow(n.data, int(sizeBytes)-len(n.data))[:sizeBytes]
}

// saveDirty keeps the synced bytes of the pages of [from, to) that are about to change for the first time since Sync.
func (n *memNode) saveDirty(from, to int64) {
	for page := from / memPageBytes; page*memPageBytes < to; page++ {
		if _, saved := n.dirty[page]; saved {
			continue
		}
		if n.dirty == nil {
			n.dirty = map[int64][]byte{}
		}
		start := page * memPageBytes
		end := min(start+memPageBytes, n.syncedBytes)
		if start >= end {
			n.dirty[page] = nil
			continue
		}
		n.dirty[page] = slices.Clone(n.data[start:end])
	}
}

func sortedNames(entries map[string]*memNode) []string { return slices.Sorted(maps.Keys(entries)) }

// memInfo is what Stat tells of a node.
type memInfo struct {
	name      string
	sizeBytes int64
	mode      fs.FileMode
}

func (n *memNode) info(name string) memInfo {
	if n.dir {
		return memInfo{name, 0, fs.ModeDir | n.perm.Perm()}
	}
	return memInfo{name, int64(len(n.data)), n.perm.Perm()}
}

func (i memInfo) Name() string       { return path.Base(i.name) }
func (i memInfo) Size() int64        { return i.sizeBytes }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
