package coordinator

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/protocol/batch"
)

func (b *bench) batches() []batch.Batch {
	b.t.Helper()
	raw, err := b.log.Read(0, 1<<20)
	if err != nil {
		b.t.Fatal(err)
	}
	var out []batch.Batch
	for len(raw) > 0 {
		var one batch.Batch
		if one, raw, err = batch.Next(raw); err != nil {
			b.t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}

// Records of a producer's transaction, and its marker, have batches of their own in Kafka's form, whatever is queued
// with them; the state hears of the marker now and when it is loaded again.
func TestTransactionsHaveTheirOwnBatches(t *testing.T) {
	b := newBench(t)
	p := Producer{ID: 7, Epoch: 3}
	err := b.do("", func(_ *ledger, tx *Tx) {
		tx.Append([]byte("a"), []byte("1"))
		tx.Then("k", func(tx *Tx) {
			tx.Append([]byte("k"), []byte("2"))
			tx.Append([]byte("k2"), []byte("2"))
			tx.InTransaction(p)
		})
		tx.Then("z", func(tx *Tx) { tx.Append([]byte("z"), []byte("3")) })
		tx.Then("", func(tx *Tx) {
			tx.EndTransaction(Marker{Producer: Producer{ID: 7, Epoch: 4}, CoordinatorEpoch: 9, Commit: true, TransactionVersion: 2})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	got := b.batches()
	if len(got) != 4 {
		t.Fatalf("%d batches", len(got))
	}
	own := got[1]
	if !own.Transactional() || own.Control() || own.ProducerID() != 7 || own.ProducerEpoch() != 3 || own.BaseSequence() != 0 || own.RecordCount() != 2 {
		t.Errorf("batch of the transaction: %v", own)
	}
	end := got[3]
	if !end.Transactional() || !end.Control() || end.ProducerEpoch() != 4 || end.BaseSequence() != batch.NoSequence || end.RecordCount() != 1 {
		t.Errorf("marker: %v", end)
	}
	for r, err := range end.Records() {
		if err != nil || !slices.Equal(r.Key, []byte{0, 0, 0, 1}) || !slices.Equal(r.Value, []byte{0, 0, 0, 0, 0, 9}) {
			t.Errorf("marker: key %v, value %v, %v", r.Key, r.Value, err)
		}
	}
	for range 2 {
		if v := b.get("txn7"); v != "true" {
			t.Errorf("the state was told %q of the end", v)
		}
		b.lead(2)
	}
}

func TestFailedMarkerEndsNothing(t *testing.T) {
	b := newBench(t)
	b.log.FailAppends(kerr.InvalidProducerEpoch)
	err := b.do("", func(_ *ledger, tx *Tx) { tx.EndTransaction(Marker{Producer: Producer{ID: 7}}) })
	if Code(err) != kerr.InvalidProducerEpoch.Code {
		t.Fatalf("answer %v", err)
	}
	b.log.FailAppends(nil)
	if v := b.get("txn7"); v != "" {
		t.Errorf("the state was told %q", v)
	}
}

// What an application adds with Then runs once all of its batch is applied.
func TestThenFromAnApplication(t *testing.T) {
	b := newBench(t)
	var order []string
	note := func(what string) func(*Tx) { return func(*Tx) { order = append(order, what) } }
	err := b.do("", func(_ *ledger, tx *Tx) {
		tx.Then("a", func(tx *Tx) {
			tx.AppendApplied([]byte("a"), nil, func(tx *Tx) {
				order = append(order, "apply a")
				tx.Then("a", note("after a"))
			})
		})
		tx.Then("b", func(tx *Tx) { tx.AppendApplied([]byte("b"), nil, note("apply b")) })
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.put("c", "3"); err != nil { // another round, so that all is over
		t.Fatal(err)
	}
	if want := []string{"apply a", "apply b", "after a"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}
