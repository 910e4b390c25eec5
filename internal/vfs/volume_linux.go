package vfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// syncable are the file systems whose syncfs is known to write all and to report what was lost. Others, FUSE among
// them, may do nothing.
var syncable = map[int64]bool{unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true}

// openVolume gives none before Linux 5.8, whose syncfs does not report lost writes.
func openVolume(name string) (Volume, error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(name, &st) }); err != nil {
		return nil, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	if !syncable[int64(st.Type)] || !kernelAtLeast(5, 8) {
		return nil, nil
	}
	d, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return osVolume{d}, nil
}

func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var is [2]int
	i := 0
	for _, c := range u.Release {
		switch {
		case c >= '0' && c <= '9':
			is[i] = is[i]*10 + int(c-'0')
		case i == 0 && c == '.':
			i++
		default:
			return is[0] > major || is[0] == major && is[1] >= minor
		}
	}
	return false
}

type osVolume struct{ *os.File }

func (v osVolume) Sync() error {
	if err := control(v.File, unix.Syncfs); err != nil {
		return &fs.PathError{Op: "syncfs", Path: v.Name(), Err: err}
	}
	return nil
}
