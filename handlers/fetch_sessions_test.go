package handlers

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
	"grete/internal/memory"
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
			cache := NewFetchSessions(1, memory.New(0).Sessions, now, rand.NewPCG(1, 1))
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
	cache := NewFetchSessions(50, memory.New(0).Sessions, clock.NewManual(time.UnixMilli(0)), rand.NewPCG(1, 1))
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

// What sessions remember is bounded in bytes: a client whose partitions find no room gets no session, a session that
// would grow beyond the bound ends, replicas always have one, and what ends gives everything back.
func TestFetchSessionsBorrow(t *testing.T) {
	now := clock.NewManual(time.UnixMilli(1_000_000))
	lends := memory.New(32 * 8000 * sessionPartitionBytes).Sessions // 8,000 partitions, of which a session has 2,000
	cache := NewFetchSessions(1000, lends, now, rand.NewPCG(1, 1))
	fetchOf := func(id, epoch int32, partitions int) *kmsg.FetchRequest {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.SessionID, req.SessionEpoch = 11, id, epoch
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = "absent"
		for p := range int32(partitions) {
			part := kmsg.NewFetchRequestTopicPartition()
			part.Partition = p + 10_000*epoch
			topic.Partitions = append(topic.Partitions, part)
		}
		req.Topics = append(req.Topics, topic)
		return req
	}
	open := func(partitions int, replica bool) int32 {
		x, err := cache.open(fetchOf(0, 0, partitions), replica)
		if err != nil {
			t.Fatal(err)
		}
		answers := fetchAnswers{all: x.targets}
		for i := range x.targets {
			answers.absent = append(answers.absent, absentPartition{int32(i), 3})
		}
		sent, id, _ := x.finish(answers)
		if sent.len() != partitions {
			t.Errorf("%d answers to %d partitions", sent.len(), partitions)
		}
		return id
	}
	if id := open(2001, false); id != noFetchSession {
		t.Error("a session has more than its part")
	}
	var ids []int32
	for range 8 {
		ids = append(ids, open(1000, false))
	}
	if slices.Contains(ids, noFetchSession) || lends.UsedBytes() != lends.ShareBytes() {
		t.Errorf("sessions %v borrow %d of %d", ids, lends.UsedBytes(), lends.ShareBytes())
	}
	if id := open(1, false); id != noFetchSession {
		t.Error("there is room beyond the share")
	}
	if id := open(1000, true); id == noFetchSession {
		t.Error("a replica has no session")
	} else {
		cache.remove(id)
	}
	again := fetchOf(ids[2], 0, 1000)
	again.SessionEpoch = 1
	if x, err := cache.open(again, false); err != nil || len(x.targets) != 1000 {
		t.Errorf("a session that goes on with the partitions that it has: %v", err)
	}
	if _, err := cache.open(fetchOf(ids[0], 1, 100), false); err != kerr.FetchSessionIDNotFound || cache.get(ids[0]) != nil {
		t.Errorf("a session that cannot grow: %v", err)
	}
	if x, err := cache.open(fetchOf(ids[1], 1, 100), false); err != nil || len(x.targets) != 1100 {
		t.Errorf("one that can: %v", err)
	}
	if lends.UsedBytes() != 7100*sessionPartitionBytes {
		t.Errorf("%d partitions are paid for", lends.UsedBytes()/sessionPartitionBytes)
	}
	now.Advance(3 * time.Minute)
	if id := open(2000, false); id == noFetchSession {
		t.Error("what nobody uses keeps its room")
	}
	for id := range cache.sessions {
		cache.remove(id)
	}
	if lends.UsedBytes() != 0 {
		t.Errorf("%d bytes were not given back", lends.UsedBytes())
	}
}

func TestNextFetchEpoch(t *testing.T) {
	for in, want := range map[int32]int32{0: 1, 5: 6, math.MaxInt32: 1, -1: -1} {
		if got := nextFetchEpoch(in); got != want {
			t.Errorf("after %d comes %d, want %d", in, got, want)
		}
	}
}
