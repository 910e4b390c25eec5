package sched

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTimePassesUnderMutexes: with plain mutexes this bubble would stand for ever.
func TestTimePassesUnderMutexes(t *testing.T) {
	PauseOnContention(func() { time.Sleep(time.Millisecond) })
	defer PauseOnContention(nil)
	synctest.Test(t, func(t *testing.T) {
		var m Mutex
		var rw RWMutex
		began, counted := time.Now(), 0
		hold := func() {
			m.Lock()
			rw.Lock()
			time.Sleep(time.Second)
			counted++
			rw.Unlock()
			m.Unlock()
		}
		look := func() {
			rw.RLock()
			time.Sleep(time.Second)
			rw.RUnlock()
		}
		for range 3 {
			go hold()
			go look()
		}
		time.Sleep(10 * time.Second)
		m.Lock()
		defer m.Unlock()
		if counted != 3 || time.Since(began) < 10*time.Second {
			t.Fatalf("%d goroutines have held the mutex after %v", counted, time.Since(began))
		}
	})
}

func TestMutexExcludes(t *testing.T) {
	var m Mutex
	done, n := make(chan bool), 0
	for range 8 {
		go func() {
			for range 1000 {
				m.Lock()
				n++
				m.Unlock()
			}
			done <- true
		}()
	}
	for range 8 {
		<-done
	}
	if n != 8000 {
		t.Fatal(n)
	}
}

func TestYield(t *testing.T) {
	called := false
	OnYield(func() { called = true })
	Yield()
	OnYield(nil)
	if called != Yields {
		t.Fatalf("called: %v, in a build where Yields is %v", called, Yields)
	}
	called = false
	Yield()
	if called {
		t.Fatal("called after its end")
	}
}
