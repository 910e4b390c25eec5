//go:build !race

package sched

// Yields says whether Yield does anything in this build: only under the race detector.
const Yields = false

// Yield marks a place between two steps of a publication.
func Yield() {}

// OnYield does nothing in this build.
func OnYield(func()) {}
