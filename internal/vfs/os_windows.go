package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// openFile opens name so that it can be renamed and removed while it is open, as logs rename and remove files that
// readers still use. Package os does not share files for that.
func openFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(path, access(flag), share, nil, disposition(flag), windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

func access(flag int) uint32 {
	switch {
	case flag&os.O_RDWR != 0:
		return windows.GENERIC_READ | windows.GENERIC_WRITE
	case flag&os.O_WRONLY != 0:
		return windows.GENERIC_WRITE
	default:
		return windows.GENERIC_READ
	}
}

func disposition(flag int) uint32 {
	create, truncate := flag&os.O_CREATE != 0, flag&os.O_TRUNC != 0
	switch {
	case create && flag&os.O_EXCL != 0:
		return windows.CREATE_NEW
	case create && truncate:
		return windows.CREATE_ALWAYS
	case create:
		return windows.OPEN_ALWAYS
	case truncate:
		return windows.TRUNCATE_EXISTING
	default:
		return windows.OPEN_EXISTING
	}
}

// syncDir does nothing: Windows has no call for it, and NTFS journals the entries of directories.
func syncDir(string) error { return nil }

// lockFile takes an exclusive lock that the system drops when f is closed.
func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

func usage(name string) (totalBytes, usableBytes int64, err error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return 0, 0, &fs.PathError{Op: "usage", Path: name, Err: err}
	}
	var usable, total, free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &usable, &total, &free); err != nil {
		return 0, 0, &fs.PathError{Op: "usage", Path: name, Err: err}
	}
	return int64(total), int64(usable), nil
}

// unixErrors has the errors that callers know by the names of package syscall, which Windows reports by its own.
var unixErrors = map[error]error{
	windows.ERROR_DISK_FULL:           syscall.ENOSPC,
	windows.ERROR_HANDLE_DISK_FULL:    syscall.ENOSPC,
	windows.ERROR_TOO_MANY_OPEN_FILES: syscall.EMFILE,
	windows.ERROR_WRITE_PROTECT:       syscall.EROFS,
}

// osError makes errors.Is find the syscall error that err means.
func osError(err error) error {
	for native, unix := range unixErrors {
		if errors.Is(err, native) {
			return fmt.Errorf("%w (%w)", err, unix)
		}
	}
	return err
}
