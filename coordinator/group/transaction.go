package group

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// CommitTxnOffsets commits in a producer's transaction, whose guard the log of the group's partition gave; the offsets
// count once the transaction is committed. Topics must exist, with Topic and TopicID both set.
func (s *Service) CommitTxnOffsets(req *kmsg.TxnOffsetCommitRequest, guard uint64, answer func([]kmsg.TxnOffsetCommitResponseTopic)) {
	fail := func(code int16) { answer(TxnCommitResponse(req, code)) }
	if req.Group == "" {
		fail(kerr.InvalidGroupID.Code)
		return
	}
	s.submit(req.Group, false,
		func(sh *shard, tx *coordinator.Tx) {
			if err := sh.commitTxn(tx, req, guard); err != nil {
				tx.Reply(func(failed error) { fail(firstCode(failed, coordinator.Code(err))) })
				return
			}
			tx.Reply(func(err error) {
				if err != nil {
					fail(coordinator.Code(err))
					return
				}
				answer(txnCommitResponse(req, sh.txnCommitCode))
			})
		}, fail)
}

// TxnCommitResponse answers every partition with code.
func TxnCommitResponse(req *kmsg.TxnOffsetCommitRequest, code int16) []kmsg.TxnOffsetCommitResponseTopic {
	return txnCommitResponse(req, func(*string) int16 { return code })
}

func txnCommitResponse(req *kmsg.TxnOffsetCommitRequest, code func(metadata *string) int16) []kmsg.TxnOffsetCommitResponseTopic {
	out := make([]kmsg.TxnOffsetCommitResponseTopic, 0, len(req.Topics))
	for _, t := range req.Topics {
		rt := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code(p.Metadata)})
		}
		out = append(out, rt)
	}
	return out
}

// txnCommitCode reads only the configuration, so that it may run anywhere.
func (s *shard) txnCommitCode(metadata *string) int16 {
	return s.commitCode(kmsg.OffsetCommitRequestTopicPartition{Metadata: metadata})
}

func (s *shard) commitTxn(tx *coordinator.Tx, req *kmsg.TxnOffsetCommitRequest, guard uint64) error {
	if err := s.checkTxnCommit(req); err != nil {
		return err
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if s.txnCommitCode(p.Metadata) != 0 {
				continue
			}
			c := committed{
				offset: p.Offset, leaderEpoch: absentLeaderEpoch, commitMs: tx.NowMs, expireMs: unknownTimestampMs, topicID: t.TopicID,
			}
			if req.Version >= 2 {
				c.leaderEpoch = p.LeaderEpoch
			}
			if p.Metadata != nil {
				c.metadata = *p.Metadata
			}
			tx.Append(offsetCommitKey(req.Group, t.Topic, p.Partition), c.value())
		}
	}
	tx.InTransaction(coordinator.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch, Guard: guard})
	return nil
}

// membershipVersion is the first of TxnOffsetCommit whose clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH.
const membershipVersion = 6

// checkTxnCommit: as for other commits, but without a generation anybody may commit: versions before 3 have none.
func (s *shard) checkTxnCommit(req *kmsg.TxnOffsetCommitRequest) error {
	g := s.groups[req.Group]
	switch {
	case g == nil && req.Generation < 0:
		return nil
	case g == nil && req.Version >= membershipVersion:
		return kerr.GroupIDNotFound
	case g == nil:
		return kerr.IllegalGeneration
	}
	err := g.checkCommit(commitContext{
		memberID: req.MemberID, instanceID: req.InstanceID, generation: req.Generation, version: req.Version, transactional: true,
	})
	if errors.Is(err, kerr.StaleMemberEpoch) && req.Version < membershipVersion {
		return kerr.IllegalGeneration
	}
	return err
}

// EndTransaction writes a producer's end marker to a partition of __consumer_offsets, and does what it decides.
func (s *Service) EndTransaction(partition int32, m coordinator.Marker, done func(error)) {
	s.rt.Submit(partition, op{
		Run: func(_ *shard, tx *coordinator.Tx) {
			tx.EndTransaction(m)
			tx.Reply(done)
		},
		Refuse: done,
	})
}
