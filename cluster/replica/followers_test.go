package replica

import (
	"slices"
	"testing"
	"time"

	"grete/cluster/metadata"
)

// What a follower had under another leadership says nothing: it may have truncated since.
func TestNewLeadershipForgetsFollowers(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1, 2, 3)
	r.writes(p, 2)
	requireError(t, r.follows(p, 2, 2), nil)
	requireHW(t, p, 0) // of broker 3 nothing is known
	r.elect(1, 1, 2)
	requireHW(t, p, 0)
	requireError(t, r.follows(p, 2, 1), nil)
	requireHW(t, p, 1)
	r.isr(1, 2, 3) // the same leadership goes on
	requireError(t, r.follows(p, 3, 2), nil)
	requireHW(t, p, 1)
	requireError(t, r.follows(p, 2, 2), nil)
	requireHW(t, p, 2)
}

func TestFetchOfAnotherLeadershipSaysNothing(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1, 2)
	r.writes(p, 1)
	r.elect(1, 1, 2)
	late := FollowerFetch{ReplicaID: 2, BrokerEpoch: r.epochOf(2), Offset: 1, LeaderEpoch: 0, LeaderEnd: 1}
	requireError(t, p.Followed(late), nil)
	requireHW(t, p, 0)
	late.LeaderEpoch = p.LeaderEpoch()
	requireError(t, p.Followed(late), nil)
	requireHW(t, p, 1)
}

// KIP-903: a fetch that was sent before the follower's broker started anew.
func TestFetchOfAFormerLifeIsRefused(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1, 2)
	r.writes(p, 1)
	old := r.epochOf(2)
	r.register(2)
	late := FollowerFetch{ReplicaID: 2, BrokerEpoch: old, Offset: 1, LeaderEpoch: 0, LeaderEnd: 1}
	requireError(t, p.Followed(late), ErrNotLeader)
	requireHW(t, p, 0)
}

// An ISR that was asked for may have been committed: what is not on its members may get lost with this broker.
func TestProposedReplicasHoldTheHighWatermark(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1)
	r.writes(p, 1)
	requireHW(t, p, 1)
	requireError(t, r.follows(p, 2, 1), nil)
	if asked := r.proposals(); len(asked) != 1 || asked[0].isr[1].BrokerID != 2 || asked[0].isr[1].BrokerEpoch != r.epochOf(2) {
		t.Fatalf("asked for %+v", asked)
	}
	r.clock.Advance(2 * lagMaxMs * time.Millisecond) // broker 2 counts no more as one that has caught up
	r.writes(p, 1)
	requireHW(t, p, 1)
	r.isr(1, 2)
	requireHW(t, p, 1)
	requireError(t, r.follows(p, 2, 2), nil)
	requireHW(t, p, 2)
}

// The other way round: one that is to leave counts until it has left.
func TestLeavingReplicasHoldTheHighWatermark(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1, 2)
	r.writes(p, 1)
	r.clock.Advance(2 * lagMaxMs * time.Millisecond)
	p.shrink()
	asked := r.proposals()
	if len(asked) != 1 || len(asked[0].isr) != 1 || asked[0].isr[0].BrokerID != 1 {
		t.Fatalf("asked for %+v", asked)
	}
	requireHW(t, p, 0)
	r.isr(1)
	requireHW(t, p, 1)
}

// Whoever has caught up will be in sync any moment, and is waited for.
func TestJoiningReplicasHoldTheHighWatermark(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1)
	r.writes(p, 1)
	r.apply(&metadata.BrokerRegistrationChangeRecord{BrokerID: 2, BrokerEpoch: r.epochOf(2), Fenced: 1})
	requireError(t, r.follows(p, 2, 1), nil)
	if asked := r.proposals(); len(asked) != 0 {
		t.Fatalf("asked for a fenced broker: %+v", asked[0].isr)
	}
	r.writes(p, 1)
	requireHW(t, p, 2) // a fenced one is not
	r.apply(&metadata.BrokerRegistrationChangeRecord{BrokerID: 2, BrokerEpoch: r.epochOf(2), Fenced: -1})
	r.writes(p, 1)
	requireHW(t, p, 2)
	r.clock.Advance(2 * lagMaxMs * time.Millisecond)
	r.writes(p, 1)
	requireHW(t, p, 4)
}

// KIP-966: below min.insync.replicas nothing is committed.
func TestHighWatermarkStandsBelowMinISR(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1)
	r.apply(settings("t", "min.insync.replicas", "2")...)
	r.writes(p, 1)
	requireHW(t, p, 0)
	if _, err := p.Produce(ProduceRequest{Records: raw(t, "v"), ProduceVersion: 9, Acks: AckAll}); err == nil {
		t.Error("acks=all was taken with too few in sync")
	}
	requireError(t, r.follows(p, 2, 1), nil)
	r.isr(1, 2)
	requireHW(t, p, 1)
}

func TestHighWatermarkNeverGoesBack(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1, 2)
	r.writes(p, 3)
	requireError(t, r.follows(p, 2, 3), nil)
	requireError(t, r.follows(p, 2, 1), nil) // it lost its tail
	requireHW(t, p, 3)
}

// A follower that is in step with the leader's end of its last fetch has caught up then, even if it never is at the
// end.
func TestCaughtUp(t *testing.T) {
	const at = 10_000
	for what, c := range map[string]struct {
		fetches [][3]int64 // offset, leader's end, time
		want    int64      // when it last had caught up
	}{
		"at the end":       {[][3]int64{{5, 5, at}}, at},
		"behind":           {[][3]int64{{4, 5, at}}, 0},
		"one fetch behind": {[][3]int64{{4, 5, at}, {5, 9, at + 100}}, at},
		"falling behind":   {[][3]int64{{5, 5, at}, {5, 9, at + 100}, {6, 12, at + 200}}, at},
	} {
		f := &follower{end: -1}
		for _, x := range c.fetches {
			f.fetched(FollowerFetch{Offset: x[0], LeaderEnd: x[1]}, x[2])
		}
		if f.caughtUpMs != c.want {
			t.Errorf("%s: caught up at %d, want %d", what, f.caughtUpMs, c.want)
		}
	}
}

func TestStrangersAreNotFollowed(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1)
	r.register(4)
	requireError(t, r.follows(p, 4, 0), nil)
	if p.follower(4) != nil || slices.ContainsFunc(r.proposals(), func(*isrChange) bool { return true }) {
		t.Error("a broker without a replica is followed")
	}
}
