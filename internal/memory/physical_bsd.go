//go:build darwin || freebsd

// Package memory knows how much memory this process may use.
package memory

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// PhysicalBytes returns the machine's memory; false when the system does not say.
func PhysicalBytes() (int64, bool) {
	name := "hw.physmem"
	if runtime.GOOS == "darwin" {
		name = "hw.memsize"
	}
	n, err := unix.SysctlUint64(name)
	return int64(n), err == nil
}
