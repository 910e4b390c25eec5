package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
)

const (
	// sessionPartitionBytes is what a session remembers of a partition, with its places in a list and in a map.
	sessionPartitionBytes = 340
	// A client's session has at most one part in sessionPart of what all may borrow.
	sessionPart = 4
)

// lend borrows for a session of so many partitions before it is made; false: there is no room for it. Replicas'
// sessions always have room. What was not used for long goes first.
func (c *FetchSessions) lend(s *fetchSession, partitions int) bool {
	n := int64(partitions) * sessionPartitionBytes
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.privileged && s.lentBytes+n > c.lends.ShareBytes()/sessionPart {
		return false
	}
	for !c.lends.Take(n) {
		if s.privileged {
			c.lends.Force(n)
			break
		}
		if !c.evictStale(clock.Millis(c.clock)) {
			return false
		}
	}
	s.lentBytes += n
	return true
}

// lendMore borrows for what an incremental request may add to its session; s.mu is held.
func (c *FetchSessions) lendMore(s *fetchSession, req *kmsg.FetchRequest) bool {
	n := 0
	eachTarget(req, func(t fetchTarget) {
		if s.parts[t.key] == nil {
			n++
		}
	})
	return n == 0 || c.lend(s, n)
}

// settle has s borrow what it holds, and no more; one that is not in the cache any more gives back all. c.mu is held.
func (c *FetchSessions) settle(s *fetchSession, partitions int) {
	n := int64(partitions) * sessionPartitionBytes
	if c.sessions[s.id] != s {
		n = 0
	}
	if more := n - s.lentBytes; more > 0 {
		c.lends.Force(more)
	} else if more < 0 {
		c.lends.Give(-more)
	}
	s.lentBytes = n
}

// evictStale drops the session that was not used for longest, if that is long; c.mu is held.
func (c *FetchSessions) evictStale(nowMs int64) bool {
	var oldest *fetchSession
	for _, o := range c.sessions {
		if oldest == nil || o.lastUsedMs < oldest.lastUsedMs {
			oldest = o
		}
	}
	if oldest == nil || nowMs-oldest.lastUsedMs <= fetchSessionEvictionMs {
		return false
	}
	c.drop(oldest)
	return true
}
