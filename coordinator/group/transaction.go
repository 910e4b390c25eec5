package group

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// CommitTxnOffsets is CommitOffsets in the transaction of p, whose guard the log of the group's partition gave: the
// offsets count once the transaction is committed. The empty group id commits no such offsets.
func (s *Service) CommitTxnOffsets(req *kmsg.OffsetCommitRequest, p coordinator.Producer, answer func([]kmsg.OffsetCommitResponseTopic)) {
	if req.Group == "" {
		answer(CommitResponse(req, kerr.InvalidGroupID.Code))
		return
	}
	s.commitOffsets(req, false, answer, func(sh *shard, tx *coordinator.Tx) error { return sh.commitTxn(tx, req, p) })
}

func (s *shard) commitTxn(tx *coordinator.Tx, req *kmsg.OffsetCommitRequest, p coordinator.Producer) error {
	if err := s.checkCommit(tx, req, true); err != nil {
		return olderCode(err, req.Version)
	}
	s.appendCommits(tx, req)
	tx.InTransaction(p)
	return nil
}

// olderCode: members' epochs were unknown to transactional commits for longer than to others.
func olderCode(err error, version int16) error {
	if errors.Is(err, kerr.StaleMemberEpoch) && version < membershipVersion {
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
