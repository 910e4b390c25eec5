package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator/logtest"
	"grete/protocol/batch"
)

func TestAppliedAfterAppendAndReloaded(t *testing.T) {
	b := newBench(t)
	for i := range 10 {
		if err := b.put("k", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if v := b.get("k"); v != "9" {
		t.Fatalf("k = %q", v)
	}
	b.lead(2)
	if v := b.get("k"); v != "9" {
		t.Fatalf("after reload k = %q", v)
	}
}

func TestFailedAppendChangesNothing(t *testing.T) {
	b := newBench(t)
	if err := b.put("k", "1"); err != nil {
		t.Fatal(err)
	}
	b.log.FailAppends(kerr.KafkaStorageError)
	told := false
	err := b.do("k", func(_ *ledger, tx *Tx) {
		tx.Append([]byte("k"), []byte("2"))
		tx.AppendApplied([]byte("x"), nil, func(*Tx) { t.Error("applied") })
		tx.OnFailed(func(_ *Tx, err error) { told = errors.Is(err, kerr.KafkaStorageError) })
	})
	if Code(err) != kerr.NotCoordinator.Code || !told {
		t.Fatalf("err %v, told %v", err, told)
	}
	b.log.FailAppends(nil)
	if v := b.get("k"); v != "1" {
		t.Fatalf("k = %q", v)
	}
}

func TestAnswerWaitsForCommit(t *testing.T) {
	b := newBench(t)
	b.log.Hold()
	write := b.submit("k", func(_ *ledger, tx *Tx) { tx.Append([]byte("k"), []byte("1")) })
	read := b.submit("k", func(l *ledger, _ *Tx) {
		if l.values["k"] != "1" {
			t.Error("later operation does not see the write")
		}
	})
	select {
	case <-write:
		t.Fatal("write answered before commit")
	case <-read:
		t.Fatal("read of uncommitted state answered")
	default:
	}
	b.log.Commit()
	if err := errors.Join(<-write, <-read); err != nil {
		t.Fatal(err)
	}
}

func TestCommitTimeout(t *testing.T) {
	b := newBench(t)
	b.log.Hold()
	first := b.submit("k", func(_ *ledger, tx *Tx) { tx.Append([]byte("k"), []byte("1")) })
	b.clock.Advance(3 * time.Second)
	second := b.submit("k", func(_ *ledger, tx *Tx) { tx.Append([]byte("k"), []byte("2")) })
	b.clock.Advance(2 * time.Second)
	if err := <-first; !errors.Is(err, ErrCommitTimeout) {
		t.Fatalf("first: %v", err)
	}
	select {
	case err := <-second:
		t.Fatalf("second answered too early: %v", err)
	default:
	}
	b.clock.Advance(3 * time.Second)
	if err := <-second; Code(err) != kerr.CoordinatorNotAvailable.Code {
		t.Fatalf("second: %v", err)
	}
	b.log.Commit()
	if n := b.rt.shards[0].uncommitted.Load(); n != 0 {
		t.Fatalf("%d answers still counted", n)
	}
}

func TestResignationOfAnOlderEpochIsIgnored(t *testing.T) {
	b := newBench(t)
	b.rt.Resign(0, 0)
	if err := b.put("k", "1"); err != nil {
		t.Fatal(err)
	}
}

func TestResignAnswersEverything(t *testing.T) {
	b := newBench(t)
	b.log.Hold()
	var l *ledger
	write := b.submit("k", func(m *ledger, tx *Tx) { l = m; tx.Append([]byte("k"), []byte("1")) })
	b.rt.Resign(0, 1)
	if err := <-write; !errors.Is(err, ErrNotCoordinator) {
		t.Fatalf("parked write: %v", err)
	}
	b.rt.Close()
	if !l.unloaded {
		t.Fatal("state was not told")
	}
	if err := b.do("k", func(*ledger, *Tx) {}); !errors.Is(err, ErrClosed) {
		t.Fatalf("after Close: %v", err)
	}
}

func TestCommittedCallbackWithError(t *testing.T) {
	b := newBench(t)
	b.log.Hold()
	write := b.submit("k", func(_ *ledger, tx *Tx) { tx.Append([]byte("k"), []byte("1")) })
	b.log.Drop(kerr.NotLeaderForPartition)
	if err := <-write; Code(err) != kerr.NotCoordinator.Code {
		t.Fatalf("%v", err)
	}
}

// TestGroupCommit: what queues up while the shard is at work goes into one append, but an operation that could see
// another's effect waits for it.
func TestGroupCommit(t *testing.T) {
	b := newBench(t)
	var answers []<-chan error
	if err := b.do("", func(*ledger, *Tx) {
		for i := range 100 {
			key := fmt.Sprint("k", i)
			answers = append(answers, b.submit(key, func(_ *ledger, tx *Tx) { tx.Append([]byte(key), []byte("1")) }))
		}
	}); err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if err := <-a; err != nil {
			t.Fatal(err)
		}
	}
	if n := b.log.Appends(); n != 1 {
		t.Fatalf("%d appends for 100 independent operations", n)
	}
}

func TestConflicts(t *testing.T) {
	b := newBench(t)
	var answers []<-chan error
	count := func(l *ledger, tx *Tx) {
		tx.Append([]byte("n"), fmt.Append(nil, len(l.values["n"]), "x", l.values["n"]))
	}
	if err := b.do("", func(*ledger, *Tx) {
		for range 5 {
			answers = append(answers, b.submit("n", count))
		}
	}); err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		<-a
	}
	if n := b.log.Appends(); n != 5 {
		t.Fatalf("%d appends for 5 operations on one key", n)
	}
	if v := b.get("n"); v != "8x6x4x2x0x" {
		t.Fatalf("n = %q", v)
	}
}

