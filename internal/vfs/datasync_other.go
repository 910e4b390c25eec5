//go:build !linux

package vfs

import "os"

// datasync makes a file durable. On darwin, os.File.Sync has the drive flush its cache, too, which fsync does not.
func datasync(f *os.File) error { return f.Sync() }
