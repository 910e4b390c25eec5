// Package vfs is the file system as the rest of Grete sees it. Production code runs on OS; tests run on
// Mem, which can be cloned as a crash would leave it, and on Faulty, which fails chosen operations.
package vfs

import (
	"io"
	"io/fs"
	"os"
)

// FS is one file system. Names are slash-separated paths; errors satisfy errors.Is with fs.ErrNotExist,
// fs.ErrExist and the syscall errors (ENOSPC, EIO, EROFS) as those of package os do.
type FS interface {
	// OpenFile opens name with the flags of os.OpenFile (O_RDONLY, O_RDWR, O_CREATE, O_EXCL, O_TRUNC).
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Remove(name string) error
	RemoveAll(name string) error
	// Rename replaces newName atomically; it is durable only after SyncDir of the parent.
	Rename(oldName, newName string) error
	MkdirAll(name string, perm fs.FileMode) error
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the directory's entries (creations, renames, removals) durable.
	SyncDir(name string) error
	// Lock takes an exclusive advisory lock on name, creating it; ErrLocked when another process holds it.
	Lock(name string) (io.Closer, error)
	// Usage returns the total and the usable bytes of the volume that holds name.
	Usage(name string) (totalBytes, usableBytes int64, err error)
}

// File is an open file; its methods are safe for concurrent use.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(sizeBytes int64) error
	// Sync makes data and size durable (fdatasync).
	Sync() error
	Size() (int64, error)
	Name() string
	// OSFile returns the file for sendfile, or nil where there is no descriptor behind it.
	OSFile() *os.File
}

// Region is bytes of a file, the unit that sendfile moves. Its owner keeps the file open while it is in use.
type Region struct {
	File        File
	OffsetBytes int64
	SizeBytes   int
}
