package vfs

import (
	"errors"
	"io"
	"os"
	"path"
)

// ErrTooLarge: a file is larger than ReadFile may read.
var ErrTooLarge = errors.New("file too large to read whole")

// ReadFile reads a file of at most maxBytes whole.
func ReadFile(fs FS, name string, maxBytes int64) ([]byte, error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxBytes {
		return nil, &os.PathError{Op: "read", Path: name, Err: ErrTooLarge}
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) { // it has become shorter
		err = nil
	}
	return data[:n], err
}

// WriteFile creates or empties a file and has fill write it, durably if sync is set; its directory is not synced.
func WriteFile(fs FS, name string, sync bool, fill func(io.Writer) error) error {
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	err = fill(io.NewOffsetWriter(f, 0))
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ReplaceFile puts what fill writes in the place of name so that a crash at any moment leaves the old or the new
// content: written beside it under name + suffix, synced, renamed, the directory synced.
func ReplaceFile(fs FS, name, suffix string, fill func(io.Writer) error) error {
	beside := name + suffix
	if err := WriteFile(fs, beside, true, fill); err != nil {
		return err
	}
	if err := fs.Rename(beside, name); err != nil {
		return err
	}
	return fs.SyncDir(path.Dir(name))
}
