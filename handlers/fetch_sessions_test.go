package handlers

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"grete/internal/clock"
)

func sessionOf(privileged bool, size int) *fetchSession {
	s := newFetchSession(privileged, false)
	for i := range size {
		s.set(fetchTarget{key: fetchKey{topic: "t", partition: int32(i)}})
	}
	s.cachedSize = size
	return s
}

func TestFetchSessionEviction(t *testing.T) {
	for _, c := range []struct {
		name       string
		idle, used time.Duration // since the old session's creation: to its last use, and from there to the new session
		old, new   *fetchSession
		evicts     bool
	}{
		{"young and in use", time.Second, time.Second, sessionOf(false, 1), sessionOf(false, 9), false},
		{"unused for long", time.Second, 3 * time.Minute, sessionOf(false, 9), sessionOf(false, 1), true},
		{"old, smaller", 3 * time.Minute, time.Second, sessionOf(false, 1), sessionOf(false, 2), true},
		{"old, same size", 3 * time.Minute, time.Second, sessionOf(false, 2), sessionOf(false, 2), false},
		{"old, larger", 3 * time.Minute, time.Second, sessionOf(false, 3), sessionOf(false, 2), false},
		{"a replica's evicts a young client's", time.Second, time.Second, sessionOf(false, 9), sessionOf(true, 1), true},
		{"a replica's evicts no young replica's", time.Second, time.Second, sessionOf(true, 1), sessionOf(true, 9), false},
		{"a client's evicts no replica's", 3 * time.Minute, time.Second, sessionOf(true, 1), sessionOf(false, 9), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := clock.NewManual(time.UnixMilli(1_000_000))
			cache := NewFetchSessions(1, now, rand.NewPCG(1, 1))
			id := cache.add(c.old)
			if id == noFetchSession {
				t.Fatal("not added to an empty cache")
			}
			now.Advance(c.idle)
			cache.touch(c.old, c.old.cachedSize)
			now.Advance(c.used)
			got := cache.add(c.new)
			if evicted := cache.get(id) == nil; evicted != c.evicts || (got != noFetchSession) != c.evicts {
				t.Errorf("evicted %v, new id %d, want %v", evicted, got, c.evicts)
			}
			if n, _ := cache.Counts(); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

func TestFetchSessionBound(t *testing.T) {
	cache := NewFetchSessions(50, clock.NewManual(time.UnixMilli(0)), rand.NewPCG(1, 1))
	refused := 0
	for range 80 {
		if cache.add(sessionOf(false, 1)) == noFetchSession {
			refused++
		}
	}
	if n, parts := cache.Counts(); n != 50 || parts != 50 || refused != 30 {
		t.Errorf("%d sessions of %d partitions, %d refused", n, parts, refused)
	}
}

func TestNextFetchEpoch(t *testing.T) {
	for in, want := range map[int32]int32{0: 1, 5: 6, math.MaxInt32: 1, -1: -1} {
		if got := nextFetchEpoch(in); got != want {
			t.Errorf("after %d comes %d, want %d", in, got, want)
		}
	}
}
