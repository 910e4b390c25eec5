package replica

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestThrottledLists(t *testing.T) {
	for list, want := range map[string][]bool{ // of partitions 0, 1, 2 on broker 1
		"*": {true, true, true}, "": {false, false, false}, "none": {false, false, false},
		"0:1,2:1": {true, false, true}, "2:1, 0:2 ,1:1": {false, true, true}, "0:11": {false, false, false}, "x:1": {false, false, false},
	} {
		throttled := throttledOn(list, "1")
		for index, is := range want {
			if throttled.has(int32(index)) != is {
				t.Errorf("%q: partition %d is throttled: %v", list, index, !is)
			}
		}
	}
}

// A follower that is not in sync gets nothing while the rate is exceeded; one in sync, and a client, do.
func TestLeaderThrottles(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1, 2)
	r.apply(settings("t", "leader.replication.throttled.replicas", "0:1")...)
	r.writes(p, 3)
	requireError(t, r.follows(p, 2, 3), nil)
	gets := func(replica int32) bool {
		t.Helper()
		res, err := p.Read(ReadRequest{CurrentLeaderEpoch: 0, LastFetchedEpoch: NoEpoch, MaxBytes: 1000, ReplicaID: replica, Isolation: ReadLogEnd, LeaderOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if res.Span != nil {
			res.Span.Release()
		}
		return res.Span != nil
	}
	if !gets(3) {
		t.Error("throttled without a rate")
	}
	r.manager.throttles.leader.Set(100)
	p.CountFetch(300, false, false) // a client's does not count
	if !gets(3) {
		t.Error("throttled before anything was sent")
	}
	p.CountFetch(300, false, true)
	for replica, want := range map[int32]bool{3: false, 2: true, -1: true} {
		if gets(replica) != want {
			t.Errorf("%d gets records: %v", replica, !want)
		}
	}
	r.clock.Advance(2 * time.Second)
	if !gets(3) {
		t.Error("throttled for ever")
	}
}

// A partition that is behind is not fetched while the rate is exceeded, others are.
func TestFollowerThrottles(t *testing.T) {
	f := newFetching(t)
	p := f.replicate(2, 2)
	f.apply(settings("t", "follower.replication.throttled.replicas", "*")...)
	f.manager.throttles.follower.Set(1000)
	f.fetchFrom(2)
	began := f.clock.Now()
	records := append(stamped(t, 0, 0, 20), stamped(t, 20, 0, 20)...)
	f.manager.throttles.follower.Record(1000)
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) { a.RecordBatches, a.HighWatermark = records, 100 }))
	f.fetchFrom(2)
	if waited := f.clock.Now().Sub(began); waited < time.Duration(len(records))*time.Millisecond/2 {
		t.Errorf("%d bytes were followed by more after %v", len(records), waited)
	}
	if p.Log().EndOffset() != 40 {
		t.Errorf("%d records", p.Log().EndOffset())
	}
	// In step with the leader it is not throttled.
	f.manager.throttles.follower.Record(1 << 20)
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) { a.HighWatermark = 40 }))
	began = f.clock.Now()
	f.fetchFrom(2)
	if waited := f.clock.Now().Sub(began); waited > 500*time.Millisecond {
		t.Errorf("a replica in step waited %v", waited)
	}
}
