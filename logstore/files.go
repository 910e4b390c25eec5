package logstore

import (
	"errors"
	"io"
	"os"

	"grete/internal/vfs"
)

// maxSmallFileBytes bounds what is read whole: checkpoints, meta.properties, producer snapshots.
const maxSmallFileBytes = 64 << 20

// besideSuffix is the end of the name of a file that will take another's place.
const besideSuffix = ".tmp"

// replaceFile puts data in the place of name; a crash leaves the old or the new content.
func replaceFile(fs vfs.FS, name string, data []byte) error {
	return vfs.ReplaceFile(fs, name, besideSuffix, writeAll(data))
}

// writeBeside and takeName are the two halves of replaceFile for many files at once. The caller syncs the volume after
// each.
func writeBeside(fs vfs.FS, name string, data []byte) error {
	return writeFile(fs, name+besideSuffix, data, false)
}

func takeName(fs vfs.FS, name string, _ []byte) error { return fs.Rename(name+besideSuffix, name) }

// writeFile creates or empties name and writes data.
func writeFile(fs vfs.FS, name string, data []byte, sync bool) error {
	return vfs.WriteFile(fs, name, sync, writeAll(data))
}

func writeAll(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(data) == 0 {
			return nil
		}
		_, err := w.Write(data)
		return err
	}
}

func readFile(fs vfs.FS, name string) ([]byte, error) {
	return vfs.ReadFile(fs, name, maxSmallFileBytes)
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
