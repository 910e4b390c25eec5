package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"grete/internal/history"

	"github.com/twmb/franz-go/pkg/kgo"
)

const copiersGroup = "h-copiers"

// copier reads h-idempotent in a group and passes each value on to the same partition of h-copies, in
// transactions that commit its offsets with it.
func (r *run) copier(ctx context.Context, i int, rng *rand.Rand) {
	name, link := r.name("copier", i), r.link()
	opts := append(r.through(link, copying), r.memberOpts(name, copiersGroup)...)
	opts = append(opts, kgo.ConsumeTopics(IdempotentTopic), kgo.TransactionalID(fmt.Sprintf("h-copier-%d", i)), kgo.TransactionTimeout(txnTimeout), isolation(true))
	s, err := kgo.NewGroupTransactSession(producerOpts(opts...)...)
	if err != nil {
		r.logf("%s: %v", name, err)
		return
	}
	defer s.Close()
	r.record(history.Op{Kind: history.Client, Client: name, Guarantee: history.Transactional, Group: copiersGroup, Committed: true})
	life, end := r.life(ctx, rng)
	defer end()
	for n := 0; life.Err() == nil; n++ {
		if err := r.copyOnce(life, s, name, fmt.Sprintf("%s/%d", name, n)); err != nil {
			break
		}
	}
	link.crash()
	r.record(history.Op{Kind: history.Crash, Client: name})
}

func (r *run) copyOnce(ctx context.Context, s *kgo.GroupTransactSession, name, txn string) error {
	began := r.nowNs()
	records := s.PollRecords(ctx, 200).Records()
	if len(records) == 0 {
		return ctx.Err()
	}
	r.recordPoll(name, began, records)
	if err := s.Begin(); err != nil {
		return err
	}
	if err := r.passOn(ctx, s, records, history.Op{Client: name, Txn: txn}); err != nil {
		return err
	}
	op := history.Op{Kind: history.End, Client: name, Txn: txn, Commit: true, Group: copiersGroup, Offsets: nextOf(records), BeganNs: r.nowNs()}
	end, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	committed, err := s.End(end, kgo.TryCommit) // aborts by itself if the group has rebalanced
	op.Outcome = outcome(err)
	op.Commit = committed || err != nil
	r.record(op)
	if !op.Commit {
		r.rewound(s.Client(), name, records)
	}
	return err
}

// rewound: a session that aborts goes back to what was committed, or to the start where nothing was.
func (r *run) rewound(cl *kgo.Client, name string, records []*kgo.Record) {
	op := history.Op{Kind: history.Assign, Client: name, Offsets: nextOf(records)}
	committed := cl.CommittedOffsets()
	for i, p := range op.Offsets {
		op.Offsets[i].Offset = max(0, committed[p.Topic][p.ID].Offset)
	}
	r.record(op)
}

// passOn returns when every copy is acknowledged, or one is not.
func (r *run) passOn(ctx context.Context, s *kgo.GroupTransactSession, records []*kgo.Record, op history.Op) error {
	done := make(chan error, len(records))
	for _, k := range records {
		op.CopyOf = asRead(k).Value
		r.send(ctx, s, r.newRecord(copiesTopic, k.Partition, op.Client, len(k.Value), nil), op, func(err error) { done <- err })
	}
	for range records {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// nextOf is the offset after the last record of each partition.
func nextOf(records []*kgo.Record) []history.Position {
	var out []history.Position
	for _, k := range records {
		p := history.Partition{Topic: k.Topic, ID: k.Partition}
		i := slices.IndexFunc(out, func(q history.Position) bool { return q.Partition == p })
		if i < 0 {
			i, out = len(out), append(out, history.Position{Partition: p})
		}
		out[i].Offset = k.Offset + 1
	}
	return out
}