func TestBlindOperationsShare(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	b.rt.Submit(0, Op[*ledger]{Refuse: func(error) {}, Run: func(*ledger, *Tx) {
		for i := range 50 {
			wg.Add(1)
			b.rt.Submit(0, Op[*ledger]{
				Key: "g", Blind: true,
				Run: func(_ *ledger, tx *Tx) {
					tx.Append([]byte(fmt.Sprint(i)), []byte("1"))
					tx.Reply(func(error) { wg.Done() })
				},
				Refuse: func(error) { wg.Done() },
			})
		}
	}})
	wg.Wait()
	if n := b.log.Appends(); n != 1 {
		t.Fatalf("%d appends", n)
	}
}

func TestMailboxBound(t *testing.T) {
	b := newBench(t)
	var answers []<-chan error
	overflow := 0
	if err := b.do("", func(*ledger, *Tx) {
		for range maxMailbox + 10 {
			answers = append(answers, b.submit("k", func(*ledger, *Tx) {}))
		}
	}); err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if err := <-a; errors.Is(err, ErrOverloaded) {
			overflow++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if overflow != 10 {
		t.Fatalf("%d refused, want 10", overflow)
	}
}

// The shard's own operations pass both bounds, and end with its leadership like all others.
func TestOwnOperationsPassTheBounds(t *testing.T) {
	b := newBench(t)
	b.log.Hold()
	ran, refused := 0, error(nil)
	own := func() {
		b.rt.Submit(0, Op[*ledger]{Key: "k", Continues: true, Run: func(*ledger, *Tx) { ran++ }, Refuse: func(err error) { refused = err }})
	}
	answers := []<-chan error{b.submit("k", func(_ *ledger, tx *Tx) {
		tx.Append([]byte("k"), nil)
		for range maxUncommitted {
			tx.Reply(func(error) {})
		}
	})}
	if err := b.submit("k", func(*ledger, *Tx) {}); !errors.Is(<-err, ErrOverloaded) {
		t.Fatal("the answers are not bounded")
	}
	own()
	b.log.Commit()
	if err := b.do("", func(*ledger, *Tx) {
		for range maxMailbox + 1 {
			answers = append(answers, b.submit("k", func(*ledger, *Tx) {}))
		}
		own()
	}); err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		<-a
	}
	if err := b.do("", func(*ledger, *Tx) {}); err != nil {
		t.Fatal(err)
	}
	if ran != 2 || refused != nil {
		t.Fatalf("%d ran, refused: %v", ran, refused)
	}
	b.rt.Resign(0, 1)
	if own(); !errors.Is(refused, ErrNotCoordinator) {
		t.Fatalf("after the leadership: %v", refused)
	}
}

