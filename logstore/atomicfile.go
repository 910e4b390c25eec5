package logstore

import (
	"errors"
	"io"
	"os"
	"path"

	"grete/internal/vfs"
)

// maxSmallFileBytes bounds what is read whole: checkpoints, meta.properties, producer snapshots.
const maxSmallFileBytes = 64 << 20

var errFileTooLarge = errors.New("file too large to read whole")

// replaceFile puts data in the place of name so that a crash at any moment leaves the old or the new content:
// written beside it, synced, renamed, the directory synced.
func replaceFile(fs vfs.FS, name string, data []byte) error {
	tmp := name + ".tmp"
	if err := writeFile(fs, tmp, data, true); err != nil {
		return err
	}
	if err := fs.Rename(tmp, name); err != nil {
		return err
	}
	return fs.SyncDir(path.Dir(name))
}

// writeFile creates or empties name and writes data.
func writeFile(fs vfs.FS, name string, data []byte, sync bool) error {
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// readFile reads name whole.
func readFile(fs vfs.FS, name string) ([]byte, error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxSmallFileBytes {
		return nil, &os.PathError{Op: "read", Path: name, Err: errFileTooLarge}
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

func exists(fs vfs.FS, name string) (bool, error) {
	_, err := fs.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// syncFile makes an existing file's content durable.
func syncFile(fs vfs.FS, name string) error {
	f, err := fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// removeIfExists removes name; it may be gone already.
func removeIfExists(fs vfs.FS, name string) error {
	if err := fs.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
