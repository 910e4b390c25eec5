package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/coordinator/group"
	"grete/coordinator/txn"
	"grete/protocol"
	"grete/protocol/batch"
)

// TxnOffsetCommit serves versions 0–6: topics by name, and by id from 6 on. It is an OffsetCommit but for the
// transaction, which is verified, or joined (from 5 on), before the group coordinator is asked.
func TxnOffsetCommit(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.TxnOffsetCommitRequest)
	commit := plainCommit(req)
	answers := b.splitCommit(commit)
	respond := func(topics []kmsg.OffsetCommitResponseTopic) {
		r.Respond(txnCommitResponse(r.Version, mergeCommits(answers, topics)))
	}
	if len(commit.Topics) == 0 {
		respond(nil)
		return
	}
	b.commitInTransaction(req, commit, respond)
}

// plainCommit is the same commit as an OffsetCommit of the version that knows as much: 10 has topic ids and members'
// epochs, 8 neither.
func plainCommit(req *kmsg.TxnOffsetCommitRequest) *kmsg.OffsetCommitRequest {
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version = 8
	if req.Version >= 6 {
		commit.Version = 10
	}
	commit.Group, commit.MemberID, commit.InstanceID, commit.Generation = req.Group, req.MemberID, req.InstanceID, req.Generation
	for _, t := range req.Topics {
		ct := kmsg.OffsetCommitRequestTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, p := range t.Partitions {
			cp := kmsg.NewOffsetCommitRequestTopicPartition()
			cp.Partition, cp.Offset, cp.LeaderEpoch, cp.Metadata = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata
			ct.Partitions = append(ct.Partitions, cp)
		}
		commit.Topics = append(commit.Topics, ct)
	}
	return commit
}

func txnCommitResponse(version int16, topics []kmsg.OffsetCommitResponseTopic) *kmsg.TxnOffsetCommitResponse {
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	resp.Version = version
	for _, t := range topics {
		rt := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, p := range t.Partitions {
			code := p.ErrorCode
			if version < 2 && code == kerr.CoordinatorLoadInProgress.Code {
				code = kerr.CoordinatorNotAvailable.Code // producers of that time fail on the other (KAFKA-7296)
			}
			rt.Partitions = append(rt.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (b *Broker) commitInTransaction(req *kmsg.TxnOffsetCommitRequest, commit *kmsg.OffsetCommitRequest, respond func([]kmsg.OffsetCommitResponseTopic)) {
	fail := func(err error) { respond(group.CommitResponse(commit, coordinator.Code(err))) }
	proceed := func(guard uint64) {
		b.Groups.CommitTxnOffsets(commit, coordinator.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch, Guard: guard}, respond)
	}
	support := txnOffsetCommitSupport(req.Version)
	if req.Group == "" || !b.asksCoordinator(support) {
		proceed(0)
		return
	}
	index := b.Groups.PartitionFor(req.Group)
	part, err := b.Replicas.Partition(offsetsTopic, index)
	if err != nil {
		fail(err)
		return
	}
	guard, open, err := part.StartVerification(req.ProducerID, req.ProducerEpoch, batch.NoSequence, support == addsPartitionsToo)
	switch {
	case err != nil:
		fail(err)
	case open:
		proceed(guard)
	default:
		b.verifyTransaction(txn.AddRequest{
			ID: req.TransactionalID, Producer: txn.ProducerEpoch{ID: req.ProducerID, Epoch: req.ProducerEpoch},
			Partitions: []txn.Partition{{Topic: offsetsTopic, Index: index}},
		}, support, func(errs []error) {
			if errs[0] != nil {
				denyVerification(part, txn.ProducerEpoch{ID: req.ProducerID, Epoch: req.ProducerEpoch}, guard, errs[0])
				fail(errs[0])
				return
			}
			proceed(guard)
		})
	}
}