func TestUncommittedBound(t *testing.T) {
	b := newBench(t)
	b.log.Hold()
	answers := make([]<-chan error, 0, maxUncommitted)
	for range maxUncommitted {
		answers = append(answers, b.submit("k", func(_ *ledger, tx *Tx) { tx.Append([]byte("k"), nil) }))
	}
	if err := <-b.submit("k", func(*ledger, *Tx) {}); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("beyond the bound: %v", err)
	}
	b.log.Commit()
	for _, a := range answers {
		if err := <-a; err != nil {
			t.Fatal(err)
		}
	}
	if err := b.put("k", "v"); err != nil {
		t.Fatalf("after the commit: %v", err)
	}
}

func TestBatchBound(t *testing.T) {
	b := newBench(t)
	big := bytes.Repeat([]byte("x"), maxBatchBytes/2)
	var answers []<-chan error
	_ = b.do("", func(*ledger, *Tx) {
		for i := range 4 {
			answers = append(answers, b.submit(fmt.Sprint(i), func(_ *ledger, tx *Tx) { tx.Append([]byte(fmt.Sprint(i)), big) }))
		}
	})
	for _, a := range answers {
		<-a
	}
	if n := b.log.Appends(); n < 3 {
		t.Fatalf("%d appends for four times half a batch", n)
	}
}

func TestTimers(t *testing.T) {
	b := newBench(t)
	fired := func() (n int) {
		_ = b.do("", func(l *ledger, _ *Tx) { n = l.fired })
		return n
	}
	set := func(delayMs int64) { _ = b.do("", func(l *ledger, tx *Tx) { tx.Schedule(&l.timer, delayMs) }) }
	set(1000)
	b.clock.Advance(900 * time.Millisecond)
	set(1000) // as a heartbeat does
	b.clock.Advance(900 * time.Millisecond)
	if n := fired(); n != 0 {
		t.Fatalf("fired %d times before its time", n)
	}
	b.clock.Advance(100 * time.Millisecond)
	if n := fired(); n != 1 {
		t.Fatalf("fired %d times", n)
	}
	set(1000)
	set(10)
	b.clock.Advance(10 * time.Millisecond)
	if n := fired(); n != 2 {
		t.Fatalf("moved earlier: fired %d times", n)
	}
	set(10)
	_ = b.do("", func(l *ledger, tx *Tx) { tx.Cancel(&l.timer) })
	b.clock.Advance(time.Hour)
	if n := fired(); n != 2 {
		t.Fatalf("cancelled: fired %d times", n)
	}
}

func TestThenRunsWithItsOwnAppend(t *testing.T) {
	b := newBench(t)
	err := b.do("", func(_ *ledger, tx *Tx) {
		tx.Append([]byte("a"), []byte("1"))
		tx.Then("a", func(tx *Tx) { tx.Append([]byte("a"), []byte("2")) })
	})
	if err != nil || b.get("a") != "2" {
		t.Fatalf("%v, a = %q", err, b.get("a"))
	}
}

