package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

const transactionState = "__transaction_state"

// transactor writes each value of a transaction to two topics of one partition. The broker that has the second alone,
// slow, has nothing to do with the first, nor with the coordinator's own replicas: while it is paused, transactions
// cannot be completed.
type transactor struct {
	r         *rig
	topics    [2]string
	id        string
	slow      int32
	cl        *kgo.Client
	next      int
	committed []string
}

// transactor makes the topics and finds a transactional id that suits.
func (r *rig) transactor(name string) *transactor {
	r.t.Helper()
	x := &transactor{r: r, topics: [2]string{name + "-on-three", name + "-on-one"}}
	controller := r.activeController()
	for i := 0; x.slow == 0; i++ {
		x.id = fmt.Sprint(name, "-", i)
		r.coordinator(x.id) // makes the internal topic
		replicas := r.partition(transactionState, partitionOf(x.id)).Replicas
		for _, n := range r.Nodes {
			if n.ID != controller && len(replicas) > 0 && !slices.Contains(replicas, n.ID) {
				x.slow = n.ID
			}
		}
	}
	r.createOn(x.topics[0], r.others(x.slow)[:3]...)
	r.createOn(x.topics[1], x.slow)
	x.cl = r.client(kgo.TransactionalID(x.id), kgo.ProducerLinger(0))
	return x
}

// createOn makes a topic of one partition on the brokers named.
func (r *rig) createOn(topic string, replicas ...int32) {
	r.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, -1, -1
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Replicas = replicas
	t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(r.ctx, r.client())
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// awake are the brokers that are never paused.
func (x *transactor) awake() (addrs []string) {
	for _, id := range x.r.others(x.slow) {
		addrs = append(addrs, x.r.Node(id).Addr())
	}
	return addrs
}

// coordinator waits until somebody coordinates a transactional id; it asks seeds, or all.
func (r *rig) coordinator(id string, seeds ...string) (node int32) {
	r.t.Helper()
	if len(seeds) == 0 {
		seeds = r.Addrs()
	}
	r.eventually("coordinator", func() bool {
		cl := r.client(kgo.SeedBrokers(seeds...))
		defer cl.Close()
		found := kadm.NewClient(cl).FindTxnCoordinators(r.ctx, id)
		node = found[id].NodeID
		return found[id].Err == nil && node > 0
	})
	return node
}

// partitionOf is where a transactional id has its state: the absolute value of Java's hash code.
func partitionOf(id string) int32 {
	var h int32
	for _, c := range []byte(id) {
		h = 31*h + int32(c)
	}
	if h < 0 {
		h = -h
	}
	return h % 50
}

// write opens a transaction with one value for both topics.
func (x *transactor) write() (value string) {
	x.r.t.Helper()
	value = fmt.Sprint("value ", x.next)
	x.next++
	err := x.cl.BeginTransaction()
	if err == nil {
		err = x.cl.ProduceSync(x.r.ctx, &kgo.Record{Topic: x.topics[0], Value: []byte(value)}, &kgo.Record{Topic: x.topics[1], Value: []byte(value)}).FirstErr()
	}
	if err != nil {
		x.r.t.Fatalf("%s: %v", value, err)
	}
	return value
}

func (x *transactor) end(commit kgo.TransactionEndTry, value string) {
	x.r.t.Helper()
	if err := x.cl.EndTransaction(x.r.ctx, commit); err != nil {
		x.r.t.Fatalf("end of %s: %v", value, err)
	}
	if commit == kgo.TryCommit {
		x.committed = append(x.committed, value)
	}
}

func (x *transactor) state(wanted ...string) {
	x.r.t.Helper()
	var said string
	defer func() {
		if x.r.t.Failed() {
			x.r.t.Log("last seen: ", said)
		}
	}()
	x.r.eventually(fmt.Sprint("transaction in ", wanted), func() bool {
		cl := x.r.client(kgo.SeedBrokers(x.awake()...)) // one that remembers no coordinator
		defer cl.Close()
		all, err := kadm.NewClient(cl).DescribeTransactions(x.r.ctx, x.id)
		said = fmt.Sprintf("%+v, %v", all[x.id], err)
		return err == nil && slices.Contains(wanted, all[x.id].State)
	})
}

// killCoordinator returns once another broker coordinates; the one that was killed is started when again is called.
func (x *transactor) killCoordinator() (again func()) {
	x.r.t.Helper()
	old := x.r.coordinator(x.id, x.awake()...)
	x.r.kill(old)
	x.r.eventually("another coordinator", func() bool { return x.r.coordinator(x.id, x.awake()...) != old })
	return func() { x.r.start(old) }
}

// check wants in both topics what was committed, in order, and nothing open.
func (x *transactor) check() {
	r := x.r
	r.t.Helper()
	for _, topic := range x.topics {
		r.eventually("end of all transactions", func() bool {
			stable, err := r.adm.ListCommittedOffsets(r.ctx, topic)
			ends, err2 := r.adm.ListEndOffsets(r.ctx, topic)
			s, _ := stable.Lookup(topic, 0)
			e, _ := ends.Lookup(topic, 0)
			return err == nil && err2 == nil && s.Err == nil && e.Err == nil && s.Offset == e.Offset
		})
		cl := r.client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
		var got []string
		r.eventually("committed records", func() bool {
			ctx, cancel := context.WithTimeout(r.ctx, time.Second)
			defer cancel()
			cl.PollFetches(ctx).EachRecord(func(k *kgo.Record) { got = append(got, string(k.Value)) })
			return len(got) >= len(x.committed)
		})
		if !slices.Equal(got, x.committed) {
			r.t.Errorf("%s has %q, committed were %q", topic, got, x.committed)
		}
	}
}

// FAULTS: "Coordinator killed in every transaction state → same outcome on all partitions".
func TestCoordinatorIsKilledInEveryState(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{Brokers: 5})
	x := r.transactor("outcomes")
	for range longer(1, 5) {
		for _, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
			x.end(commit, x.write()) // CompleteCommit or CompleteAbort, then; at first Empty before
			again := x.killCoordinator()

			value := x.write()
			x.state("Ongoing")
			again()
			again = x.killCoordinator()
			x.end(commit, value)
			again()

			value = x.write()
			if err := r.Node(x.slow).Pause(); err != nil {
				t.Fatal(err)
			}
			x.end(commit, value)
			x.state("PrepareCommit", "PrepareAbort")
			again = x.killCoordinator()
			x.state("PrepareCommit", "PrepareAbort")
			if err := r.Node(x.slow).Resume(); err != nil {
				t.Fatal(err)
			}
			x.state("CompleteCommit", "CompleteAbort")
			again()
		}
	}
	x.end(kgo.TryCommit, x.write())
	x.check()
}

// FAULTS: "Delayed EndTxn of transaction n while n+1 runs → fenced (KIP-890)", also by a coordinator that has only read
// of it.
func TestDelayedEndTxn(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{Brokers: 5})
	x := r.transactor("delayed")
	first := x.write()
	id, epoch, err := x.cl.ProducerID(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	x.end(kgo.TryCommit, first)
	second := x.write()
	late := func(commit bool) {
		t.Helper()
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = x.id, id, epoch, commit
		resp, err := req.RequestWith(r.ctx, r.client())
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
			t.Errorf("a late EndTxn, commit %v: %v", commit, err)
		}
		x.state("Ongoing")
	}
	late(false)
	late(true)
	again := x.killCoordinator()
	late(false)
	late(true)
	again()
	x.end(kgo.TryCommit, second)
	x.check()
}
