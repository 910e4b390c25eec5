package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/coordinator"
)

// DescribeConsumerGroup describes one consumer group; a classic one is not found.
func (s *Service) DescribeConsumerGroup(id string, answer func(kmsg.ConsumerGroupDescribeResponseGroup)) {
	fail := func(code int16) {
		resp := kmsg.NewConsumerGroupDescribeResponseGroup()
		resp.Group, resp.ErrorCode = id, code
		answer(resp)
	}
	if id == "" {
		fail(kerr.InvalidGroupID.Code)
		return
	}
	s.submit(id, false,
		func(sh *shard, tx *coordinator.Tx) {
			resp := sh.describeConsumer(id)
			tx.Reply(func(err error) {
				if err != nil {
					fail(coordinator.Code(err))
					return
				}
				answer(resp)
			})
		}, fail)
}

func (s *shard) describeConsumer(id string) kmsg.ConsumerGroupDescribeResponseGroup {
	resp := kmsg.NewConsumerGroupDescribeResponseGroup()
	resp.Group = id
	g, err := s.consumer(id)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = coordinator.Code(err), messageOf(err)
		return resp
	}
	members := g.membersWithout(nil)
	resp.State, resp.Epoch, resp.AssignmentEpoch = g.stateName(), g.epoch, g.assignmentEpoch
	resp.AssignorName = s.preferredAssignor(&g.tally)
	im := s.image()
	for _, m := range members {
		resp.Members = append(resp.Members, describeMember(m, g.target[m.id], im))
	}
	return resp
}

// Types of members in descriptions (KIP-1099).
const (
	describedClassic  = 0
	describedConsumer = 1
)

// describeMember: what a member has to give up still counts as its own.
func describeMember(m *consumerMember, target partitions, im *metadata.Image) kmsg.ConsumerGroupDescribeResponseGroupMember {
	d := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	d.MemberID, d.InstanceID, d.RackID, d.MemberEpoch = m.id, m.instance, m.rack, m.epoch
	d.ClientID, d.ClientHost = m.clientID, m.clientHost
	regex := m.regex
	d.SubscribedTopics, d.SubscribedTopicRegex = m.topics, &regex
	d.MemberType = describedConsumer
	if m.classic != nil {
		d.MemberType = describedClassic
	}
	all := make(ownership)
	m.assigned.each(all.put)
	m.revoking.each(all.put)
	d.Assignment.TopicPartitions = describePartitions(all.plain(), im)
	d.TargetAssignment.TopicPartitions = describePartitions(target, im)
	return d
}

// describePartitions leaves out topics that are no more.
func describePartitions(p partitions, im *metadata.Image) []kmsg.AssignmentTopicPartition {
	out := make([]kmsg.AssignmentTopicPartition, 0, len(p))
	for _, id := range sortedTopics(p) {
		if t := im.TopicByID(id); t != nil {
			d := kmsg.NewAssignmentTopicPartition()
			d.TopicID, d.Topic, d.Partitions = id, t.Name, p[id]
			out = append(out, d)
		}
	}
	return out
}
