package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

const noOffset = -1

// FetchOffsets reads one group's offsets; null Topics are all of them. What it returns is committed: the answer waits
// for it; requireStable refuses partitions that an open transaction is about to commit. Topic names must be set; a
// TopicID that is set must be the one that was committed for.
func (s *Service) FetchOffsets(req kmsg.OffsetFetchRequestGroup, requireStable bool, answer func(kmsg.OffsetFetchResponseGroup)) {
	fail := func(code int16) { answer(kmsg.OffsetFetchResponseGroup{Group: req.Group, ErrorCode: code}) }
	s.submit(req.Group, false,
		func(sh *shard, tx *coordinator.Tx) {
			resp := sh.fetch(req, requireStable)
			tx.Reply(func(err error) {
				if err != nil {
					fail(coordinator.Code(err))
					return
				}
				answer(resp)
			})
		}, fail)
}

func (s *shard) fetch(req kmsg.OffsetFetchRequestGroup, requireStable bool) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.OffsetFetchResponseGroup{Group: req.Group}
	if g := s.groups[req.Group]; g != nil {
		if err := g.checkFetch(req.MemberID, req.MemberEpoch); err != nil {
			resp.ErrorCode = coordinator.Code(err)
			return resp
		}
	}
	if req.Topics == nil {
		resp.Topics = s.fetchAll(req.Group, requireStable)
		return resp
	}
	resp.Topics = make([]kmsg.OffsetFetchResponseGroupTopic, 0, len(req.Topics))
	for _, t := range req.Topics {
		rt := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, p := range t.Partitions {
			c := s.offsets.get(req.Group, t.Topic, p)
			if c != nil && otherTopic(c.topicID, t.TopicID) {
				c = nil
			}
			unstable := requireStable && s.pending.has(req.Group, t.Topic, p)
			rt.Partitions = append(rt.Partitions, fetched(p, c, unstable))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// otherTopic: both ids are known, and the topic was deleted and created again since the commit.
func otherTopic(a, b [16]byte) bool {
	return a != b && a != [16]byte{} && b != [16]byte{}
}

func (s *shard) fetchAll(groupID string, requireStable bool) []kmsg.OffsetFetchResponseGroupTopic {
	out := []kmsg.OffsetFetchResponseGroupTopic{}
	s.offsets.groups[groupID].each(nil, func(topic string, p int32, c *committed) bool {
		if len(out) == 0 || out[len(out)-1].Topic != topic {
			out = append(out, kmsg.OffsetFetchResponseGroupTopic{Topic: topic, TopicID: c.topicID})
		}
		last := &out[len(out)-1]
		unstable := requireStable && s.pending.has(groupID, topic, p)
		last.Partitions = append(last.Partitions, fetched(p, c, unstable))
		return true
	})
	return out
}

// fetched copies c, which changes with the next commit, into an answer.
func fetched(partition int32, c *committed, unstable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	r := kmsg.OffsetFetchResponseGroupTopicPartition{Partition: partition, Offset: noOffset, LeaderEpoch: absentLeaderEpoch, Metadata: new(string)}
	switch {
	case unstable:
		r.ErrorCode = kerr.UnstableOffsetCommit.Code
	case c != nil:
		metadata := c.metadata
		r.Offset, r.LeaderEpoch, r.Metadata = c.offset, c.leaderEpoch, &metadata
	}
	return r
}

// DeleteOffsets deletes offsets of topics that no member subscribes to.
func (s *Service) DeleteOffsets(groupID string, topics []kmsg.OffsetDeleteRequestTopic, answer func(code int16, topics []kmsg.OffsetDeleteResponseTopic)) {
	if groupID == "" {
		answer(kerr.InvalidGroupID.Code, nil)
		return
	}
	fail := func(code int16) { answer(code, nil) }
	s.submit(groupID, false,
		func(sh *shard, tx *coordinator.Tx) {
			resp, err := sh.deleteOffsets(tx, groupID, topics)
			tx.Reply(func(failed error) {
				if failed != nil {
					err, resp = failed, nil
				}
				answer(coordinator.Code(err), resp)
			})
		}, fail)
}

func (s *shard) deleteOffsets(tx *coordinator.Tx, groupID string, topics []kmsg.OffsetDeleteRequestTopic) ([]kmsg.OffsetDeleteResponseTopic, error) {
	g := s.groups[groupID]
	if g == nil {
		return nil, kerr.GroupIDNotFound
	}
	if err := g.checkOffsetDelete(); err != nil {
		return nil, err
	}
	out := make([]kmsg.OffsetDeleteResponseTopic, 0, len(topics))
	for _, t := range topics {
		rt := kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
		subscribed := g.subscribedTo(t.Topic)
		for _, p := range t.Partitions {
			r := kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition}
			switch {
			case subscribed:
				r.ErrorCode = kerr.GroupSubscribedToTopic.Code
			case s.offsets.get(groupID, t.Topic, p.Partition) != nil || s.pending.has(groupID, t.Topic, p.Partition):
				tx.Append(offsetCommitKey(groupID, t.Topic, p.Partition), nil)
			}
			rt.Partitions = append(rt.Partitions, r)
		}
		out = append(out, rt)
	}
	return out, nil
}
