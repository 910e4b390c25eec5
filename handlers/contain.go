package handlers

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"grete/protocol"
)

// contain keeps the panic of one request from ending the broker, where that request alone can be at fault: its
// connection is closed, and the log has the stack. Below handlers a panic may have left a lock held or a log
// half-changed; then it is not recovered (docs/adr/0004).
func (b *Broker) contain(r *protocol.Request) {
	v := recover()
	if v == nil {
		return
	}
	if !ofRequestAlone(stackFunctions()) {
		panic(v)
	}
	b.Log.Error().Int16("key", r.Key).Int16("version", r.Version).Interface("panic", v).Bytes("stack", debug.Stack()).
		Msg("a handler failed; its connection is closed")
	r.Abort("the handler failed")
}

// maxFrames of a stack are looked at; one that is deeper is of nobody's making.
const maxFrames = 256

// stackFunctions are the names of the functions on this goroutine's stack, those of the panic among them.
func stackFunctions() []string {
	pcs := make([]uintptr, maxFrames)
	var names []string
	for frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)]); ; {
		frame, more := frames.Next()
		names = append(names, frame.Function)
		if !more {
			return names
		}
	}
}

// stateless are the rooms that keep nothing across requests that a panic could spoil; protocol calls handlers.
var stateless = []string{"grete/handlers.", "grete/protocol.", "grete/protocol/batch.", "grete/cluster/metadata."}

// ofRequestAlone says whether of ours only stateless rooms were at work.
func ofRequestAlone(functions []string) bool {
	for _, name := range functions {
		in := func(room string) bool { return strings.HasPrefix(name, room) }
		if in("grete/") && !slices.ContainsFunc(stateless, in) {
			return false
		}
	}
	return true
}
