package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
)

// OpKind names a file system operation.
type OpKind string

const (
	OpOpen      OpKind = "open"
	OpRemove    OpKind = "remove"
	OpRemoveAll OpKind = "removeall"
	OpRename    OpKind = "rename"
	OpMkdirAll  OpKind = "mkdirall"
	OpReadDir   OpKind = "readdir"
	OpStat      OpKind = "stat"
	OpSyncDir   OpKind = "syncdir"
	OpLock      OpKind = "lock"
	OpUsage     OpKind = "usage"
	OpRead      OpKind = "read"
	OpWrite     OpKind = "write"
	OpTruncate  OpKind = "truncate"
	OpSync      OpKind = "sync"
	OpSize      OpKind = "size"
)

// Writes says whether the operation changes what is on disk.
func (k OpKind) Writes() bool {
	switch k {
	case OpReadDir, OpStat, OpLock, OpUsage, OpRead, OpSize:
		return false
	}
	return true
}

// Op is one operation about to be done on Faulty's file system.
type Op struct {
	Index int64 // 1 for the first operation of this file system
	Kind  OpKind
	Name  string
}

func (o Op) String() string { return fmt.Sprintf("operation %d: %s %s", o.Index, o.Kind, o.Name) }

// ShortWrite, returned by an injector for OpWrite, lets the first Bytes of the write happen before it fails with Err.
type ShortWrite struct {
	Bytes int
	Err   error
}

func (s *ShortWrite) Error() string { return fmt.Sprintf("short write of %d: %v", s.Bytes, s.Err) }
func (s *ShortWrite) Unwrap() error { return s.Err }

// Injector is called before every operation, on the caller's goroutine. An error makes the operation fail without
// being done; blocking makes it slow.
type Injector func(Op) error

// FailNth fails the nth operation alone (1 is the first).
func FailNth(n int64, err error) Injector {
	return FailMatching(func(o Op) bool { return o.Index == n }, err)
}

// FailFrom fails the nth operation and all after it, as a disk that died.
func FailFrom(n int64, err error) Injector {
	return FailMatching(func(o Op) bool { return o.Index >= n }, err)
}

// FailMatching fails the operations that match.
func FailMatching(match func(Op) bool, err error) Injector {
	return func(o Op) error {
		if match(o) {
			return err
		}
		return nil
	}
}

// Faulty is a file system whose operations fail as its injector says. Its files have no descriptor, so that every
// read passes through it.
type Faulty struct {
	inner  FS
	inject atomic.Pointer[Injector]
	lack   atomic.Pointer[lack]
	count  atomic.Int64
}

// NewFaulty wraps inner; nothing fails until Inject.
func NewFaulty(inner FS) *Faulty { return &Faulty{inner: inner} }

// Inject replaces the injector, nil for none; the count of operations goes on.
func (f *Faulty) Inject(i Injector) { f.inject.Store(&i) }

// Count is the number of operations so far.
func (f *Faulty) Count() int64 { return f.count.Load() }

func (f *Faulty) before(kind OpKind, name string) error {
	op := Op{Index: f.count.Add(1), Kind: kind, Name: name}
	if l := f.lack.Load(); l != nil && l.hits(op) {
		return &fs.PathError{Op: string(kind), Path: name, Err: l.err}
	}
	i := f.inject.Load()
	if i == nil || *i == nil {
		return nil
	}
	if err := (*i)(op); err != nil {
		return &fs.PathError{Op: string(kind), Path: name, Err: err}
	}
	return nil
}

func (f *Faulty) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if err := f.before(OpOpen, name); err != nil {
		return nil, err
	}
	file, err := f.inner.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultyFile{fs: f, inner: file}, nil
}

func (f *Faulty) Remove(name string) error {
	if err := f.before(OpRemove, name); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

func (f *Faulty) RemoveAll(name string) error {
	if err := f.before(OpRemoveAll, name); err != nil {
		return err
	}
	return f.inner.RemoveAll(name)
}

func (f *Faulty) Rename(oldName, newName string) error {
	if err := f.before(OpRename, oldName); err != nil {
		return err
	}
	return f.inner.Rename(oldName, newName)
}

func (f *Faulty) MkdirAll(name string, perm fs.FileMode) error {
	if err := f.before(OpMkdirAll, name); err != nil {
		return err
	}
	return f.inner.MkdirAll(name, perm)
}

func (f *Faulty) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.before(OpReadDir, name); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(name)
}

func (f *Faulty) Stat(name string) (fs.FileInfo, error) {
	if err := f.before(OpStat, name); err != nil {
		return nil, err
	}
	return f.inner.Stat(name)
}

func (f *Faulty) SyncDir(name string) error {
	if err := f.before(OpSyncDir, name); err != nil {
		return err
	}
	return f.inner.SyncDir(name)
}

func (f *Faulty) Lock(name string) (io.Closer, error) {
	if err := f.before(OpLock, name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

func (f *Faulty) Usage(name string) (totalBytes, usableBytes int64, err error) {
	if err := f.before(OpUsage, name); err != nil {
		return 0, 0, err
	}
	return f.inner.Usage(name)
}

type faultyFile struct {
	fs    *Faulty
	inner File
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.before(OpRead, f.Name()); err != nil {
		return 0, err
	}
	return f.inner.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.fs.before(OpWrite, f.Name())
	if err == nil {
		return f.inner.WriteAt(p, off)
	}
	var short *ShortWrite
	if !errors.As(err, &short) {
		return 0, err
	}
	n, innerErr := f.inner.WriteAt(p[:min(short.Bytes, len(p))], off)
	if innerErr != nil {
		return n, innerErr
	}
	return n, err
}

func (f *faultyFile) Truncate(sizeBytes int64) error {
	if err := f.fs.before(OpTruncate, f.Name()); err != nil {
		return err
	}
	return f.inner.Truncate(sizeBytes)
}

func (f *faultyFile) Sync() error {
	if err := f.fs.before(OpSync, f.Name()); err != nil {
		return err
	}
	return f.inner.Sync()
}

func (f *faultyFile) Size() (int64, error) {
	if err := f.fs.before(OpSize, f.Name()); err != nil {
		return 0, err
	}
	return f.inner.Size()
}

// Close never fails by injection: nothing that must be durable depends on it.
func (f *faultyFile) Close() error     { return f.inner.Close() }
func (f *faultyFile) Name() string     { return f.inner.Name() }
func (f *faultyFile) OSFile() *os.File { return nil }
