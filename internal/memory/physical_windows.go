// Package memory knows how much memory this process may use.
package memory

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// memoryStatus is the MEMORYSTATUSEX of the Windows API.
type memoryStatus struct {
	length, load                                      uint32
	total, available, totalPage, availPage, totalVirt uint64
	availVirt, availExtended                          uint64
}

var globalMemoryStatus = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// PhysicalBytes returns the machine's memory; false when the system does not say.
func PhysicalBytes() (int64, bool) {
	var s memoryStatus
	s.length = uint32(unsafe.Sizeof(s))
	ok, _, _ := globalMemoryStatus.Call(uintptr(unsafe.Pointer(&s)))
	return int64(s.total), ok != 0
}
