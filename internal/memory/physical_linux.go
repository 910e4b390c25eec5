// Package memory knows how much memory this process may use.
package memory

import "golang.org/x/sys/unix"

// PhysicalBytes returns the machine's memory; false when the system does not say.
func PhysicalBytes() (int64, bool) {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0, false
	}
	return int64(info.Totalram) * int64(info.Unit), true
}
