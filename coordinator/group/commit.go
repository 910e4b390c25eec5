package group

import (
	"cmp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// CommitOffsets commits for topics that exist, which the caller has checked; Topic and TopicID must both be set.
func (s *Service) CommitOffsets(req *kmsg.OffsetCommitRequest, answer func([]kmsg.OffsetCommitResponseTopic)) {
	s.commitOffsets(req, true, answer, func(sh *shard, tx *coordinator.Tx) error { return sh.commit(tx, req) })
}

func (s *Service) commitOffsets(req *kmsg.OffsetCommitRequest, blind bool, answer func([]kmsg.OffsetCommitResponseTopic), commit func(*shard, *coordinator.Tx) error) {
	fail := func(code int16) { answer(CommitResponse(req, code)) }
	s.submit(req.Group, blind,
		func(sh *shard, tx *coordinator.Tx) {
			if err := commit(sh, tx); err != nil {
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

// CommitResponse answers every partition with code.
func CommitResponse(req *kmsg.OffsetCommitRequest, code int16) []kmsg.OffsetCommitResponseTopic {
	return commitResponse(req, func(kmsg.OffsetCommitRequestTopicPartition) int16 { return code })
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

// commit is blind: whether it may is decided by members and generation, which no other commit changes.
func (s *shard) commit(tx *coordinator.Tx, req *kmsg.OffsetCommitRequest) error {
	err := s.checkCommit(tx, req, false)
	if err == nil {
		s.appendCommits(tx, req)
	}
	return err
}

// appendCommits appends one record per partition.
func (s *shard) appendCommits(tx *coordinator.Tx, req *kmsg.OffsetCommitRequest) {
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
}

// membershipVersion is the first whose clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH.
const membershipVersion = 9

// checkCommit: an unknown group accepts who claims no generation (it becomes a simple group when the record is
// replayed); from version 9 on anyone else learns that it does not exist.
func (s *shard) checkCommit(tx *coordinator.Tx, req *kmsg.OffsetCommitRequest, transactional bool) error {
	g := s.groups[req.Group]
	switch {
	case g == nil && req.Generation < 0:
		return cmp.Or(s.admitGroup(), s.admitOffsets(req))
	case g == nil && req.Version >= membershipVersion:
		return kerr.GroupIDNotFound
	case g == nil:
		return kerr.IllegalGeneration
	}
	c := commitContext{
		memberID: req.MemberID, instanceID: req.InstanceID, generation: req.Generation, version: req.Version, transactional: transactional,
	}
	err := g.checkCommit(c)
	if err == nil {
		err = s.checkPartitions(g, c, req)
	}
	if err == nil {
		err = s.admitOffsets(req)
	}
	if err == nil && !transactional {
		g.touch(tx, req.MemberID)
	}
	return err
}

// admitOffsets refuses a commit that takes more memory than there is. One in the place of another, with no longer
// metadata, always has its place.
func (s *shard) admitOffsets(req *kmsg.OffsetCommitRequest) error {
	more := int64(0)
	s.eachCommit(req, func(_ string, _ int32, bytes int64) { more += bytes })
	if s.cfg.Memory.Has(more) {
		return nil
	}
	more = 0
	s.eachCommit(req, func(topic string, partition int32, bytes int64) {
		more += max(bytes-s.offsets.get(req.Group, topic, partition).bytes(), 0)
	})
	if more == 0 || s.cfg.Memory.Has(more) {
		return nil
	}
	return errTooManyGroups
}

// eachCommit visits what a request commits, with the bytes that each takes.
func (s *shard) eachCommit(req *kmsg.OffsetCommitRequest, visit func(topic string, partition int32, bytes int64)) {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if s.commitCode(p) != 0 {
				continue
			}
			bytes := int64(offsetBytes)
			if p.Metadata != nil {
				bytes += int64(len(*p.Metadata))
			}
			visit(t.Topic, p.Partition, bytes)
		}
	}
}

// checkPartitions: one partition that the member may not commit for refuses all; what is too large is not asked about.
func (s *shard) checkPartitions(g group, c commitContext, req *kmsg.OffsetCommitRequest) error {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if s.commitCode(p) != 0 {
				continue
			}
			if err := g.checkPartition(c, t.TopicID, p.Partition); err != nil {
				return err
			}
		}
	}
	return nil
}
