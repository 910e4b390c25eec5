package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func shortRetention() Config {
	cfg := DefaultConfig()
	cfg.OffsetsRetentionMs, cfg.OffsetsRetentionCheckIntervalMs = 100_000, 10_000
	return cfg
}

func (r *rig) commit(group string) {
	r.t.Helper()
	req := txnCommit(group, 0, 1)
	r.s.CommitOffsets(req, func(topics []kmsg.OffsetCommitResponseTopic) {
		if code := topics[0].Partitions[0].ErrorCode; code != 0 {
			r.t.Errorf("%s: commit %d", group, code)
		}
	})
}

// looked counts the groups that checks look at until the clock has moved by d.
func (r *rig) looked(d time.Duration) (n int) {
	r.look(func(sh *shard) {
		for _, e := range sh.expiring.heap {
			if e.atMs <= r.clock.Now().Add(d).UnixMilli() {
				n++
			}
		}
	})
	r.clock.Advance(d)
	return n
}

// TestExpiryLooksAtWhatIsDue: groups that nothing has expired of are looked at once after they were made, and then when
// their first offset expires.
func TestExpiryLooksAtWhatIsDue(t *testing.T) {
	const early, late = 10, 1000
	r := newRig(t, shortRetention())
	for i := range early {
		r.commit(fmt.Sprint("early", i))
	}
	r.clock.Advance(20 * time.Second)
	for i := range late {
		r.commit(fmt.Sprint("late", i))
	}
	for _, step := range []struct {
		d      time.Duration
		looked int
		left   int
	}{
		{10 * time.Second, late, early + late}, // they are new
		{60 * time.Second, 0, early + late},
		{10 * time.Second, early, late},
		{10 * time.Second, 0, late},
		{10 * time.Second, late, 0},
	} {
		if n := r.looked(step.d); n != step.looked {
			t.Errorf("%v: checks look at %d groups, want %d", r.clock.Now().Unix(), n, step.looked)
		}
		r.look(func(sh *shard) {
			if n := len(sh.groups); n != step.left {
				t.Errorf("%v: %d groups are left, want %d", r.clock.Now().Unix(), n, step.left)
			}
		})
	}
	if n := r.log.Appends(); n != early+late+1+(late+groupsPerSlice-1)/groupsPerSlice {
		t.Errorf("%d appends: expiry takes a round for each slice", n)
	}
}

// TestCommitsMoveExpiry: groups that commit again and again are not looked at for each commit, and keep their offsets.
func TestCommitsMoveExpiry(t *testing.T) {
	r := newRig(t, shortRetention())
	looked := 0
	for range 50 {
		r.commit("g")
		looked += r.looked(10 * time.Second)
	}
	if looked > 7 {
		t.Errorf("looked at %d times in five retentions", looked)
	}
	if n := r.looked(100 * time.Second); n == 0 || len(r.state()) != 0 {
		t.Errorf("looked at %d times when it had expired, left: %v", n, r.state())
	}
}

// TestEndedTransactionLetsExpire: what an open transaction kept goes with the check after its end.
func TestEndedTransactionLetsExpire(t *testing.T) {
	r := newRig(t, shortRetention())
	r.commit("g")
	if code := r.txnCommit(txnCommit("g", 0, 2), 7); code != 0 {
		t.Fatal(code)
	}
	r.clock.Advance(300 * time.Second)
	if len(r.state()) != 1 {
		t.Fatalf("before the end: %v", r.state())
	}
	r.endTxn(7, false)
	r.clock.Advance(10 * time.Second)
	if left := r.state(); len(left) != 0 {
		t.Errorf("after the end: %v", left)
	}
}

// TestGroupGoesWithItsLastOffset: a group without members goes with the check after its last offset was deleted.
func TestGroupGoesWithItsLastOffset(t *testing.T) {
	r := newRig(t, shortRetention())
	r.commit("g")
	r.clock.Advance(10 * time.Second)
	topics := []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
	r.s.DeleteOffsets("g", topics, func(code int16, _ []kmsg.OffsetDeleteResponseTopic) {
		if code != 0 {
			t.Error(code)
		}
	})
	r.clock.Advance(10 * time.Second)
	if left := r.state(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
