package logstore

import (
	"errors"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/internal/vfs"
)

// verified is a log, and what its first write of a transaction needs.
type verified struct {
	*Log
	t *testing.T
}

func newVerified(t *testing.T) verified {
	s := openTest(t, testOptions(vfs.NewMem()))
	t.Cleanup(func() { must(t, s.Close()) })
	return verified{createTest(t, s, testConfig()), t}
}

func (v verified) start(pid int64, epoch int16, seq int32, bumps bool) uint64 {
	v.t.Helper()
	guard, open, err := v.StartVerification(pid, epoch, seq, bumps)
	if err != nil || open || guard <= openGuard {
		v.t.Fatalf("guard %d, open %t, %v", guard, open, err)
	}
	return guard
}

func (v verified) write(p producing, guard uint64, want error) {
	v.t.Helper()
	p.txn = true
	if _, err := v.AppendWith(p.at(v.t, 0), 0, AppendOptions{Guard: guard}); !errors.Is(err, want) || (err == nil) != (want == nil) {
		v.t.Fatalf("%+v: %v, want %v", p, err, want)
	}
}

func (v verified) end(pid int64, epoch int16, coordinatorEpoch int32, version int8, want error) {
	v.t.Helper()
	o := AppendOptions{Coordinator: true, TransactionVersion: version}
	if _, err := v.AppendWith(marker(v.t, 0, pid, epoch, false, coordinatorEpoch), 0, o); !errors.Is(err, want) || (err == nil) != (want == nil) {
		v.t.Fatalf("marker of epoch %d: %v, want %v", epoch, err, want)
	}
}

// A transaction begins with the guard it was verified under, and only while nothing has ended it in between.
func TestTransactionsBeginVerified(t *testing.T) {
	v := newVerified(t)
	guard := v.start(1, 0, 0, false)
	v.write(producing{pid: 1}, guard+1, kerr.InvalidTxnState)
	v.write(producing{pid: 2}, guard, kerr.InvalidTxnState)
	if again := v.start(1, 0, 5, false); again != guard {
		t.Errorf("guards %d and %d of one verification", guard, again)
	}
	v.write(producing{pid: 1}, guard, nil)
	if g, open, err := v.StartVerification(1, 0, 1, false); !open || g == 0 || err != nil {
		t.Fatalf("an open transaction: %d, %t, %v", g, open, err)
	}
	v.write(producing{pid: 1, seq: 1}, openGuard, nil)
	v.end(1, 0, 0, 0, nil)
	v.write(producing{pid: 1, seq: 2}, openGuard, kerr.InvalidTxnState) // delayed: it was open when it was sent
	late := v.start(1, 0, 2, false)
	v.end(1, 0, 0, 0, nil)
	v.write(producing{pid: 1, seq: 2}, late, kerr.InvalidTxnState)
	v.write(producing{pid: 3}, 0, nil) // no guard is asked for
}

func TestVerificationRefusesOldEpochs(t *testing.T) {
	v := newVerified(t)
	guard := v.start(1, 4, 0, true)
	v.write(producing{pid: 1, epoch: 4}, guard, nil)
	if _, _, err := v.StartVerification(1, 3, 0, true); !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Errorf("old epoch: %v", err)
	}
	v.write(producing{pid: 1, epoch: 3}, guard, kerr.InvalidProducerEpoch)
}

// Of batches that were sent together the lowest sequence begins; a client of transaction.version 2 begins with 0.
func TestFirstSequenceOfATransaction(t *testing.T) {
	v := newVerified(t)
	guard := v.start(1, 0, 5, false)
	v.start(1, 0, 3, false)
	v.write(producing{pid: 1, seq: 5}, guard, kerr.OutOfOrderSequenceNumber)
	v.write(producing{pid: 1, seq: 3}, guard, nil)
	bumping := v.start(2, 0, 5, true)
	v.write(producing{pid: 2, seq: 5}, bumping, kerr.OutOfOrderSequenceNumber)
	v.write(producing{pid: 2}, bumping, nil)
	v.end(2, 1, 0, 2, nil)
	next := v.start(2, 1, 7, true)
	v.write(producing{pid: 2, epoch: 1, seq: 7}, next, kerr.OutOfOrderSequenceNumber)
}

// Markers for clients of transaction.version 2 are above the transaction's epoch; the same marker may come again.
func TestMarkersBumpTheEpoch(t *testing.T) {
	v := newVerified(t)
	v.write(producing{pid: 1, epoch: 6}, 0, nil)
	v.end(1, 6, 0, 2, kerr.InvalidProducerEpoch)
	v.end(1, 5, 0, 2, kerr.InvalidProducerEpoch)
	v.end(1, 7, 0, 2, nil)
	v.end(1, 7, 0, 2, nil)
	v.end(1, 6, 0, 0, kerr.InvalidProducerEpoch)
	v.write(producing{pid: 2, epoch: math.MaxInt16}, 0, nil)
	v.end(2, math.MaxInt16, 0, 2, nil)
}

