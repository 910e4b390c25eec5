package replica

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

const patience = 10 * time.Second

// fetching is a bench whose fetchers run against leaders that the test plays.
type fetching struct {
	*replicated
	leaders map[int32]*scripted
	dialled chan int32
}

func newFetching(t *testing.T) *fetching {
	f := &fetching{replicated: newReplicated(t), leaders: map[int32]*scripted{2: newScripted(), 3: newScripted()}, dialled: make(chan int32, 100)}
	o := &f.manager.fetchers.o
	o.Replication.Fetch = FetchSettings{Fetchers: 1, MaxBytes: 1000, MinBytes: 1, ResponseMaxBytes: 5000, WaitMaxMs: 500, BackoffMs: 1000, SocketTimeoutMs: 30_000}
	o.Replication.Dial = func(_ context.Context, id int32) (Peer, error) {
		f.dialled <- id
		return f.leaders[id], nil
	}
	f.manager.fetchers.start()
	t.Cleanup(f.manager.fetchers.stop)
	return f
}

// asked is the next request that leader gets; time goes on until it comes.
func (f *fetching) asked(leader int32) kmsg.Request {
	f.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case req := <-f.leaders[leader].calls:
			return req
		case <-time.After(5 * time.Millisecond):
			f.clock.Advance(20 * time.Millisecond)
		}
	}
	f.t.Fatalf("leader %d is not asked", leader)
	return nil
}

func (f *fetching) fetchFrom(leader int32) *kmsg.FetchRequest {
	f.t.Helper()
	return f.asked(leader).(*kmsg.FetchRequest)
}

func (f *fetching) answers(leader int32, resp kmsg.Response) {
	f.t.Helper()
	select {
	case f.leaders[leader].answers <- resp:
	case <-time.After(patience):
		f.t.Fatal("nobody waits for an answer")
	}
}

// response is one of the session 7, about partition t-0.
func response(fill func(*kmsg.FetchResponseTopicPartition)) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.SessionID = 7
	if fill == nil {
		return resp
	}
	t := kmsg.NewFetchResponseTopic()
	t.TopicID = idOf("t")
	p := kmsg.NewFetchResponseTopicPartition()
	fill(&p)
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	return resp
}

func requireTarget(t *testing.T, req *kmsg.FetchRequest, epoch int32, offset int64) {
	t.Helper()
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
		t.Fatalf("asked for %+v", req.Topics)
	}
	p := req.Topics[0].Partitions[0]
	if p.CurrentLeaderEpoch != epoch || p.FetchOffset != offset || p.PartitionMaxBytes != 1000 {
		t.Errorf("asked for %+v, want epoch %d, offset %d", p, epoch, offset)
	}
}

// A session: all at first, then what changed, with the broker's epoch and the limits in every request.
func TestFetcherReplicates(t *testing.T) {
	f := newFetching(t)
	p := f.replicate(2, 2)
	req := f.fetchFrom(2)
	requireTarget(t, req, 0, 0)
	if req.ReplicaState.ID != node || req.ReplicaState.Epoch != 1 || req.MaxWaitMillis != 500 || req.MinBytes != 1 || req.MaxBytes != 5000 || req.SessionEpoch != 0 {
		t.Errorf("%+v", req)
	}
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) { a.RecordBatches, a.HighWatermark = stamped(t, 0, 0, 2), 1 }))
	req = f.fetchFrom(2)
	requireTarget(t, req, 0, 2)
	requireHW(t, p, 1)
	if req.SessionID != 7 || req.SessionEpoch != 1 {
		t.Errorf("session %d, epoch %d", req.SessionID, req.SessionEpoch)
	}
	f.answers(2, response(nil))
	if req = f.fetchFrom(2); len(req.Topics) != 0 || req.SessionEpoch != 2 {
		t.Errorf("asked again for what the session has: %+v", req)
	}
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) { a.HighWatermark = 2 }))
	f.fetchFrom(2)
	requireHW(t, p, 2)
}

