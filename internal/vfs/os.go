package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrLocked says that another process (or another Lock of this one) holds the lock.
var ErrLocked = errors.New("vfs: locked by another process")

// OS is the machine's file system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := openFile(name, flag, perm)
	if err != nil {
		return nil, osError(err)
	}
	return osFile{f}, nil
}

func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                  { return os.RemoveAll(name) }
func (osFS) Rename(oldName, newName string) error         { return osError(os.Rename(oldName, newName)) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error { return osError(os.MkdirAll(name, perm)) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (osFS) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }

func (osFS) SyncDir(name string) error { return osError(syncDir(name)) }

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, osError(err)
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil // closing the file releases the lock
}

func (osFS) Usage(name string) (totalBytes, usableBytes int64, err error) { return usage(name) }

// osFile is an *os.File whose Sync is fdatasync where the system has it.
type osFile struct{ *os.File }

func (f osFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b, off)
	return n, osError(err)
}

func (f osFile) Truncate(sizeBytes int64) error { return osError(f.File.Truncate(sizeBytes)) }

func (f osFile) Sync() error {
	if err := datasync(f.File); err != nil {
		return &fs.PathError{Op: "datasync", Path: f.Name(), Err: osError(err)}
	}
	return nil
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f osFile) OSFile() *os.File { return f.File }
