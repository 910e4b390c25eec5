package handlers

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

func authorizeJoinGroup(b *Broker, r *protocol.Request) bool {
	if b.mayGroup(r, kmsg.ACLOperationRead, r.Body.(*kmsg.JoinGroupRequest).Group) {
		return true
	}
	return refusal(r, func(resp *kmsg.JoinGroupResponse) { resp.ErrorCode, resp.Generation = groupUnauthorized, -1 })
}

func authorizeSyncGroup(b *Broker, r *protocol.Request) bool {
	if b.mayGroup(r, kmsg.ACLOperationRead, r.Body.(*kmsg.SyncGroupRequest).Group) {
		return true
	}
	return refusal(r, func(resp *kmsg.SyncGroupResponse) { resp.ErrorCode = groupUnauthorized })
}

func authorizeHeartbeat(b *Broker, r *protocol.Request) bool {
	if b.mayGroup(r, kmsg.ACLOperationRead, r.Body.(*kmsg.HeartbeatRequest).Group) {
		return true
	}
	return refusal(r, func(resp *kmsg.HeartbeatResponse) { resp.ErrorCode = groupUnauthorized })
}

func authorizeLeaveGroup(b *Broker, r *protocol.Request) bool {
	if b.mayGroup(r, kmsg.ACLOperationRead, r.Body.(*kmsg.LeaveGroupRequest).Group) {
		return true
	}
	return refusal(r, func(resp *kmsg.LeaveGroupResponse) { resp.ErrorCode = groupUnauthorized })
}

func authorizeDescribeGroups(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.DescribeGroupsRequest)
	kept, refused := withhold(req.Groups, func(id *string) bool { return b.mayGroup(r, kmsg.ACLOperationDescribe, *id) })
	req.Groups = kept
	if len(refused) == 0 {
		return true
	}
	amend(r, func(resp *kmsg.DescribeGroupsResponse) {
		for _, id := range refused {
			g := kmsg.NewDescribeGroupsResponseGroup()
			g.Group, g.ErrorCode = id, groupUnauthorized
			resp.Groups = append(resp.Groups, g)
		}
	})
	return true
}

// authorizeListGroups shows all groups to those who may describe the cluster, to others the groups that they may
// describe.
func authorizeListGroups(b *Broker, r *protocol.Request) bool {
	if b.clusterAllows(r, kmsg.ACLOperationDescribe) {
		return true
	}
	amend(r, func(resp *kmsg.ListGroupsResponse) {
		resp.Groups = slices.DeleteFunc(resp.Groups, func(g kmsg.ListGroupsResponseGroup) bool {
			return !b.groupAllows(r, kmsg.ACLOperationDescribe, g.Group)
		})
	})
	return true
}

func authorizeDeleteGroups(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.DeleteGroupsRequest)
	kept, refused := withhold(req.Groups, func(id *string) bool { return b.mayGroup(r, kmsg.ACLOperationDelete, *id) })
	req.Groups = kept
	if len(refused) == 0 {
		return true
	}
	amend(r, func(resp *kmsg.DeleteGroupsResponse) {
		for _, id := range refused {
			g := kmsg.NewDeleteGroupsResponseGroup()
			g.Group, g.ErrorCode = id, groupUnauthorized
			resp.Groups = append(resp.Groups, g)
		}
	})
	return true
}

func authorizeOffsetDelete(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.OffsetDeleteRequest)
	if !b.mayGroup(r, kmsg.ACLOperationDelete, req.Group) {
		return refusal(r, func(resp *kmsg.OffsetDeleteResponse) { resp.ErrorCode = groupUnauthorized })
	}
	kept, refused := withhold(req.Topics, func(t *kmsg.OffsetDeleteRequestTopic) bool {
		return b.mayTopic(r, kmsg.ACLOperationRead, t.Topic)
	})
	req.Topics = kept
	if len(refused) == 0 {
		return true
	}
	amend(r, func(resp *kmsg.OffsetDeleteResponse) {
		if resp.ErrorCode != 0 {
			return
		}
		for _, t := range refused {
			rt := kmsg.NewOffsetDeleteResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition, ErrorCode: topicUnauthorized})
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
	return true
}