// A new leadership is followed at once, from the broker that it names; a broker that nothing is followed from any more
// is left alone.
func TestFetcherFollowsLeadership(t *testing.T) {
	f := newFetching(t)
	f.replicate(2, 2, 3)
	requireTarget(t, f.fetchFrom(2), 0, 0)
	f.elect(2, 2, 3)
	requireTarget(t, f.fetchFrom(2), 1, 0) // the call that waited was given up
	f.elect(3, 2, 3)
	requireTarget(t, f.fetchFrom(3), 2, 0)
	if n := len(f.manager.fetchers.byKey); n != 1 {
		t.Errorf("%d fetchers for one leader", n)
	}
	f.elect(1, 1, 2, 3)
	if len(f.manager.fetchers.byKey) != 0 || len(f.manager.fetchers.of) != 0 {
		t.Error("a leader fetches")
	}
	f.manager.fetchers.running.Wait() // the fetchers have ended
	f.elect(2, 2)
	requireTarget(t, f.fetchFrom(2), 4, 0)
	f.apply(&metadata.RemoveTopicRecord{ID: idOf("t")})
	f.manager.fetchers.running.Wait()
}

// What does not fit is cut off at the point that the leader names, and told once more: the session has not taken the
// high watermark over.
func TestFetcherTruncates(t *testing.T) {
	f := newFetching(t)
	p := f.replicate(1, 1)
	f.writes(p, 3)
	f.elect(2, 2)
	requireTarget(t, f.fetchFrom(2), 1, 3)
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) {
		a.HighWatermark, a.DivergingEpoch.Epoch, a.DivergingEpoch.EndOffset = 1, 0, 1
	}))
	req := f.fetchFrom(2)
	requireTarget(t, req, 1, 1)
	requireEnd(t, p, 1)
	if req.SessionEpoch != 0 {
		t.Error("the session went on")
	}
}

// A log whose end is outside of the leader's is asked about, and goes on inside.
func TestFetcherOutOfRange(t *testing.T) {
	f := newFetching(t)
	p := f.replicate(2, 2)
	f.fetchFrom(2)
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) { a.ErrorCode = kerr.OffsetOutOfRange.Code }))
	for _, c := range []struct{ timestamp, offset int64 }{{TimestampLatest, 20}, {TimestampEarliest, 10}} {
		req := f.asked(2).(*kmsg.ListOffsetsRequest)
		if at := req.Topics[0].Partitions[0]; at.Timestamp != c.timestamp || at.CurrentLeaderEpoch != 0 || req.ReplicaID != node || req.Topics[0].Topic != "t" {
			t.Errorf("%+v", req)
		}
		resp := kmsg.NewPtrListOffsetsResponse()
		rt := kmsg.NewListOffsetsResponseTopic()
		rp := kmsg.NewListOffsetsResponseTopicPartition()
		rp.Offset = c.offset
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		f.answers(2, resp)
	}
	f.fetchFrom(2)
	requireEnd(t, p, 10)
}

// A leader that refuses an end which is inside of its log (the follower's epochs are wrong) is not asked again at once,
// for ever.
func TestFetcherOutOfRangeThatIsNot(t *testing.T) {
	f := newFetching(t)
	p := f.replicate(2, 2)
	f.fetchFrom(2)
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) { a.ErrorCode = kerr.OffsetOutOfRange.Code }))
	before := f.clock.Now()
	for range 2 { // its end and its start
		f.asked(2)
		resp := kmsg.NewPtrListOffsetsResponse()
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Partitions = append(rt.Partitions, kmsg.NewListOffsetsResponseTopicPartition())
		rt.Partitions[0].Offset = 0
		resp.Topics = append(resp.Topics, rt)
		f.answers(2, resp)
	}
	f.fetchFrom(2)
	if paused := f.clock.Now().Sub(before); paused < firstBackoff {
		t.Errorf("asked again after %v", paused)
	}
	requireEnd(t, p, 0)
}

