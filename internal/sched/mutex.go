package sched

import (
	"sync"
	"sync/atomic"
)

// pause is what a goroutine does between two attempts at a mutex that is held; nil outside of simulations.
var pause atomic.Pointer[func()]

// PauseOnContention has goroutines that meet a held mutex call f between two attempts, instead of blocking; nil ends
// that. testing/synctest lets time pass only while every goroutine waits for a channel or for time, and a goroutine
// blocked on a sync.Mutex does neither: a file operation that takes simulated time under a mutex would stand for ever.
func PauseOnContention(f func()) {
	if f == nil {
		pause.Store(nil)
		return
	}
	pause.Store(&f)
}

// Mutex is a sync.Mutex for locks that may be held across file operations, or while another such lock is taken.
type Mutex struct{ sync.Mutex }

// Lock locks m.
func (m *Mutex) Lock() {
	if !m.TryLock() {
		obtain(m.TryLock, m.Mutex.Lock)
	}
}

// RWMutex is a sync.RWMutex for the same purpose.
type RWMutex struct{ sync.RWMutex }

// Lock locks m for writing.
func (m *RWMutex) Lock() {
	if !m.TryLock() {
		obtain(m.TryLock, m.RWMutex.Lock)
	}
}

// RLock locks m for reading.
func (m *RWMutex) RLock() {
	if !m.TryRLock() {
		obtain(m.TryRLock, m.RWMutex.RLock)
	}
}

// obtain blocks in lock, or in a simulation tries until it succeeds.
func obtain(try func() bool, lock func()) {
	for {
		p := pause.Load()
		if p == nil {
			lock()
			return
		}
		(*p)()
		if try() {
			return
		}
	}
}
