package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/internal/vfs"
	"grete/protocol/batch"
)

// producing is one batch of a producer, before it has an offset.
type producing struct {
	pid   int64
	epoch int16
	seq   int32
	count int
	txn   bool
	ms    int64
}

func (c producing) at(t testing.TB, offset int64) batch.Batch {
	t.Helper()
	records := make([]batch.Record, max(c.count, 1))
	for i := range records {
		records[i] = batch.Record{Offset: offset + int64(i), TimestampMs: c.ms, Value: []byte("v")}
	}
	b, err := batch.Build(batch.BuildOptions{BaseOffset: offset, ProducerID: c.pid, ProducerEpoch: c.epoch,
		BaseSequence: c.seq, Transactional: c.txn}, records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func marker(t testing.TB, offset, pid int64, epoch int16, commit bool, coordinatorEpoch int32) batch.Batch {
	t.Helper()
	return markerAt(t, offset, pid, epoch, commit, coordinatorEpoch, 77)
}

func markerAt(t testing.TB, offset, pid int64, epoch int16, commit bool, coordinatorEpoch int32, ms int64) batch.Batch {
	t.Helper()
	key, value := make([]byte, 4), make([]byte, 6)
	if commit {
		key[3] = controlCommit
	}
	binary.BigEndian.PutUint32(value[2:], uint32(coordinatorEpoch))
	b, err := batch.Build(batch.BuildOptions{BaseOffset: offset, ProducerID: pid, ProducerEpoch: epoch,
		BaseSequence: batch.NoSequence, Transactional: true, Control: true},
		[]batch.Record{{Offset: offset, TimestampMs: ms, Key: key, Value: value}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// testProducers is a state over an empty directory, and a log end that appends move.
type testProducers struct {
	*producerState
	t *testing.T
}

func newTestProducers(t *testing.T) testProducers {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/t-0", 0o755); err != nil {
		t.Fatal(err)
	}
	p := newProducerState(fs, "/t-0")
	return testProducers{&p, t}
}

// append checks and updates as a log does; it returns the base offset, or the original's for a duplicate.
func (p testProducers) append(b batch.Batch) (int64, error) {
	dup, err := p.check(b, AppendOptions{})
	if err != nil {
		return -1, err
	}
	if dup != nil {
		return dup.firstOffset(), nil
	}
	p.update(b)
	return b.BaseOffset(), nil
}

func (p testProducers) mustAppend(c producing) int64 {
	p.t.Helper()
	offset, err := p.append(c.at(p.t, p.end))
	if err != nil {
		p.t.Fatal(err)
	}
	return offset
}

func TestProducerSequences(t *testing.T) {
	const max32 = math.MaxInt32
	type step struct {
		producing
		want error // nil: appended or duplicate
		base int64 // of the answer
	}
	cases := map[string][]step{
		"unknown producer starts anywhere": {{producing{pid: 1, seq: 500}, nil, 0}, {producing{pid: 1, seq: 501}, nil, 1}},
		"gap":                              {{producing{pid: 1, seq: 0}, nil, 0}, {producing{pid: 1, seq: 2}, kerr.OutOfOrderSequenceNumber, 0}},
		"exact duplicate": {
			{producing{pid: 1, seq: 0, count: 3}, nil, 0}, {producing{pid: 1, seq: 3, count: 2}, nil, 3},
			{producing{pid: 1, seq: 0, count: 3}, nil, 0}, {producing{pid: 1, seq: 3, count: 2}, nil, 3}, {producing{pid: 1, seq: 5}, nil, 5},
		},
		"part of a duplicate": {
			{producing{pid: 1, seq: 0, count: 3}, nil, 0}, {producing{pid: 1, seq: 0, count: 2}, kerr.OutOfOrderSequenceNumber, 0},
			{producing{pid: 1, seq: 1, count: 2}, kerr.OutOfOrderSequenceNumber, 0},
		},
		"the sixth last is forgotten": {
			{producing{pid: 1, seq: 0}, nil, 0}, {producing{pid: 1, seq: 1}, nil, 1}, {producing{pid: 1, seq: 2}, nil, 2},
			{producing{pid: 1, seq: 3}, nil, 3}, {producing{pid: 1, seq: 4}, nil, 4}, {producing{pid: 1, seq: 0}, nil, 0},
			{producing{pid: 1, seq: 5}, nil, 5}, {producing{pid: 1, seq: 1}, nil, 1}, {producing{pid: 1, seq: 0}, kerr.OutOfOrderSequenceNumber, 0},
		},
		"wrap between batches": {{producing{pid: 1, seq: max32}, nil, 0}, {producing{pid: 1, seq: 0}, nil, 1}},
		"wrap inside a batch": {
			{producing{pid: 1, seq: max32 - 1, count: 4}, nil, 0}, {producing{pid: 1, seq: 2}, nil, 4},
			{producing{pid: 1, seq: max32 - 1, count: 4}, nil, 0},
		},
		"old epoch":                  {{producing{pid: 1, epoch: 3}, nil, 0}, {producing{pid: 1, epoch: 2, seq: 1}, kerr.InvalidProducerEpoch, 0}},
		"new epoch starts at 0":      {{producing{pid: 1, seq: 7}, nil, 0}, {producing{pid: 1, epoch: 1, seq: 0}, nil, 1}, {producing{pid: 1, epoch: 1, seq: 1}, nil, 2}},
		"new epoch, other start":     {{producing{pid: 1, seq: 7}, nil, 0}, {producing{pid: 1, epoch: 1, seq: 8}, kerr.OutOfOrderSequenceNumber, 0}},
		"new epoch forgets batches":  {{producing{pid: 1, seq: 0}, nil, 0}, {producing{pid: 1, epoch: 1, seq: 0}, nil, 1}, {producing{pid: 1, seq: 0}, kerr.InvalidProducerEpoch, 0}},
		"producers are independent":  {{producing{pid: 1, seq: 0}, nil, 0}, {producing{pid: 2, seq: 9}, nil, 1}, {producing{pid: 1, seq: 1}, nil, 2}},
		"no producer":                {{producing{pid: -1, epoch: -1, seq: -1}, nil, 0}, {producing{pid: -1, epoch: -1, seq: -1}, nil, 1}},
		"plain batch in transaction": {{producing{pid: 1, txn: true}, nil, 0}, {producing{pid: 1, seq: 1}, kerr.InvalidTxnState, 0}},
		"coordinator, no sequences": {
			{producing{pid: 1, seq: -1, txn: true}, nil, 0}, {producing{pid: 1, seq: -1, txn: true}, nil, 1},
			{producing{pid: 1, epoch: -1, seq: -1, txn: true}, kerr.InvalidProducerEpoch, 0},
		},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			p := newTestProducers(t)
			for i, s := range steps {
				base, err := p.append(s.producing.at(t, p.end))
				if !errors.Is(err, s.want) || (err == nil && base != s.base) {
					t.Fatalf("step %d (%+v): base %d, error %v; want %d, %v", i, s.producing, base, err, s.base, s.want)
				}
			}
		})
	}
}

func TestProducerFreeLogCostsNothing(t *testing.T) {
	p := newTestProducers(t)
	b := producing{pid: -1, epoch: -1, seq: -1}.at(t, 0)
	if n := testing.AllocsPerRun(100, func() { _, _ = p.append(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if p.producers != nil {
		t.Error("a map for no producer")
	}
}

func TestTransactions(t *testing.T) {
	p := newTestProducers(t)
	p.mustAppend(producing{pid: 1, txn: true, count: 2}) // 0, 1
	p.mustAppend(producing{pid: 2, txn: true})           // 2
	p.mustAppend(producing{pid: 1, seq: 2, txn: true})   // 3
	if got := p.firstUnstable(); got != 0 {
		t.Fatalf("first unstable %d, want that of producer 1", got)
	}
	abort := marker(t, 4, 1, 0, false, 5)
	if _, err := p.check(abort, AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	if txn, ok := p.update(abort); !ok || txn != (AbortedTxn{ProducerID: 1, FirstOffset: 0, LastOffset: 4, LastStableOffset: 2}) {
		t.Fatalf("aborted %+v, %v", txn, ok)
	}
	if got := p.firstUnstable(); got != 0 {
		t.Fatalf("first unstable %d: the marker is above the high watermark", got)
	}
	p.onHighWatermark(4)
	if got := p.firstUnstable(); got != 0 {
		t.Fatalf("first unstable %d: the marker is at the high watermark", got)
	}
	p.onHighWatermark(5)
	if got := p.firstUnstable(); got != 2 {
		t.Fatalf("first unstable %d, want that of producer 2", got)
	}
	if txn, ok := p.update(marker(t, 5, 2, 0, true, 5)); ok {
		t.Fatalf("a commit went to the index: %+v", txn)
	}
	p.onHighWatermark(6)
	if got := p.firstUnstable(); got != -1 {
		t.Fatalf("first unstable %d, want none", got)
	}
	if txn, ok := p.update(marker(t, 6, 1, 0, false, 5)); ok {
		t.Fatalf("a marker without a transaction went to the index: %+v", txn)
	}
	if base, err := p.append(producing{pid: 1, seq: 3, txn: true}.at(t, 7)); err != nil || base != 7 {
		t.Fatalf("sequences go on after a marker of the same epoch: %d, %v", base, err)
	}
}

func TestMarkerChecks(t *testing.T) {
	p := newTestProducers(t)
	p.mustAppend(producing{pid: 1, epoch: 4, txn: true})
	p.update(marker(t, 1, 1, 5, false, 10)) // the fencing marker carries epoch+1
	for name, c := range map[string]struct {
		b    batch.Batch
		want error
	}{
		"old producer epoch":     {marker(t, 2, 1, 4, true, 10), kerr.InvalidProducerEpoch},
		"old coordinator":        {marker(t, 2, 1, 5, true, 9), kerr.TransactionCoordinatorFenced},
		"same coordinator":       {marker(t, 2, 1, 5, true, 10), nil},
		"unknown producer":       {marker(t, 2, 9, 0, true, 0), nil},
		"fenced producer's data": {producing{pid: 1, epoch: 4, seq: 1, txn: true}.at(t, 2), kerr.InvalidProducerEpoch},
		"new epoch's data":       {producing{pid: 1, epoch: 5, seq: 0, txn: true}.at(t, 2), nil},
		"new epoch, wrong start": {producing{pid: 1, epoch: 5, seq: 1, txn: true}.at(t, 2), kerr.OutOfOrderSequenceNumber},
	} {
		if _, err := p.check(c.b, AppendOptions{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	other, err := batch.Build(batch.BuildOptions{ProducerID: 1, BaseSequence: -1, Control: true}, []batch.Record{{Key: []byte{0, 0, 0, 2}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.check(other, AppendOptions{}); !errors.Is(err, errNoEndMarker) {
		t.Errorf("a control batch that ends nothing: %v", err)
	}
}

func TestProducerExpiry(t *testing.T) {
	p := newTestProducers(t)
	p.mustAppend(producing{pid: 1, ms: 1000})
	p.mustAppend(producing{pid: 2, ms: 1500})
	p.mustAppend(producing{pid: 3, ms: 1000, txn: true})
	p.expire(2000, 1000)
	if p.producers[1] != nil || p.producers[2] == nil || p.producers[3] == nil {
		t.Fatalf("left %v; want 2, and 3 for its open transaction", p.producers)
	}
	if base := p.mustAppend(producing{pid: 1, seq: 40}); base != 3 {
		t.Fatalf("an expired producer starts anywhere: %d", base)
	}
}

func TestProducersAreBounded(t *testing.T) {
	p := newTestProducers(t)
	for i := range int64(maxProducers) {
		p.entry(i).lastTimestampMs = i
	}
	p.entry(3).txnFirstOffset = 3
	p.mustAppend(producing{pid: maxProducers + 1, ms: maxProducers})
	if len(p.producers) != maxProducers-maxProducers/8+1 {
		t.Fatalf("%d producers", len(p.producers))
	}
	for id, want := range map[int64]bool{0: false, 3: true, maxProducers / 8: false, maxProducers - 1: true, maxProducers + 1: true} {
		if got := p.producers[id] != nil; got != want {
			t.Errorf("producer %d remembered: %v, want %v", id, got, want)
		}
	}
}

func BenchmarkProducerState(b *testing.B) {
	for _, producers := range []int{1, 10_000} {
		b.Run(fmt.Sprint(producers), func(b *testing.B) {
			p := newProducerState(vfs.NewMem(), "/")
			batches := make([]batch.Batch, producers)
			for i := range batches {
				batches[i] = producing{pid: int64(i), seq: math.MaxInt32}.at(b, 0)
				p.update(batches[i])
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c := batches[i%producers]
				if _, err := p.check(c, AppendOptions{}); err != nil {
					b.Fatal(err)
				}
				p.update(c)
			}
		})
	}
}