// authorizeOffsetCommit: by id, only a topic that exists can be unauthorized.
func authorizeOffsetCommit(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.OffsetCommitRequest)
	answer := func(topics []kmsg.OffsetCommitRequestTopic, code int16) (out []kmsg.OffsetCommitResponseTopic) {
		for _, t := range topics {
			rt := kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
			}
			out = append(out, rt)
		}
		return out
	}
	if !b.mayGroup(r, kmsg.ACLOperationRead, req.Group) {
		return refusal(r, func(resp *kmsg.OffsetCommitResponse) { resp.Topics = answer(req.Topics, groupUnauthorized) })
	}
	im := b.Image()
	kept, refused := withhold(req.Topics, func(t *kmsg.OffsetCommitRequestTopic) bool {
		if req.Version < 10 {
			return b.mayTopic(r, kmsg.ACLOperationRead, t.Topic)
		}
		known := im.TopicByID(t.TopicID)
		return known == nil || b.mayTopic(r, kmsg.ACLOperationRead, known.Name)
	})
	req.Topics = kept
	if len(refused) > 0 {
		amend(r, func(resp *kmsg.OffsetCommitResponse) {
			resp.Topics = append(resp.Topics, answer(refused, topicUnauthorized)...)
		})
	}
	return true
}

func authorizeConsumerHeartbeat(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.ConsumerGroupHeartbeatRequest)
	if !b.mayGroup(r, kmsg.ACLOperationRead, req.Group) {
		return refusal(r, func(resp *kmsg.ConsumerGroupHeartbeatResponse) {
			resp.ErrorCode = groupUnauthorized
		})
	}
	for _, name := range req.SubscribedTopicNames {
		if !b.mayTopic(r, kmsg.ACLOperationDescribe, name) {
			return refusal(r, func(resp *kmsg.ConsumerGroupHeartbeatResponse) {
				resp.ErrorCode = topicUnauthorized
			})
		}
	}
	return true
}

// authorizeConsumerDescribe hides a group with topics that the client may not describe.
func authorizeConsumerDescribe(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.ConsumerGroupDescribeRequest)
	kept, refused := withhold(req.Groups, func(id *string) bool { return b.mayGroup(r, kmsg.ACLOperationDescribe, *id) })
	req.Groups = kept
	if b.Authorizer == nil {
		return true
	}
	amend(r, func(resp *kmsg.ConsumerGroupDescribeResponse) {
		for i := range resp.Groups {
			if g := &resp.Groups[i]; !b.mayDescribeMembers(r, g) {
				hidden := kmsg.NewConsumerGroupDescribeResponseGroup()
				hidden.Group, hidden.ErrorCode = g.Group, topicUnauthorized
				hidden.ErrorMessage = kmsg.StringPtr("The group has described topic(s) that the client is not authorized to describe.")
				*g = hidden
			}
		}
		for _, id := range refused {
			g := kmsg.NewConsumerGroupDescribeResponseGroup()
			g.Group, g.ErrorCode = id, groupUnauthorized
			resp.Groups = append(resp.Groups, g)
		}
	})
	return true
}

func (b *Broker) mayDescribeMembers(r *protocol.Request, g *kmsg.ConsumerGroupDescribeResponseGroup) bool {
	for i := range g.Members {
		m := &g.Members[i]
		for _, list := range [][]kmsg.Assignment{{m.Assignment}, {m.TargetAssignment}} {
			for _, a := range list {
				for _, t := range a.TopicPartitions {
					if !b.mayTopic(r, kmsg.ACLOperationDescribe, t.Topic) {
						return false
					}
				}
			}
		}
	}
	return true
}
