package vfs

import "golang.org/x/sys/unix"

func datasync(fd int) error { return unix.Fdatasync(fd) }
