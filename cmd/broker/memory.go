package main

import (
	"runtime/debug"
	"strings"
)

// gcPercent lets the heap grow to five times what is live before it is collected: what is live is small, and most
// of the work is in pooled buffers, so that collections at the default rate would be the larger cost.
const gcPercent = 400

// tuneMemory sets the collector's pace unless the environment does.
func tuneMemory(env []string) {
	for _, pair := range env {
		if strings.HasPrefix(pair, "GOGC=") {
			return
		}
	}
	debug.SetGCPercent(gcPercent)
}

// forgetStart gives back what the start has left behind: reading many logs makes several times the garbage of what stays, and the next
// collection may be hours away.
func forgetStart() { debug.FreeOSMemory() }