// A partition's error makes it pause, and the others go on; a session's makes a new one; a connection's another
// connection.
func TestFetcherErrors(t *testing.T) {
	f := newFetching(t)
	p := f.replicate(2, 2)
	f.fetchFrom(2)
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) { a.ErrorCode = kerr.NotLeaderForPartition.Code }))
	before := f.clock.Now()
	req := f.fetchFrom(2) // the session has the partition still
	if len(req.Topics) != 0 || req.SessionEpoch != 1 || f.clock.Now().Sub(before) < firstBackoff {
		t.Errorf("asked for %+v in epoch %d after %v", req.Topics, req.SessionEpoch, f.clock.Now().Sub(before))
	}
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) { a.RecordBatches = stamped(t, 0, 0, 1) }))
	f.fetchFrom(2)
	requireEnd(t, p, 1)
	lost := response(nil)
	lost.ErrorCode = kerr.FetchSessionIDNotFound.Code
	f.answers(2, lost)
	if req = f.fetchFrom(2); req.SessionEpoch != 0 {
		t.Errorf("epoch %d of a session that the leader lost", req.SessionEpoch)
	}
	if len(f.dialled) != 1 {
		t.Errorf("%d connections", len(f.dialled))
	}
	f.answers(2, nil) // the connection breaks
	if req = f.fetchFrom(2); req.SessionEpoch != 0 || len(f.dialled) != 2 {
		t.Errorf("epoch %d on connection %d", req.SessionEpoch, len(f.dialled))
	}
}

// A partition that pauses does not wait for as long as the others' fetch may wait at the leader.
func TestFetcherComesBackInTime(t *testing.T) {
	f := newFetching(t)
	f.replicate(2, 2)
	f.fetchFrom(2)
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) { a.HighWatermark = 0 }))
	f.fetchFrom(2)
	f.apply(&metadata.PartitionRecord{TopicID: idOf("t"), Index: 1, Partition: metadata.Partition{Replicas: []int32{1, 2}, ISR: []int32{2}, Leader: 2}})
	var req *kmsg.FetchRequest
	for req == nil || len(req.Topics) == 0 { // the call that did not ask for it is given up
		req = f.fetchFrom(2)
	}
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) { a.Partition, a.ErrorCode = 1, kerr.UnknownLeaderEpoch.Code }))
	if req = f.fetchFrom(2); len(req.ForgottenTopics) != 1 || req.MaxWaitMillis > int32(firstBackoff.Milliseconds())+1 {
		t.Errorf("a fetch that may wait for %d ms, without %+v", req.MaxWaitMillis, req.ForgottenTopics)
	}
	for len(req.Topics) == 0 {
		if req.MaxWaitMillis == 500 {
			t.Fatal("a fetch waits for long, without it")
		}
		f.answers(2, response(nil))
		f.clock.Advance(firstBackoff)
		req = f.fetchFrom(2)
	}
	if req.MaxWaitMillis != 500 {
		t.Errorf("a fetch with all partitions waits for %d ms", req.MaxWaitMillis)
	}
}

// Damaged records get not into the log: they are asked for again.
func TestFetcherRefusesDamage(t *testing.T) {
	f := newFetching(t)
	p := f.replicate(2, 2)
	f.fetchFrom(2)
	damaged := stamped(t, 0, 0, 1)
	damaged[len(damaged)-1] ^= 1
	f.answers(2, response(func(a *kmsg.FetchResponseTopicPartition) { a.RecordBatches, a.HighWatermark = damaged, 1 }))
	requireTarget(t, f.fetchFrom(2), 0, 0)
	requireEnd(t, p, 0)
}

func TestBackoffDoublesToItsLimit(t *testing.T) {
	f := &fetcher{o: Options{Replication: Replication{Fetch: FetchSettings{BackoffMs: 1000}}}}
	for failures, want := range map[int]time.Duration{0: firstBackoff, 1: 2 * firstBackoff, 3: 8 * firstBackoff, 6: time.Second, 1000: time.Second} {
		if got := f.backoff(failures); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
}

// Every partition of a leader is with one of its fetchers, and always the same.
func TestPartitionsAreSpreadOverFetchers(t *testing.T) {
	const fetchers = 4
	seen := map[int]int{}
	for i := range int32(400) {
		n := numberOf(&Partition{Topic: "t", Index: i}, fetchers)
		if n < 0 || n >= fetchers {
			t.Fatalf("fetcher %d", n)
		}
		seen[n]++
	}
	for n, count := range seen {
		if count != 100 {
			t.Errorf("fetcher %d has %d partitions", n, count)
		}
	}
}
