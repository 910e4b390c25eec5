//go:build unix

package node

import "golang.org/x/sys/unix"

// processDescriptors shares RLIMIT_NOFILE, which the runtime has raised as far as it may.
func processDescriptors() descriptors {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		limit.Cur = 1024 // POSIX systems have more
	}
	return shareDescriptors(uint64(limit.Cur))
}
