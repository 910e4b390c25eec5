package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/internal/vfs"
)

// copier reads topic in and writes topic t, in transactions that also commit its offsets, until ctx ends.
func copier(ctx context.Context, t testing.TB, n *Node) {
	s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(n.Addr("PLAINTEXT")), kgo.TransactionalID("copier"), kgo.DefaultProduceTopic("t"),
		kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.TransactionTimeout(time.Second), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(200*time.Millisecond))
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	for ctx.Err() == nil {
		fetches := s.PollRecords(ctx, 3)
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := s.Begin(); err != nil {
			t.Error(err)
			return
		}
		fetches.EachRecord(func(r *kgo.Record) {
			s.Produce(ctx, kgo.StringRecord(string(r.Value)+"/copy"), nil)
		})
		if _, err := s.End(ctx, kgo.TryCommit); err != nil && ctx.Err() == nil && !errors.Is(err, kgo.ErrClientClosed) {
			t.Error(err)
			return
		}
	}
}

// A consumer copies records in transactions; the broker is killed on the way, and another copier goes on: every record
// is copied once, as read_committed shows it.
func TestExactlyOnceAcrossAKill(t *testing.T) {
	// A session asks for its offsets before it fences its predecessor, so that it waits for that one's open transaction
	// to time out, and a member waits for its predecessor's session.
	soon := []string{"group.min.session.timeout.ms=100", "transaction.abort.timed.out.transaction.cleanup.interval.ms=100"}
	const records = 150
	fs := vfs.NewMem()
	n := start(t, options(t, fs, soon...))
	cl := client(t, n, kgo.DefaultProduceTopic("in"))
	createTopic(t, cl, "in", 2)
	createTopic(t, cl, "t", 3)
	for i := range records {
		if err := cl.ProduceSync(context.Background(), kgo.StringRecord(fmt.Sprint("r", i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		copier(ctx, t, n)
	}()
	var killed []*vfs.Mem
	rng := rand.New(rand.NewPCG(3, 4))
	for copied := 0; copied < records && len(killed) < 3; {
		if copied = len(committedRecords(t, n)); copied > 10+40*len(killed) {
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
			killed = append(killed, fs.CrashClone(rng, 100))
		}
	}
	cancel()
	<-done
	if len(killed) == 0 {
		t.Fatal("the copier was too fast to be killed")
	}
	for i, k := range killed {
		after := start(t, options(t, k, soon...))
		finish(t, i, after, records)
		stopNode(t, after)
	}
}

// finish has another copier copy what is missing, and a little longer.
func finish(t *testing.T, kill int, n *Node, records int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		copier(ctx, t, n)
	}()
	got := map[string]int{}
	for len(got) < records && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		got = committedRecords(t, n)
	}
	time.Sleep(100 * time.Millisecond)
	cancel()
	<-done
	for name, count := range committedRecords(t, n) { // the copier may have left a transaction open
		if count != 1 {
			t.Errorf("kill %d: %s is there %d times", kill, name, count)
		}
	}
	if len(got) != records {
		t.Errorf("kill %d: %d of %d records were copied", kill, len(got), records)
	}
}
