package logstore

import (
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"

	"grete/internal/memory"
	"grete/internal/sched"
	"grete/internal/vfs"
)

// fileCache keeps at most max files open over all logs of a store. Files are opened on first use; when there
// are too many, those not used since the clock hand last passed are closed (second chance, an LRU whose hit
// costs one atomic store). A file in use is never closed under its user, so the bound can be passed by as many
// files as are pinned at once.
type fileCache struct {
	fs    vfs.FS
	max   int
	lends *memory.Account // nil: counted nowhere

	mu   sched.Mutex
	open []*openFile
	hand int
}

// openFile is a file with a count of users; the cache itself is one of them.
type openFile struct {
	vfs.File
	refs  atomic.Int32
	used  atomic.Bool
	owner *lazyFile
	slot  int // index in fileCache.open; fileCache.mu
}

// lazyFile is the place of a file that may or may not be open now.
type lazyFile struct {
	current atomic.Pointer[openFile]
}

// openFileBytes is what an open file takes, in this process and in the kernel.
const openFileBytes = 1 << 10

func newFileCache(fs vfs.FS, max int, lends *memory.Account) *fileCache {
	return &fileCache{fs: fs, max: max, lends: lends}
}

func (o *openFile) retain() bool {
	for {
		n := o.refs.Load()
		if n == 0 {
			return false
		}
		if o.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (o *openFile) release() {
	if o.refs.Add(-1) == 0 {
		_ = o.File.Close() // nothing is lost: what must last was synced, and a sync's error was seen then
	}
}

// cached returns the file if it is open, nil otherwise; the caller releases it.
func (f *lazyFile) cached() *openFile {
	o := f.current.Load()
	if o == nil || !o.retain() {
		return nil
	}
	if !o.used.Load() {
		o.used.Store(true)
	}
	return o
}

// acquire returns f's open file, opening path() when needed; the caller releases it.
func (c *fileCache) acquire(f *lazyFile, path func() string) (*openFile, error) {
	if o := f.cached(); o != nil {
		return o, nil
	}
	file, err := c.openAny(path())
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		c.shrink()
		file, err = c.openAny(path())
	}
	if err != nil {
		return nil, err
	}
	return c.install(f, file), nil
}

// shrink closes half of the files, for descriptors have run out.
func (c *fileCache) shrink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evictTo(len(c.open) / 2)
}

// openAny opens for writing, or for reading alone where the volume allows no more.
func (c *fileCache) openAny(path string) (vfs.File, error) {
	file, err := c.fs.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return c.fs.OpenFile(path, os.O_RDONLY, 0)
	}
	return file, err
}

// install makes file the open file of f, unless another goroutine was first, and retains it for the caller.
func (c *fileCache) install(f *lazyFile, file vfs.File) *openFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := f.current.Load(); o != nil && o.retain() {
		_ = file.Close()
		return o
	}
	c.evictTo(c.max - 1)
	o := &openFile{File: file, owner: f, slot: len(c.open)}
	o.refs.Store(2)
	o.used.Store(true)
	c.open = append(c.open, o)
	c.lends.Change(openFileBytes)
	f.current.Store(o)
	return o
}

// evictTo closes unpinned files until at most n are open or two rounds of the hand found no more.
func (c *fileCache) evictTo(n int) {
	for steps := 2 * len(c.open); len(c.open) > n && steps > 0; steps-- {
		if c.hand >= len(c.open) {
			c.hand = 0
		}
		o := c.open[c.hand]
		if o.refs.Load() > 1 || o.used.Swap(false) {
			c.hand++
			continue
		}
		c.drop(o)
	}
}

func (c *fileCache) drop(o *openFile) {
	last := len(c.open) - 1
	c.open[o.slot] = c.open[last]
	c.open[o.slot].slot = o.slot
	c.open[last] = nil
	c.open = c.open[:last]
	c.lends.Change(-openFileBytes)
	o.owner.current.CompareAndSwap(o, nil)
	o.release()
}

// forget closes f's file as soon as its users are done.
func (c *fileCache) forget(f *lazyFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := f.current.Load(); o != nil {
		c.drop(o)
	}
}

// closeAll closes what nobody uses; the rest closes with its last user.
func (c *fileCache) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.open) > 0 {
		c.drop(c.open[len(c.open)-1])
	}
}

func (c *fileCache) openCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}
