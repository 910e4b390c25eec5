package sim

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/history"
)

const copiersGroup = "copiers"

// copier reads one topic from where its group is and passes each value on to another, in transactions that commit its
// offsets with it.
func (c *clients) copier(ctx context.Context, k *client) {
	c.record(history.Op{Kind: history.Client, Client: k.name, Guarantee: history.Transactional, Group: copiersGroup, Committed: true})
	life, end := k.life(ctx)
	defer end()
	defer k.crash()
	id := "copier"
	by, err := k.identify(life, &id)
	next := map[history.Partition]int64{}
	for p := int32(0); p < partitions && err == nil; p++ {
		err = k.resume(life, copiersGroup, next, history.Partition{Topic: idempotentTopic, ID: p})
	}
	for err == nil && k.rest(life, 2*time.Second) {
		err = k.copyOnce(life, by, next)
	}
}

// resume goes on at what the group has committed, once no transaction about it is open.
func (k *client) resume(ctx context.Context, group string, next map[history.Partition]int64, p history.Partition) error {
	k.refresh(ctx)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable, req.Group = true, group
	of, topic := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic, topic.TopicID, topic.Partitions = p.Topic, k.ids[p.Topic], []int32{p.ID}
	of.Group, of.Topics = group, append(of.Topics, topic)
	req.Groups = append(req.Groups, of)
	op := history.Op{Kind: history.Assign, Client: k.name, Group: group, BeganNs: k.c.nowNs()}
	answer, err := k.askCoordinator(ctx, 0, group, req, offsetFetchCode)
	if err != nil {
		return err
	}
	got := answer.(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0]
	if next[p] = max(0, got.Offset); got.LeaderEpoch > k.epochs[p] { // KIP-320: who leads by older metadata may not have come so far
		k.epochs[p] = got.LeaderEpoch
		delete(k.leaders, p)
	}
	op.Offsets = []history.Position{{Partition: p, Offset: next[p]}}
	k.c.record(op)
	return nil
}

func offsetFetchCode(r kmsg.Response) int16 {
	group := r.(*kmsg.OffsetFetchResponse).Groups[0]
	if group.ErrorCode != 0 || len(group.Topics) == 0 {
		return group.ErrorCode
	}
	return group.Topics[0].Partitions[0].ErrorCode
}

func (k *client) copyOnce(ctx context.Context, by *producer, next map[history.Partition]int64) error {
	p := k.somewhere(idempotentTopic)
	records := k.poll(ctx, next, p, true)
	if len(records) == 0 {
		return nil
	}
	txn := k.name + "/" + k.newValue()
	for _, r := range records {
		to := history.Partition{Topic: copiesTopic, ID: p.ID}
		if err := k.add(ctx, by, txn, r.Value, to, []string{k.newValue()}); err != nil {
			return err
		}
	}
	if err := k.commitOffset(ctx, by, p, next[p]); err != nil {
		return err
	}
	return k.endTxn(ctx, by, history.Op{Txn: txn, Commit: true, Group: copiersGroup, Offsets: []history.Position{{Partition: p, Offset: next[p]}}})
}

// commitOffset has the offset committed with the transaction.
func (k *client) commitOffset(ctx context.Context, by *producer, p history.Partition, offset int64) error {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = *by.txn, copiersGroup, by.id, by.epoch, -1
	topic, part := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	part.Partition, part.Offset, part.LeaderEpoch = p.ID, offset, k.epochs[p]
	topic.Topic, topic.Partitions = p.Topic, append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	_, err := k.askCoordinator(ctx, 0, copiersGroup, req, func(r kmsg.Response) int16 {
		return r.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	})
	return err
}
