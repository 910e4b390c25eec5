//go:build race

package sched

import "sync/atomic"

// Yields says whether Yield does anything in this build: only under the race detector.
const Yields = true

var onYield atomic.Pointer[func()]

// Yield marks a place between two steps of a publication.
func Yield() {
	if f := onYield.Load(); f != nil {
		(*f)()
	}
}

// OnYield has Yield call f, which may sleep; nil ends that. Locks of this package may be held meanwhile.
func OnYield(f func()) {
	if f == nil {
		onYield.Store(nil)
		return
	}
	onYield.Store(&f)
}
