package load

import (
	"context"
	"fmt"
	"time"

	"grete/internal/history"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topics are those that this run writes to.
func (r *run) topics() []string {
	if r.txns {
		return []string{plainTopic, IdempotentTopic, txnTopic, compactedTopic, copiesTopic}
	}
	return []string{plainTopic, IdempotentTopic, txnTopic, compactedTopic}
}

// topicConfigs make segments roll, and what is compacted soon so.
func topicConfigs(topic string) map[string]*string {
	small, soon, dirty, compact := "1048576", "2000", "0.01", "compact"
	if topic == compactedTopic {
		return map[string]*string{"cleanup.policy": &compact, "segment.ms": &soon, "min.cleanable.dirty.ratio": &dirty}
	}
	return map[string]*string{"segment.bytes": &small}
}

// transactional APIs; a broker without one of them gets no transactions.
var txnKeys = []int16{kmsg.NewPtrAddPartitionsToTxnRequest().Key(), kmsg.NewPtrEndTxnRequest().Key(), kmsg.NewPtrAddOffsetsToTxnRequest().Key(),
	kmsg.NewPtrTxnOffsetCommitRequest().Key()}

// knows: every broker advertises the keys.
func knows(versions kadm.BrokersApiVersions, keys ...int16) bool {
	for _, v := range versions {
		for _, key := range keys {
			if _, known := v.KeyMaxVersion(key); !known {
				return false
			}
		}
	}
	return true
}

func (r *run) prepare(ctx context.Context) error {
	cl, err := kgo.NewClient(r.as(admin)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	versions, err := adm.ApiVersions(ctx)
	if err != nil {
		return err
	}
	r.txns, r.k848 = knows(versions, txnKeys...), knows(versions, kmsg.NewPtrConsumerGroupHeartbeatRequest().Key())
	r.logf("transactions %v, consumer groups %v", r.txns, r.k848)
	for _, topic := range r.topics() {
		if _, err := adm.CreateTopic(ctx, r.cfg.Partitions, r.cfg.Replication, topicConfigs(topic), topic); err != nil {
			return err
		}
	}
	return r.grantAll(ctx, cl)
}

// finish waits until nothing is open any more, and lets a reader of each isolation level read everything.
func (r *run) finish(ctx context.Context) error {
	cl, err := kgo.NewClient(r.as(admin)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Settle)
	defer cancel()
	ends, open, err := settled(ctx, kadm.NewClient(cl), r.topics())
	if err != nil {
		return fmt.Errorf("after the last fault: %w", err)
	}
	for _, readCommitted := range []bool{false, true} {
		if err := r.readAll(ctx, ends, readCommitted, open); err != nil {
			return err
		}
	}
	return nil
}

// settled waits until the last stable offsets are the high watermarks; open says which are not when ctx is about to
// end.
func settled(ctx context.Context, adm *kadm.Client, topics []string) (ends []history.Position, open string, err error) {
	for {
		deadline, _ := ctx.Deadline()
		last := time.Until(deadline) < 20*time.Second
		stable, high, err := bothEnds(ctx, adm, topics)
		if err == nil {
			if ends, open = compareEnds(stable, high); open == "" || last {
				return ends, open, nil
			}
		} else if last { // until then a leader may be about to be elected
			return nil, "", err
		}
		if !wait(ctx, 500*time.Millisecond) {
			return nil, "", ctx.Err()
		}
	}
}

func compareEnds(stable, high kadm.ListedOffsets) (ends []history.Position, open string) {
	high.Each(func(o kadm.ListedOffset) {
		ends = append(ends, history.Position{Partition: history.Partition{Topic: o.Topic, ID: o.Partition}, Offset: o.Offset})
		if s, _ := stable.Lookup(o.Topic, o.Partition); s.Offset != o.Offset {
			open = fmt.Sprintf("%s-%d: last stable offset %d, high watermark %d", o.Topic, o.Partition, s.Offset, o.Offset)
		}
	})
	return ends, open
}

// bothEnds are last stable offsets and high watermarks.
func bothEnds(ctx context.Context, adm *kadm.Client, topics []string) (stable, high kadm.ListedOffsets, err error) {
	if stable, err = adm.ListCommittedOffsets(ctx, topics...); err == nil {
		err = stable.Error()
	}
	if err != nil {
		return nil, nil, err
	}
	if high, err = adm.ListEndOffsets(ctx, topics...); err == nil {
		err = high.Error()
	}
	return stable, high, err
}

// readAll reads from the first offsets to ends; open is why a read_committed reader cannot get there.
func (r *run) readAll(ctx context.Context, ends []history.Position, readCommitted bool, open string) error {
	name := r.name("final", 0)
	cl, err := kgo.NewClient(append(r.as(reading), isolation(readCommitted), kgo.KeepControlRecords(), kgo.KeepRetryableFetchErrors())...)
	if err != nil {
		return err
	}
	defer cl.Close()
	r.record(history.Op{Kind: history.Client, Client: name, Committed: readCommitted})
	op := history.Op{Kind: history.Final, Client: name, BeganNs: r.nowNs(), Offsets: ends, Outcome: history.OK}
	left := map[history.Partition]int64{}
	for _, e := range ends {
		r.seek(cl, name, e.Topic, e.ID, 0)
		if e.Offset > 0 {
			left[e.Partition] = e.Offset
		}
	}
	for len(left) > 0 && ctx.Err() == nil && (open == "" || !readCommitted) {
		for _, k := range r.poll(ctx, cl, name) {
			p := history.Partition{Topic: k.Topic, ID: k.Partition}
			if k.Offset+1 >= left[p] {
				delete(left, p)
			}
		}
	}
	if len(left) > 0 {
		op.Outcome, op.Note = history.Fail, fmt.Sprintf("%v not read to %v; %s", cl.GetConsumeTopics(), left, open)
	}
	r.record(op)
	return nil
}
