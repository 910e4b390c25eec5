package handlers

import (
	"math"
	"math/rand/v2"

	"grete/internal/clock"
	"grete/internal/memory"
	"grete/internal/sched"
)

// Session ids and epochs of KIP-227 (FetchMetadata).
const (
	noFetchSession    = int32(0)
	initialFetchEpoch = int32(0)
	finalFetchEpoch   = int32(-1)
	// fetchSessionEvictionMs is how long a session is protected after its creation from larger ones, and after its
	// last use from all (MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS).
	fetchSessionEvictionMs = 120_000
)

// nextFetchEpoch wraps to 1: 0 means a full fetch.
func nextFetchEpoch(epoch int32) int32 {
	switch {
	case epoch < 0:
		return finalFetchEpoch
	case epoch == math.MaxInt32:
		return 1
	}
	return epoch + 1
}

// FetchSessions is the broker's cache of incremental fetch sessions. Sessions are not tied to connections. Its lock
// may be taken inside a session's, never outside it.
type FetchSessions struct {
	clock clock.Clock
	rand  func() uint64
	slots int // max.incremental.fetch.session.cache.slots
	lends *memory.Account

	mu       sched.Mutex
	sessions map[int32]*fetchSession
}

// NewFetchSessions makes a cache of at most slots sessions, which borrow of lends; random gives their ids.
func NewFetchSessions(slots int, lends *memory.Account, c clock.Clock, random rand.Source) *FetchSessions {
	return &FetchSessions{clock: c, rand: random.Uint64, slots: slots, lends: lends, sessions: map[int32]*fetchSession{}}
}

// Counts returns the numbers of sessions and of partitions in them.
func (c *FetchSessions) Counts() (sessions, partitions int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sessions {
		partitions += s.cachedSize
	}
	return len(c.sessions), partitions
}

func (c *FetchSessions) get(id int32) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}

func (c *FetchSessions) remove(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(c.sessions[id])
}

// drop forgets a session and gives back what it has borrowed; nil is allowed. c.mu is held.
func (c *FetchSessions) drop(s *fetchSession) {
	if s == nil {
		return
	}
	delete(c.sessions, s.id)
	c.lends.Give(s.lentBytes)
	s.lentBytes = 0
}

// touch notes that s was used and has size partitions now.
func (c *FetchSessions) touch(s *fetchSession, size int) {
	now := clock.Millis(c.clock)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.lastUsedMs, s.cachedSize = now, size
	c.settle(s, size)
}

// add keeps s and gives it an id, or returns noFetchSession when the cache is full of better ones.
func (c *FetchSessions) add(s *fetchSession) int32 {
	now := clock.Millis(c.clock)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sessions) >= c.slots && !c.evict(s, now) {
		c.drop(s)
		return noFetchSession
	}
	s.createdMs, s.lastUsedMs = now, now
	s.id = c.newID()
	c.sessions[s.id] = s
	c.settle(s, s.cachedSize)
	return s.id
}

func (c *FetchSessions) newID() int32 {
	for {
		id := int32(c.rand() & math.MaxInt32)
		if id != noFetchSession && c.sessions[id] == nil {
			return id
		}
	}
}

// evict makes room for s as Kafka does: the session unused for longest if it is stale, else the smallest one that is
// no longer protected, if s is worth more. It looks at all slots, which happens only while the cache is full.
func (c *FetchSessions) evict(s *fetchSession, nowMs int64) bool {
	var oldest, least *fetchSession
	for _, o := range c.sessions {
		if oldest == nil || o.lastUsedMs < oldest.lastUsedMs {
			oldest = o
		}
		if o.evictableBy(s) && (least == nil || o.worthLess(least)) {
			least = o
		}
	}
	switch {
	case oldest != nil && nowMs-oldest.lastUsedMs > fetchSessionEvictionMs:
		c.drop(oldest)
	case least != nil && least.worthLess(s):
		c.drop(least)
	default:
		return false
	}
	return true
}

// evictableBy: replicas' sessions may evict clients' at once, otherwise a session is protected while it is young.
func (s *fetchSession) evictableBy(by *fetchSession) bool {
	return s.lastUsedMs-s.createdMs > fetchSessionEvictionMs || by.privileged && !s.privileged
}

func (s *fetchSession) worthLess(than *fetchSession) bool {
	if s.privileged != than.privileged {
		return !s.privileged
	}
	return s.cachedSize < than.cachedSize
}
