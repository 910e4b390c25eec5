package handlers

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// groupOperations is everything that can be done to a group.
var groupOperations = operations(kmsg.ACLOperationRead, kmsg.ACLOperationDelete, kmsg.ACLOperationDescribe,
	kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs)

// DescribeGroups serves versions 0–6.
func DescribeGroups(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DescribeGroupsRequest)
	all := newGather(len(req.Groups), func(groups []kmsg.DescribeGroupsResponseGroup) {
		resp := kmsg.NewPtrDescribeGroupsResponse()
		resp.Version, resp.Groups = r.Version, groups
		r.Respond(resp)
	})
	for i, id := range req.Groups {
		b.Groups.DescribeGroup(id, r.Version, func(g kmsg.DescribeGroupsResponseGroup) {
			if r.Version >= 3 && req.IncludeAuthorizedOperations && g.ErrorCode == 0 {
				g.AuthorizedOperations = b.groupPermissions(r, id)
			}
			all.set(i, g)
		})
	}
}

// ListGroups serves versions 0–5: states can be asked for from 4 on, types from 5.
func ListGroups(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.ListGroupsRequest)
	b.Groups.ListGroups(req.StatesFilter, req.TypesFilter, func(code int16, groups []kmsg.ListGroupsResponseGroup) {
		resp := kmsg.NewPtrListGroupsResponse()
		resp.Version, resp.ErrorCode, resp.Groups = r.Version, code, groups
		r.Respond(resp)
	})
}

// DeleteGroups serves versions 0–3. A group named twice is deleted, and answered, once.
func DeleteGroups(b *Broker, _ context.Context, r *protocol.Request) {
	var ids lookup[string]
	for _, id := range r.Body.(*kmsg.DeleteGroupsRequest).Groups {
		ids.add(id)
	}
	all := newGather(len(ids.keys), func(groups []kmsg.DeleteGroupsResponseGroup) {
		resp := kmsg.NewPtrDeleteGroupsResponse()
		resp.Version, resp.Groups = r.Version, groups
		r.Respond(resp)
	})
	for i, id := range ids.keys {
		b.Groups.DeleteGroup(id, func(code int16) {
			g := kmsg.NewDeleteGroupsResponseGroup()
			g.Group, g.ErrorCode = id, code
			all.set(i, g)
		})
	}
}

// OffsetDelete serves version 0. Partitions that do not exist come first in their topic's answer, as in Kafka's.
func OffsetDelete(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.OffsetDeleteRequest)
	im := b.Image()
	var valid []kmsg.OffsetDeleteRequestTopic
	var answers []kmsg.OffsetDeleteResponseTopic
	for _, t := range req.Topics {
		known := im.Topic(t.Topic)
		ok := kmsg.OffsetDeleteRequestTopic{Topic: t.Topic}
		bad := kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			if has(known, p.Partition) {
				ok.Partitions = append(ok.Partitions, p)
				continue
			}
			bad.Partitions = append(bad.Partitions, kmsg.OffsetDeleteResponseTopicPartition{
				Partition: p.Partition, ErrorCode: kerr.UnknownTopicOrPartition.Code,
			})
		}
		if len(ok.Partitions) > 0 {
			valid = append(valid, ok)
		}
		if len(bad.Partitions) > 0 {
			answers = append(answers, bad)
		}
	}
	b.Groups.DeleteOffsets(req.Group, valid, func(code int16, topics []kmsg.OffsetDeleteResponseTopic) {
		resp := kmsg.NewPtrOffsetDeleteResponse()
		resp.Version, resp.ErrorCode = r.Version, code
		if code == 0 {
			resp.Topics = mergeOffsetDeletes(answers, topics)
		}
		r.Respond(resp)
	})
}

func mergeOffsetDeletes(into, topics []kmsg.OffsetDeleteResponseTopic) []kmsg.OffsetDeleteResponseTopic {
	places := map[string]int{}
	for i := range slices.Backward(into) { // of those that are there twice, the first
		places[into[i].Topic] = i
	}
	for _, t := range topics {
		i, there := places[t.Topic]
		if !there {
			places[t.Topic] = len(into)
			into = append(into, t)
			continue
		}
		into[i].Partitions = append(into[i].Partitions, t.Partitions...)
	}
	return into
}
