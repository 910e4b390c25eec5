package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/vfs"
)

// txnWriter runs transactions of one stock producer, and keeps what it was told of each.
type txnWriter struct {
	cl *kgo.Client
	id string

	mu       sync.Mutex
	outcomes map[string]string // transaction → "commit" or "abort", once acknowledged
}

const recordsPerTxn = 6 // over the topic's three partitions

func newTxnWriter(t testing.TB, n *Node, id string) *txnWriter {
	return &txnWriter{id: id, outcomes: map[string]string{}, cl: client(t, n, kgo.TransactionalID(id), kgo.DefaultProduceTopic("t"),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))}
}

func (w *txnWriter) run(ctx context.Context) error {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d", w.id, i)
		if err := w.one(ctx, name, i%3 != 2); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (w *txnWriter) one(ctx context.Context, name string, commit bool) error {
	if err := w.cl.BeginTransaction(); err != nil {
		return err
	}
	var records []*kgo.Record
	for j := range recordsPerTxn {
		records = append(records, kgo.StringRecord(fmt.Sprintf("%s/%d", name, j)))
	}
	if err := w.cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	if err := w.cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes[name] = map[bool]string{true: "commit", false: "abort"}[commit]
	return nil
}

func (w *txnWriter) acknowledged() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.outcomes)
}

