// Package sched lets a simulation decide how goroutines interleave. Its mutexes are those of package sync; a
// simulation may have a goroutine wait for one on the simulated clock. Yield marks the places between two steps of
// one publication, at which a simulation may let other goroutines run.
package sched
