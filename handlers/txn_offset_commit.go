package handlers

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/coordinator"
	"grete/coordinator/group"
	"grete/coordinator/txn"
	"grete/protocol"
	"grete/protocol/batch"
)

// TxnOffsetCommit serves versions 0–6: topics by name, and by id from 6 on. What does not exist is answered here; the
// rest goes to the group coordinator once the transaction is verified, or joined (from 5 on).
func TxnOffsetCommit(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.TxnOffsetCommitRequest)
	answers := b.splitTxnCommit(req)
	respond := func(topics []kmsg.TxnOffsetCommitResponseTopic) {
		resp := kmsg.NewPtrTxnOffsetCommitResponse()
		resp.Version, resp.Topics = r.Version, mergeTxnCommits(answers, topics)
		if r.Version < 2 {
			hideLoading(resp)
		}
		r.Respond(resp)
	}
	if len(req.Topics) == 0 {
		respond(nil)
		return
	}
	b.commitTxnOffsets(req, respond)
}

func (b *Broker) commitTxnOffsets(req *kmsg.TxnOffsetCommitRequest, respond func([]kmsg.TxnOffsetCommitResponseTopic)) {
	fail := func(err error) { respond(group.TxnCommitResponse(req, coordinator.Code(err))) }
	if req.Group == "" {
		fail(kerr.InvalidGroupID)
		return
	}
	commit := func(guard uint64) { b.Groups.CommitTxnOffsets(req, guard, respond) }
	support := txnOffsetCommitSupport(req.Version)
	if !b.asksCoordinator(support) {
		commit(0)
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
		commit(guard)
	default:
		b.verifyTransaction(txn.AddRequest{
			ID: req.TransactionalID, Producer: txn.ProducerEpoch{ID: req.ProducerID, Epoch: req.ProducerEpoch},
			Partitions: []txn.Partition{{Topic: offsetsTopic, Index: index}},
		}, support, func(errs []error) {
			if errs[0] != nil {
				fail(errs[0])
				return
			}
			commit(guard)
		})
	}
}

// splitTxnCommit leaves in req what exists, with both name and id, and returns the errors of the rest.
func (b *Broker) splitTxnCommit(req *kmsg.TxnOffsetCommitRequest) []kmsg.TxnOffsetCommitResponseTopic {
	im := b.Image()
	var answers []kmsg.TxnOffsetCommitResponseTopic
	valid := req.Topics[:0]
	for _, t := range req.Topics {
		known, code := txnCommitTopic(im, req.Version, &t)
		bad := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		t.Partitions = slices.DeleteFunc(t.Partitions, func(p kmsg.TxnOffsetCommitRequestTopicPartition) bool {
			if has(known, p.Partition) {
				return false
			}
			bad.Partitions = append(bad.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
			return true
		})
		if len(bad.Partitions) > 0 || known == nil {
			answers = append(answers, bad)
		}
		if len(t.Partitions) > 0 {
			valid = append(valid, t)
		}
	}
	req.Topics = valid
	return answers
}

// txnCommitTopic finds the topic and completes its name or id; code is what its unknown partitions get.
func txnCommitTopic(im *metadata.Image, version int16, t *kmsg.TxnOffsetCommitRequestTopic) (known *metadata.Topic, code int16) {
	if version >= 6 {
		if known = im.TopicByID(t.TopicID); known == nil {
			return nil, kerr.UnknownTopicID.Code
		}
		t.Topic = known.Name
		return known, kerr.UnknownTopicOrPartition.Code
	}
	if known = im.Topic(t.Topic); known != nil {
		t.TopicID = known.ID
	}
	return known, kerr.UnknownTopicOrPartition.Code
}

func mergeTxnCommits(into, topics []kmsg.TxnOffsetCommitResponseTopic) []kmsg.TxnOffsetCommitResponseTopic {
	for _, t := range topics {
		i := slices.IndexFunc(into, func(a kmsg.TxnOffsetCommitResponseTopic) bool { return a.Topic == t.Topic && a.TopicID == t.TopicID })
		if i < 0 {
			into = append(into, t)
			continue
		}
		into[i].Partitions = append(into[i].Partitions, t.Partitions...)
	}
	return into
}

// hideLoading: producers before version 2 fail on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
func hideLoading(resp *kmsg.TxnOffsetCommitResponse) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == kerr.CoordinatorLoadInProgress.Code {
				p.ErrorCode = kerr.CoordinatorNotAvailable.Code
			}
		}
	}
}
