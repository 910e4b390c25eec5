//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func openFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lockFile takes an exclusive lock that the system drops when f is closed.
func lockFile(f *os.File) error {
	err := control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func usage(name string) (totalBytes, usableBytes int64, err error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(name, &st) }); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	blockBytes := int64(st.Bsize)
	return int64(st.Blocks) * blockBytes, int64(st.Bavail) * blockBytes, nil
}

// control runs f on the descriptor while the file cannot be closed under it.
func control(file *os.File, f func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	err = conn.Control(func(fd uintptr) {
		opErr = retryEINTR(func() error { return f(int(fd)) })
	})
	return errors.Join(err, opErr)
}

func retryEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// osError returns err as it is: the system's errors are those that package syscall names.
func osError(err error) error { return err }