func TestVerificationsAreBounded(t *testing.T) {
	v := newVerified(t)
	for pid := range int64(maxVerifications) {
		v.start(pid, 0, 0, true)
	}
	newest := v.start(maxVerifications, 0, 0, true)
	if n := len(v.producers.verifying.byProducer); n != maxVerifications {
		t.Fatalf("%d are remembered", n)
	}
	v.write(producing{pid: 0}, openGuard+1, ErrVerificationForgotten)
	v.write(producing{pid: 1}, openGuard+2, nil)
	v.write(producing{pid: maxVerifications}, newest, nil)
	v.write(producing{pid: 0}, v.start(0, 0, 0, true), nil)
	v.expireProducers(v.nowMs() + v.config().ProducerIDExpirationMs)
	if n := len(v.producers.verifying.byProducer) + v.producers.verifying.byAge.Len(); n != 0 {
		t.Errorf("%d are left after their time", n)
	}
}

// What the coordinator denies lets nothing begin, but its lowest sequence counts when the producer asks again. What is
// verified of a newer epoch meanwhile goes on.
func TestDeniedVerification(t *testing.T) {
	v := newVerified(t)
	guard := v.start(1, 0, 0, false)
	v.DenyVerification(1, 0, guard+1)
	v.DenyVerification(2, 0, guard)
	if again := v.start(1, 0, 0, false); again != guard {
		t.Fatal("a denial of something else counted")
	}
	v.DenyVerification(1, 0, guard)
	v.write(producing{pid: 1}, guard, kerr.InvalidTxnState)
	next := v.start(1, 0, 7, false)
	if next == guard {
		t.Fatal("the guard of what was denied is given out again")
	}
	v.write(producing{pid: 1, seq: 7}, next, kerr.OutOfOrderSequenceNumber)
	v.write(producing{pid: 1}, next, nil)

	denied := v.start(2, 0, 0, true)
	newer := v.start(2, 1, 0, true)
	v.DenyVerification(2, 0, denied)
	v.write(producing{pid: 2, epoch: 1}, newer, nil)
}

// Made-up producers, whose transactions are denied, do not crowd out those that wait for an answer.
func TestDeniedVerificationsAreForgottenFirst(t *testing.T) {
	v := newVerified(t)
	waiting := v.start(1, 0, 0, true)
	for pid := range int64(2 * maxVerifications) {
		v.DenyVerification(pid+2, 0, v.start(pid+2, 0, 0, true))
	}
	if n := len(v.producers.verifying.byProducer); n != maxVerifications {
		t.Errorf("%d are kept", n)
	}
	v.write(producing{pid: 1}, waiting, nil)
}

func TestActiveProducers(t *testing.T) {
	v := newVerified(t)
	v.write(producing{pid: 9, epoch: 2, count: 3, ms: 50}, 0, nil)
	v.write(producing{pid: 4, ms: 60}, 0, nil)
	v.end(4, 1, 8, 2, nil)
	got := v.ActiveProducers()
	want := []ProducerInfo{
		{ID: 4, Epoch: 1, LastSequence: -1, LastTimestampMs: 77, CoordinatorEpoch: 8, TxnFirstOffset: -1},
		{ID: 9, Epoch: 2, LastSequence: 2, LastTimestampMs: 50, CoordinatorEpoch: -1, TxnFirstOffset: 0},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// The marker of the transaction before may come while the next one, of the epoch that it raises to, is verified: that
// one begins. A late record of the one that has ended does not.
func TestMarkerWhileTheNextIsVerified(t *testing.T) {
	v := newVerified(t)
	v.write(producing{pid: 1}, v.start(1, 0, 0, true), nil)
	next := v.start(1, 1, 0, true)
	v.end(1, 1, 0, 2, nil)
	v.write(producing{pid: 1}, next, kerr.InvalidProducerEpoch)
	v.write(producing{pid: 1, epoch: 1}, next, nil)
	v.end(1, 2, 0, 2, nil)
	// A coordinator that has taken over sends the marker again: the next transaction begins all the same.
	again := v.start(1, 2, 0, true)
	v.end(1, 2, 1, 2, nil)
	v.write(producing{pid: 1, epoch: 2}, again, nil)
	v.end(1, 3, 1, 2, nil)
	// One above the epoch that is verified ends that transaction before it has begun here.
	ended := v.start(1, 3, 0, true)
	v.end(1, 4, 1, 2, nil)
	v.write(producing{pid: 1, epoch: 3}, ended, kerr.InvalidProducerEpoch)
	// The last epoch is not raised: its marker may be the end of what is verified.
	v.write(producing{pid: 3, epoch: math.MaxInt16}, v.start(3, math.MaxInt16, 0, true), nil)
	v.end(3, math.MaxInt16, 0, 2, nil)
	last := v.start(3, math.MaxInt16, 1, true)
	v.end(3, math.MaxInt16, 0, 2, nil)
	v.write(producing{pid: 3, epoch: math.MaxInt16, seq: 1}, last, kerr.InvalidTxnState)
	// Before transaction.version 2 the epoch stays, and nobody can tell.
	v.write(producing{pid: 2}, v.start(2, 0, 0, false), nil)
	v.end(2, 0, 0, 1, nil)
	late := v.start(2, 0, 1, false)
	v.end(2, 0, 0, 1, nil)
	v.write(producing{pid: 2, seq: 1}, late, kerr.InvalidTxnState)
}
