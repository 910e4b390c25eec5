package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"grete/internal/history"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	txnTimeout     = 10 * time.Second
	endTimeout     = 30 * time.Second
	maxTxnRecords  = 20
	abortsOneIn    = 5
	txnSizeMaxByte = 1000
)

// transactionalProducer keeps its transactional id over its incarnations: each fences the one before.
func (r *run) transactionalProducer(ctx context.Context, i int, rng *rand.Rand) {
	name := r.name("txn", i)
	cl, link, err := r.client(transactor, producerOpts(kgo.TransactionalID(fmt.Sprintf("h-txn-%d", i)), kgo.TransactionTimeout(txnTimeout))...)
	if err != nil {
		r.logf("%s: %v", name, err)
		return
	}
	defer cl.Close()
	r.record(history.Op{Kind: history.Client, Client: name, Guarantee: history.Transactional})
	life, end := r.life(ctx, rng)
	defer end()
	for n := 0; life.Err() == nil; n++ {
		if err := r.transact(life, cl, name, fmt.Sprintf("%s/%d", name, n), rng); err != nil {
			break
		}
	}
	link.crash() // at the end of the run too: the transaction that is open then must time out
	r.record(history.Op{Kind: history.Crash, Client: name})
}

// transact returns an error when this incarnation cannot go on: it has crashed, or lost its id, or does not know what
// became of its commit.
func (r *run) transact(ctx context.Context, cl *kgo.Client, name, txn string, rng *rand.Rand) error {
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	var failed atomic.Int64
	op := history.Op{Client: name, Txn: txn}
	for range 1 + rng.IntN(maxTxnRecords) {
		topic := []string{txnTopic, txnTopic, compactedTopic}[rng.IntN(3)]
		rec := r.newRecord(topic, rng.Int32N(r.cfg.Partitions), name, rng.IntN(txnSizeMaxByte), rng)
		r.send(ctx, cl, rec, op, func(err error) {
			if err != nil {
				failed.Add(1)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if rng.IntN(abortsOneIn) == 0 && !wait(ctx, time.Duration(rng.IntN(300))*time.Millisecond) {
		return ctx.Err() // crashed with an open transaction
	}
	op.Kind, op.Commit, op.BeganNs = history.End, failed.Load() == 0 && rng.IntN(abortsOneIn) != 0, r.nowNs()
	end, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	err := cl.EndTransaction(end, kgo.TransactionEndTry(op.Commit))
	op.Outcome = outcome(err)
	r.record(op)
	return err
}
