package replica

import (
	"testing"

	"grete/cluster/metadata"
)

// The low watermark is the start of the replica that lags, as far as its broker lives and has fetched in this
// leadership.
func TestLowWatermark(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1, 2)
	r.writes(p, 6)
	var watch Watch
	w := &counter{}
	p.Watch(&watch, w, 0)
	requireLow := func(want int64) {
		t.Helper()
		if low, err := p.LowWatermark(); err != nil || low != want {
			t.Errorf("%d, %v, want %d", low, err, want)
		}
	}
	fetches := func(id int32, start int64) {
		t.Helper()
		requireError(t, p.Followed(FollowerFetch{
			ReplicaID: id, BrokerEpoch: r.epochOf(id), Offset: 6, LogStart: start, LeaderEpoch: p.LeaderEpoch(), LeaderEnd: 6,
		}), nil)
	}
	requireLow(-1)
	fetches(2, 0)
	fetches(3, 0)
	d, err := p.DeleteRecords(4)
	if err != nil || d != (Deletion{Required: 4, LowWatermark: 0}) || d.Done() {
		t.Errorf("%+v, %v", d, err)
	}
	fetches(2, 4)
	requireLow(0)
	before := w.n.Load()
	fetches(3, 3)
	requireLow(3)
	if w.n.Load() == before {
		t.Error("nobody is told")
	}
	r.apply(&metadata.BrokerRegistrationChangeRecord{BrokerID: 3, BrokerEpoch: r.epochOf(3), Fenced: 1})
	requireLow(4)
	if d, err = p.DeleteRecords(DeleteToHighWatermark); err != nil || d != (Deletion{Required: 6, LowWatermark: 4}) {
		t.Errorf("%+v, %v", d, err)
	}
	fetches(2, 6)
	requireLow(6)
	if d, err = p.DeleteRecords(2); err != nil || !d.Done() {
		t.Errorf("%+v, %v", d, err)
	}
	r.elect(2, 1, 2)
	_, err = p.LowWatermark()
	requireError(t, err, ErrNotLeader)
}
