//go:build unix

package controller

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime is what this process has used so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
