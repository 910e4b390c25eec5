package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync makes a file's data and size durable. It leaves out the other metadata, which fsync would write, too.
func datasync(f *os.File) error { return control(f, unix.Fdatasync) }
