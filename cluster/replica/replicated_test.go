package replica

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

const lagMaxMs = 1000

// replicated is a bench of three brokers, of which this one is the first, on a clock that the test moves. Nothing is
// started: proposals stay with the alterer.
type replicated struct {
	*bench
	clock *clock.Manual
}

func newReplicated(t testing.TB) *replicated {
	t.Helper()
	return newReplicatedOn(t, vfs.NewMem())
}

func newReplicatedOn(t testing.TB, fs vfs.FS, moreDirs ...string) *replicated {
	t.Helper()
	r := &replicated{clock: clock.NewManual(time.Now())}
	r.bench = newBenchWith(t, fs, func(o *Options) {
		o.Clock = r.clock
		o.Replication = Replication{LagTimeMaxMs: lagMaxMs, BrokerEpoch: func() int64 { return 1 }, Fetch: FetchSettings{Fetchers: 1, BackoffMs: 1000}}
	}, moreDirs...)
	r.register(1, 2, 3)
	return r
}

// register begins new lives of brokers.
func (r *replicated) register(ids ...int32) {
	var records []metadata.Record
	for _, id := range ids {
		records = append(records, &metadata.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: r.offset + 1, Incarnation: metadata.UUID{byte(id), byte(r.offset)}})
	}
	r.apply(records...)
}

func (r *replicated) epochOf(id int32) int64 { return r.image.Broker(id).Epoch }

// replicate makes topic t with one partition, of the replicas 1, 2 and 3.
func (r *replicated) replicate(leader int32, isr ...int32) *Partition {
	r.t.Helper()
	r.apply(&metadata.TopicRecord{Name: "t", ID: idOf("t")}, &metadata.PartitionRecord{TopicID: idOf("t"), Partition: metadata.Partition{
		Replicas: []int32{1, 2, 3}, ISR: isr, Leader: leader,
	}})
	return r.partition("t", 0)
}

// elect begins another leadership.
func (r *replicated) elect(leader int32, isr ...int32) {
	r.t.Helper()
	c := metadata.NewPartitionChange(idOf("t"), 0)
	c.Leader, c.ISR = leader, isr
	r.apply(c)
}

// isr changes the in-sync replicas alone.
func (r *replicated) isr(isr ...int32) {
	r.t.Helper()
	c := metadata.NewPartitionChange(idOf("t"), 0)
	c.ISR = isr
	r.apply(c)
}

// follows tells p that broker id has fetched from offset on.
func (r *replicated) follows(p *Partition, id int32, offset int64) error {
	return p.Followed(FollowerFetch{
		ReplicaID: id, BrokerEpoch: r.epochOf(id), Offset: offset, LeaderEpoch: p.LeaderEpoch(), LeaderEnd: p.Log().EndOffset(),
	})
}

func (r *replicated) writes(p *Partition, n int) {
	r.t.Helper()
	for range n {
		produce(r.t, p, AckLeader)
	}
}

// proposals are what the controller would be asked for.
func (r *replicated) proposals() []*isrChange { return r.manager.alterer.take() }

func requireHW(t testing.TB, p *Partition, want int64) {
	t.Helper()
	if hw := p.Log().HighWatermark(); hw != want {
		t.Errorf("the high watermark is at %d, want %d", hw, want)
	}
}

// stamped is one batch of n records as a leader of epoch has it at offset.
func stamped(t testing.TB, offset int64, epoch int32, n int) []byte {
	t.Helper()
	records := make([]batch.Record, n)
	for i := range records {
		records[i] = batch.Record{Offset: int64(i), TimestampMs: 1_700_000_000_000, Value: []byte("replicated")}
	}
	b, err := batch.Build(batch.BuildOptions{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, records)
	if err != nil {
		t.Fatal(err)
	}
	b.SetBaseOffset(offset)
	b.SetPartitionLeaderEpoch(epoch)
	return b
}

func requireError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

// scripted is a leader whose answers the test writes. Calls wait for theirs.
type scripted struct {
	calls   chan kmsg.Request
	answers chan kmsg.Response
}

func newScripted() *scripted {
	return &scripted{calls: make(chan kmsg.Request), answers: make(chan kmsg.Response)}
}

var errCut = errors.New("the connection is cut")

func (s *scripted) Call(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	select {
	case s.calls <- req:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case a := <-s.answers:
		if a == nil {
			return nil, errCut
		}
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *scripted) Close() error { return nil }