func TestUnreadableLogIsNotServed(t *testing.T) {
	b := newBench(t)
	other := newBench(t)
	if err := other.do("", func(_ *ledger, tx *Tx) { tx.AppendApplied([]byte("poison"), nil, func(*Tx) {}) }); err != nil {
		t.Fatal(err)
	}
	b.rt.BecomeLeader(1, 1, other.log)
	for range 1000 {
		got := make(chan error, 1)
		b.rt.Submit(1, Op[*ledger]{Run: func(*ledger, *Tx) { got <- nil }, Refuse: func(err error) { got <- err }})
		switch err := <-got; {
		case errors.Is(err, ErrLoading):
			time.Sleep(time.Millisecond)
		case errors.Is(err, ErrNotCoordinator):
			return
		default:
			t.Fatalf("served: %v", err)
		}
	}
	t.Fatal("loads for ever")
}

func TestTransactionsAreReplayed(t *testing.T) {
	b := newBench(t)
	for i, marker := range []batch.Record{{Key: []byte{0, 0, 0, 0}}, {Key: []byte{0, 0, 0, 1}}, {Key: []byte{0, 0, 0, 9}}} {
		built, err := batch.Build(batch.BuildOptions{ProducerID: int64(i), Transactional: true, Control: true, BaseSequence: batch.NoSequence}, []batch.Record{marker})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.log.Append(1, built); err != nil {
			t.Fatal(err)
		}
	}
	b.lead(2)
	if b.get("txn0") != "false" || b.get("txn1") != "true" || b.get("txn2") != "" {
		t.Errorf("%q %q %q", b.get("txn0"), b.get("txn1"), b.get("txn2"))
	}
}

// TestLoadsAreBounded: no more than maxLoads logs are read at a time.
func TestLoadsAreBounded(t *testing.T) {
	b := newBench(t)
	_ = b.put("k", "v")
	var reading, most atomic.Int32
	release := make(chan struct{})
	for i := range int32(6) {
		b.rt.BecomeLeader(10+i, 1, &countingLog{b.log, &reading, &most, release})
	}
	for deadline := time.Now().Add(5 * time.Second); most.Load() < maxLoads && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // for those that should wait
	close(release)
	for i := range int32(6) {
		b.await(10 + i)
	}
	if n := most.Load(); n != maxLoads {
		t.Errorf("%d logs were read at a time", n)
	}
}

type countingLog struct {
	*logtest.Log
	reading, most *atomic.Int32
	release       chan struct{}
}

func (l *countingLog) Read(offset int64, maxBytes int) ([]byte, error) {
	n := l.reading.Add(1)
	defer l.reading.Add(-1)
	for m := l.most.Load(); n > m && !l.most.CompareAndSwap(m, n); m = l.most.Load() {
	}
	<-l.release
	return l.Log.Read(offset, maxBytes)
}

func TestUnknownPartition(t *testing.T) {
	b := newBench(t)
	var got error
	b.rt.Submit(7, Op[*ledger]{Refuse: func(err error) { got = err }})
	if Code(got) != kerr.NotCoordinator.Code {
		t.Fatalf("%v", got)
	}
}

// TestLoadingRefuses holds the log's reads back.
func TestLoadingRefuses(t *testing.T) {
	b := newBench(t)
	slow := &slowLog{release: make(chan struct{})}
	_ = b.put("k", "v")
	slow.Log = b.log
	b.rt.BecomeLeader(2, 1, slow)
	var got error
	b.rt.Submit(2, Op[*ledger]{Refuse: func(err error) { got = err }})
	if Code(got) != kerr.CoordinatorLoadInProgress.Code {
		t.Fatalf("%v", got)
	}
	b.rt.Resign(2, 1)
	close(slow.release)
}

type slowLog struct {
	*logtest.Log
	release chan struct{}
}

func (l *slowLog) Read(offset int64, maxBytes int) ([]byte, error) {
	<-l.release
	return l.Log.Read(offset, maxBytes)
}

func TestConcurrentSubmitters(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			key := fmt.Sprint(g)
			for i := range 200 {
				if err := <-b.submit(key, func(l *ledger, tx *Tx) {
					if want := fmt.Sprint(i - 1); i > 0 && l.values[key] != want {
						t.Errorf("%s = %q, want %q", key, l.values[key], want)
					}
					tx.Append([]byte(key), fmt.Append(nil, i))
				}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
}
