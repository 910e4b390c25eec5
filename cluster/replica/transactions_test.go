package replica

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

func transactional(t testing.TB, pid int64, epoch int16, seq int32) []byte {
	t.Helper()
	b, err := batch.Build(batch.BuildOptions{ProducerID: pid, ProducerEpoch: epoch, BaseSequence: seq, Transactional: true, LeaderEpoch: -1},
		[]batch.Record{{TimestampMs: 1, Value: []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// changes counts what a watcher is told.
type changes int

func (c *changes) PartitionChanged(int) { *c++ }

// A transaction holds the last stable offset back until its marker is there; whoever waits is told, and finds the
// aborted one in the list.
func TestTransactionOnAPartition(t *testing.T) {
	b := newBench(t, vfs.NewMem())
	b.create("t", 1)
	p := b.partition("t", 0)
	produce(t, p, AckAll)
	guard, open, err := p.StartVerification(7, 0, 0, true)
	if err != nil || open {
		t.Fatalf("open %t, %v", open, err)
	}
	for seq := range int32(2) {
		if _, err := p.Produce(ProduceRequest{Records: transactional(t, 7, 0, seq), ProduceVersion: 12, Acks: AckAll, Guard: guard}); err != nil {
			t.Fatal(err)
		}
	}
	if end := p.VisibleEnd(ReadCommitted); end != 1 {
		t.Errorf("last stable offset %d with a transaction open", end)
	}
	if ps, err := p.ActiveProducers(); err != nil || len(ps) != 1 || ps[0].TxnFirstOffset != 1 {
		t.Errorf("producers %+v, %v", ps, err)
	}
	var told changes
	var w Watch
	p.Watch(&w, &told, 0)
	defer w.Unwatch()
	var written []error
	p.WriteMarker(coordinator.Marker{Producer: coordinator.Producer{ID: 7, Epoch: 1}, TransactionVersion: 2}, func(err error) { written = append(written, err) })
	if len(written) != 1 || written[0] != nil || told == 0 {
		t.Fatalf("marker: %v, watchers told %d times", written, told)
	}
	if end := p.VisibleEnd(ReadCommitted); end != 4 {
		t.Errorf("last stable offset %d after the end", end)
	}
	res, err := p.Read(ReadRequest{Offset: 0, CurrentLeaderEpoch: NoEpoch, LastFetchedEpoch: NoEpoch, ReplicaID: -1, MaxBytes: 1 << 20, Isolation: ReadCommitted})
	if err != nil || len(res.Span.AbortedTxns) != 1 || res.Span.AbortedTxns[0].FirstOffset != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	res.Span.Release()
}

func TestTransactionsAreRefused(t *testing.T) {
	b := newBench(t, vfs.NewMem())
	b.create("t", 1)
	p := b.partition("t", 0)
	guard, _, err := p.StartVerification(7, 3, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Produce(ProduceRequest{Records: transactional(t, 8, 3, 0), ProduceVersion: 9, Acks: AckAll, Guard: guard}); !errors.Is(err, kerr.InvalidTxnState) {
		t.Errorf("another producer's guard: %v", err)
	}
	write := func(epoch int16) (got error) {
		m := coordinator.Marker{Producer: coordinator.Producer{ID: 7, Epoch: epoch}, CoordinatorEpoch: 1}
		p.WriteMarker(m, func(err error) { got = err })
		return got
	}
	if err := write(3); err != nil {
		t.Errorf("marker without a transaction: %v", err)
	}
	if err := write(2); !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Errorf("old epoch: %v", err)
	}
	b.lead("t", 2)
	if _, _, err := p.StartVerification(7, 3, 0, false); !errors.Is(err, ErrNotLeader) {
		t.Errorf("verification: %v", err)
	}
	if err := write(4); !errors.Is(err, ErrNotLeader) {
		t.Errorf("marker: %v", err)
	}
	if _, err := p.ActiveProducers(); !errors.Is(err, ErrNotLeader) {
		t.Errorf("producers: %v", err)
	}
}
