package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// CommitOffsets commits for topics that exist, which the caller has checked; Topic and TopicID must both be set.
func (s *Service) CommitOffsets(req *kmsg.OffsetCommitRequest, answer func([]kmsg.OffsetCommitResponseTopic)) {
	fail := func(code int16) {
		answer(commitResponse(req, func(kmsg.OffsetCommitRequestTopicPartition) int16 { return code }))
	}
	s.submit(req.Group, true,
		func(sh *shard, tx *coordinator.Tx) {
			if err := sh.commit(tx, req); err != nil {
				tx.Reply(func(failed error) { fail(firstCode(failed, coordinator.Code(err))) })
				return
			}
			tx.Reply(func(err error) {
				if err != nil {
					fail(coordinator.Code(err))
					return
				}
				answer(commitResponse(req, sh.commitCode))
			})
		}, fail)
}

func commitResponse(req *kmsg.OffsetCommitRequest, code func(kmsg.OffsetCommitRequestTopicPartition) int16) []kmsg.OffsetCommitResponseTopic {
	out := make([]kmsg.OffsetCommitResponseTopic, 0, len(req.Topics))
	for _, t := range req.Topics {
		rt := kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code(p)})
		}
		out = append(out, rt)
	}
	return out
}

// commitCode reads only the configuration, so that it may run anywhere.
func (s *shard) commitCode(p kmsg.OffsetCommitRequestTopicPartition) int16 {
	if p.Metadata != nil && len(*p.Metadata) > s.cfg.OffsetMetadataMaxBytes {
		return kerr.OffsetMetadataTooLarge.Code
	}
	return 0
}

// commit appends one record per partition. It is blind: whether it may is decided by members and generation, which
// no other commit changes.
func (s *shard) commit(tx *coordinator.Tx, req *kmsg.OffsetCommitRequest) error {
	if err := s.checkCommit(tx, req); err != nil {
		return err
	}
	expireMs := int64(unknownTimestampMs)
	if req.Version >= 2 && req.Version <= 4 && req.RetentionTimeMillis >= 0 {
		expireMs = tx.NowMs + req.RetentionTimeMillis
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if s.commitCode(p) != 0 {
				continue
			}
			c := committed{
				offset: p.Offset, leaderEpoch: absentLeaderEpoch, commitMs: tx.NowMs, expireMs: expireMs, topicID: t.TopicID,
			}
			if req.Version >= 6 {
				c.leaderEpoch = p.LeaderEpoch
			}
			if p.Metadata != nil {
				c.metadata = *p.Metadata
			}
			tx.Append(offsetCommitKey(req.Group, t.Topic, p.Partition), c.value())
		}
	}
	return nil
}

// checkCommit: an unknown group accepts who claims no generation (it becomes a simple group when the record is
// replayed); from version 9 on anyone else learns that it does not exist.
func (s *shard) checkCommit(tx *coordinator.Tx, req *kmsg.OffsetCommitRequest) error {
	g := s.groups[req.Group]
	switch {
	case g == nil && req.Generation < 0:
		return nil
	case g == nil && req.Version >= 9:
		return kerr.GroupIDNotFound
	case g == nil:
		return kerr.IllegalGeneration
	}
	if err := g.checkCommit(commitContext{memberID: req.MemberID, instanceID: req.InstanceID, generation: req.Generation, version: req.Version}); err != nil {
		return err
	}
	g.touch(tx, req.MemberID)
	return nil
}