// stableRecords reads all that is committed: records by transaction. It first waits until nothing is open any more.
func stableRecords(t testing.TB, n *Node) map[string]int {
	t.Helper()
	cl := client(t, n)
	for range 500 {
		if _, open := stableEnds(t, cl); !open {
			return committedRecords(t, n)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("a transaction stays open")
	return nil
}

// committedRecords reads what is committed now.
func committedRecords(t testing.TB, n *Node) map[string]int {
	t.Helper()
	cl := client(t, n, kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ends, _ := stableEnds(t, cl)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	got := map[string]int{}
	reached := map[int32]int64{}
	for {
		done := true
		for p, end := range ends {
			done = done && reached[p] >= end
		}
		if done {
			return got
		}
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read up to %v of %v", reached, ends)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			reached[r.Partition] = r.Offset + 1
			if name, _, data := strings.Cut(string(r.Value), "/"); data && !r.Attrs.IsControl() {
				got[name]++
			}
		})
	}
}

// stableEnds are the partitions' last stable offsets, and whether a transaction is open on one.
func stableEnds(t testing.TB, cl *kgo.Client) (ends map[int32]int64, open bool) {
	t.Helper()
	ends = map[int32]int64{}
	for p := range int32(3) {
		var of [2]int64
		for isolation := range int8(2) {
			req := kmsg.NewPtrListOffsetsRequest()
			req.IsolationLevel = isolation
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = "t"
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = p, -1
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			resp, err := req.RequestWith(context.Background(), cl)
			if err != nil {
				t.Fatal(err)
			}
			of[isolation] = resp.Topics[0].Partitions[0].Offset
		}
		ends[p] = of[1]
		open = open || of[0] != of[1]
	}
	return ends, open
}

// A broker is killed while stock producers commit and abort, at moments of its own choice. What was acknowledged before
// is so after; whatever was on its way is wholly there or not at all; and the producers' successors go on.
func TestTransactionsAcrossAKill(t *testing.T) {
	kills := 4
	fs := vfs.NewMem()
	n := start(t, options(t, fs))
	createTopic(t, client(t, n), "t", 3)
	ctx, cancel := context.WithCancel(context.Background())
	writers := []*txnWriter{newTxnWriter(t, n, "a"), newTxnWriter(t, n, "b")}
	var running sync.WaitGroup
	for _, w := range writers {
		running.Go(func() {
			if err := w.run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	type kill struct {
		fs    *vfs.Mem
		known map[string]string
	}
	var killed []kill
	rng := rand.New(rand.NewPCG(1, 2))
	for _, w := range writers {
		for deadline := time.Now().Add(10 * time.Second); len(w.acknowledged()) < 5 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
	}
	for range kills {
		time.Sleep(time.Duration(rng.IntN(50_000)) * time.Microsecond)
		known := map[string]string{}
		for _, w := range writers {
			maps.Copy(known, w.acknowledged())
		}
		killed = append(killed, kill{fs.CrashClone(rng, 100), known})
	}
	cancel()
	running.Wait()
	for i, k := range killed {
		after := start(t, options(t, k.fs))
		for _, w := range writers {
			next := newTxnWriter(t, after, w.id)
			if err := next.one(context.Background(), fmt.Sprintf("after-%s", w.id), true); err != nil {
				t.Fatal(err)
			}
			maps.Copy(k.known, next.acknowledged())
		}
		checkOutcomes(t, i, k.known, stableRecords(t, after))
		stopNode(t, after)
	}
}

func checkOutcomes(t *testing.T, kill int, known map[string]string, got map[string]int) {
	t.Helper()
	if len(known) < 4 {
		t.Errorf("kill %d: only %d transactions were acknowledged", kill, len(known))
	}
	for name, outcome := range known {
		if want := map[string]int{"commit": recordsPerTxn}[outcome]; got[name] != want {
			t.Errorf("kill %d: %s was acknowledged as %s, %d of its records are there", kill, name, outcome, got[name])
		}
	}
	for name, count := range got {
		if count != recordsPerTxn {
			t.Errorf("kill %d: %s is torn: %d records", kill, name, count)
		}
	}
}

// The outcome is decided, but its marker cannot be written: the transaction stays invisible, and is completed when the
// fault is over, by this broker or by the one that starts after a kill.
func TestMarkersAreTriedAgain(t *testing.T) {
	mem := vfs.NewMem()
	fs := vfs.NewFaulty(mem)
	n := start(t, options(t, fs))
	cl := client(t, n)
	createTopic(t, cl, "t", 3)
	w := newTxnWriter(t, n, "a")
	if err := w.cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := w.cl.ProduceSync(context.Background(), kgo.StringRecord("x/0"), kgo.StringRecord("x/1")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	fs.Inject(vfs.FailMatching(func(o vfs.Op) bool {
		return o.Kind == vfs.OpWrite && strings.HasPrefix(o.Name, "/data/t-") && strings.HasSuffix(o.Name, ".log")
	}, syscall.ENOSPC))
	if err := w.cl.EndTransaction(context.Background(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	awaitState(t, cl, "a", "PrepareCommit")
	killed := mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 100)
	fs.Inject(nil)
	awaitState(t, cl, "a", "CompleteCommit")
	if got := stableRecords(t, n); got["x"] != 2 {
		t.Errorf("%v", got)
	}
	after := start(t, options(t, killed))
	awaitState(t, client(t, after), "a", "CompleteCommit")
	if got := stableRecords(t, after); got["x"] != 2 {
		t.Errorf("after the kill: %v", got)
	}
}

func awaitState(t testing.TB, cl *kgo.Client, id, want string) {
	t.Helper()
	var got string
	for range 500 {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{id}
		resp, err := req.RequestWith(context.Background(), cl)
		if err != nil {
			t.Fatal(err)
		}
		if got = resp.TransactionStates[0].State; got == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("transaction is %s, want %s", got, want)
}

// A transaction times out; its producer is fenced, and its records are never seen.
func TestTransactionTimesOut(t *testing.T) {
	n := start(t, options(t, vfs.NewMem(), "transaction.abort.timed.out.transaction.cleanup.interval.ms=50"))
	createTopic(t, client(t, n), "t", 3)
	cl := client(t, n, kgo.TransactionalID("slow"), kgo.TransactionTimeout(100*time.Millisecond), kgo.DefaultProduceTopic("t"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(context.Background(), kgo.StringRecord("late/0")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	awaitState(t, client(t, n), "slow", "CompleteAbort")
	if err := cl.EndTransaction(context.Background(), kgo.TryCommit); !errors.Is(err, kerr.InvalidTxnState) && !errors.Is(err, kerr.ProducerFenced) {
		t.Errorf("the commit that came too late: %v", err)
	}
	w := newTxnWriter(t, n, "quick")
	if err := w.one(context.Background(), "quick", true); err != nil {
		t.Fatal(err)
	}
	if got := stableRecords(t, n); got["late"] != 0 || got["quick"] != recordsPerTxn {
		t.Errorf("%v", got)
	}
}

// Many producers at once, each with its own transactions on the same partitions: all of them go on, and each sees its
// own outcome.
func TestManyTransactionalProducers(t *testing.T) {
	n := start(t, options(t, vfs.NewMem()))
	createTopic(t, client(t, n), "t", 3)
	const producers, each = 12, 15
	var running sync.WaitGroup
	known := map[string]string{}
	var mu sync.Mutex
	for p := range producers {
		running.Go(func() {
			w := newTxnWriter(t, n, fmt.Sprint("p", p))
			for i := range each {
				if err := w.one(context.Background(), fmt.Sprintf("%s-%d", w.id, i), i%4 != 3); err != nil {
					t.Errorf("%s: %v", w.id, err)
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(known, w.acknowledged())
		})
	}
	running.Wait()
	if len(known) != producers*each {
		t.Errorf("%d transactions ended", len(known))
	}
	checkOutcomes(t, 0, known, stableRecords(t, n))
}
