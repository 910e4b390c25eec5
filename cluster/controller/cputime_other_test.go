//go:build !unix

package controller

import (
	"testing"
	"time"
)

func cpuTime(t *testing.T) time.Duration {
	t.Skip("CPU time is measured on Unix only")
	return 0
}
