package replica

import (
	"testing"
	"time"

	"grete/cluster/metadata"
)

// racks registers brokers with a rack each, at a listener.
func (r *replicated) racks(racks ...string) {
	var records []metadata.Record
	for i, rack := range racks {
		records = append(records, &metadata.RegisterBrokerRecord{
			BrokerID: int32(i + 1), BrokerEpoch: r.offset + 1, Incarnation: metadata.UUID{byte(i + 1), byte(r.offset)}, Rack: &rack,
			Endpoints: []metadata.Endpoint{{Listener: "PLAIN", Host: "h", Port: uint16(i + 1)}},
		})
	}
	r.apply(records...)
}

func (r *replicated) reads(p *Partition, rack string, offset int64, change ...func(*ReadRequest)) ReadResult {
	r.t.Helper()
	req := ReadRequest{Offset: offset, CurrentLeaderEpoch: NoEpoch, LastFetchedEpoch: NoEpoch, ReplicaID: -1, MaxBytes: 1 << 20, Rack: rack, Listener: "PLAIN"}
	for _, f := range change {
		f(&req)
	}
	res, err := p.Read(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if res.Span != nil {
		defer res.Span.Release()
	}
	if res.Preferred != NoPreferredReplica && res.Span != nil {
		r.t.Error("records beside the name of another replica")
	}
	return res
}

func TestPreferredReplica(t *testing.T) {
	r := newReplicated(t)
	r.manager.brokers.rackAware = true
	r.racks("a", "b", "b")
	p := r.replicate(1, 1, 2, 3)
	r.writes(p, 4)
	fetches := func(id int32, offset, start int64) {
		t.Helper()
		requireError(t, p.Followed(FollowerFetch{
			ReplicaID: id, BrokerEpoch: r.epochOf(id), Offset: offset, LogStart: start, LeaderEpoch: p.LeaderEpoch(), LeaderEnd: 4,
		}), nil)
	}
	fetches(2, 3, 1)
	fetches(3, 2, 0)
	for what, c := range map[string]struct {
		rack   string
		offset int64
		change func(*ReadRequest)
		want   int32
	}{
		"no rack":               {"", 1, nil, -1},
		"the leader's rack":     {"a", 1, nil, -1},
		"nobody's rack":         {"c", 1, nil, -1},
		"the one with most":     {"b", 1, nil, 2},
		"the one that starts":   {"b", 0, nil, 3},
		"nobody has the offset": {"b", 4, nil, -1},
		"another listener":      {"b", 1, func(q *ReadRequest) { q.Listener = "OTHER" }, -1},
		"a follower":            {"b", 1, func(q *ReadRequest) { q.ReplicaID = 2 }, -1},
	} {
		if c.change == nil {
			c.change = func(*ReadRequest) {}
		}
		res := r.reads(p, c.rack, c.offset, c.change)
		if res.Preferred != c.want || res.HighWatermark != 2 {
			t.Errorf("%s: sent to %d, want %d", what, res.Preferred, c.want)
		}
	}
	fetches(3, 3, 1)
	if got := r.reads(p, "b", 1).Preferred; got != 3 {
		t.Errorf("of two equal ones %d", got) // the larger id, as Kafka
	}
	r.clock.Advance(time.Millisecond)
	fetches(2, 4, 1)
	fetches(3, 4, 1)
	r.clock.Advance(time.Millisecond)
	fetches(2, 4, 1)
	if got := r.reads(p, "b", 1).Preferred; got != 2 {
		t.Errorf("sent to %d, which caught up earlier", got)
	}
	r.apply(&metadata.BrokerRegistrationChangeRecord{BrokerID: 2, BrokerEpoch: r.epochOf(2), Fenced: 1})
	if got := r.reads(p, "b", 1).Preferred; got != 3 {
		t.Errorf("sent to %d while 2 is fenced", got)
	}
	r.isr(1, 2)
	if got := r.reads(p, "b", 1).Preferred; got != NoPreferredReplica {
		t.Errorf("sent to %d, which is not in sync or fenced", got)
	}
	r.elect(2, 1, 2)
	if got := r.reads(p, "b", 1).Preferred; got != NoPreferredReplica {
		t.Errorf("a follower sends to %d", got)
	}
}

func TestWithoutASelectorNobodyIsSentAway(t *testing.T) {
	r := newReplicated(t)
	r.racks("a", "b", "b")
	p := r.replicate(1, 1, 2)
	requireError(t, r.follows(p, 2, 0), nil)
	if got := r.reads(p, "b", 0).Preferred; got != NoPreferredReplica {
		t.Errorf("sent to %d", got)
	}
}

// A consumer at a follower sees what is committed as far as the follower knows; beyond its log it is sent back by an
// error.
func TestFollowerServesConsumers(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(2, 1, 2)
	var records []byte
	for i := range int64(4) {
		records = append(records, stamped(t, i, 0, 1)...)
	}
	err := p.replicate(0, fetched{offset: 0, records: records, highWatermark: 2, logStart: 1})
	requireError(t, err, nil)
	for offset, want := range map[int64]struct {
		err     error
		records bool
	}{0: {err: ErrOffsetOutOfRange}, 1: {records: true}, 2: {}, 4: {}, 5: {err: ErrOffsetOutOfRange}} {
		res, err := p.Read(ReadRequest{Offset: offset, CurrentLeaderEpoch: 0, LastFetchedEpoch: NoEpoch, ReplicaID: -1, MaxBytes: 1 << 20})
		requireError(t, err, want.err)
		if (res.Span != nil) != want.records || err == nil && (res.HighWatermark != 2 || res.LogStartOffset != 1) {
			t.Errorf("at %d: %+v", offset, res)
		}
		if res.Span != nil {
			res.Span.Release()
		}
	}
	_, err = p.Read(ReadRequest{Offset: 1, CurrentLeaderEpoch: 1, LastFetchedEpoch: NoEpoch, ReplicaID: -1})
	requireError(t, err, ErrUnknownLeaderEpoch)
	_, err = p.Read(ReadRequest{Offset: 1, CurrentLeaderEpoch: 0, LastFetchedEpoch: NoEpoch, ReplicaID: -1, LeaderOnly: true})
	requireError(t, err, ErrNotLeader)
}
