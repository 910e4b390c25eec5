package handlers

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol"
)

// OffsetFetch serves versions 1–10: one group up to 7, several from 8 on; topics by id from 10 on.
func OffsetFetch(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.OffsetFetchRequest)
	if r.Version < 8 {
		b.fetchGroup(r, req.RequireStable, oneFetchGroup(req), func(g kmsg.OffsetFetchResponseGroup) { r.Respond(oneFetchResponse(req, g)) })
		return
	}
	all := newGather(len(req.Groups), func(groups []kmsg.OffsetFetchResponseGroup) {
		resp := kmsg.NewPtrOffsetFetchResponse()
		resp.Version, resp.Groups = r.Version, groups
		r.Respond(resp)
	})
	for i := range req.Groups {
		b.fetchGroup(r, req.RequireStable, req.Groups[i], func(g kmsg.OffsetFetchResponseGroup) { all.set(i, g) })
	}
}

// fetchGroup asks for the topics that the client may describe. The others are answered as unauthorized where they are
// named, and left out where all are asked for.
func (b *Broker) fetchGroup(r *protocol.Request, stable bool, g kmsg.OffsetFetchRequestGroup, answer func(kmsg.OffsetFetchResponseGroup)) {
	if !b.mayGroup(r, kmsg.ACLOperationDescribe, g.Group) {
		answer(kmsg.OffsetFetchResponseGroup{Group: g.Group, ErrorCode: groupUnauthorized})
		return
	}
	if b.Authorizer == nil {
		b.fetchAllowed(r.Version, stable, g, answer)
		return
	}
	im, all := b.Image(), g.Topics == nil
	name := func(topic string, id metadata.UUID) string {
		if known := im.TopicByID(id); known != nil {
			return known.Name
		}
		return topic
	}
	kept, refused := withhold(g.Topics, func(t *kmsg.OffsetFetchRequestGroupTopic) bool {
		n := name(t.Topic, t.TopicID)
		return r.Version >= 10 && n == "" || b.mayTopic(r, kmsg.ACLOperationDescribe, n) // an unknown id is told to be
	})
	if !all {
		g.Topics = kept
	}
	b.fetchAllowed(r.Version, stable, g, func(resp kmsg.OffsetFetchResponseGroup) {
		if all {
			resp.Topics = slices.DeleteFunc(resp.Topics, func(t kmsg.OffsetFetchResponseGroupTopic) bool {
				return !b.topicAllows(r, kmsg.ACLOperationDescribe, name(t.Topic, t.TopicID))
			})
		}
		for _, t := range refused {
			if resp.ErrorCode == 0 {
				resp.Topics = append(resp.Topics, failedFetchTopic(t, topicUnauthorized))
			}
		}
		answer(resp)
	})
}

// fetchAllowed resolves topic ids, both ways. Unknown ids get their error after the topics that are known.
func (b *Broker) fetchAllowed(version int16, stable bool, g kmsg.OffsetFetchRequestGroup, answer func(kmsg.OffsetFetchResponseGroup)) {
	if version < 10 {
		b.Groups.FetchOffsets(g, stable, answer)
		return
	}
	if g.Topics == nil {
		b.Groups.FetchOffsets(g, stable, func(resp kmsg.OffsetFetchResponseGroup) { answer(withTopicIDs(b.Image(), resp)) })
		return
	}
	im := b.Image()
	known := make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(g.Topics))
	var unknown []kmsg.OffsetFetchResponseGroupTopic
	for _, t := range g.Topics {
		if topic := im.TopicByID(t.TopicID); topic != nil {
			t.Topic = topic.Name
			known = append(known, t)
		} else {
			unknown = append(unknown, failedFetchTopic(t, kerr.UnknownTopicID.Code))
		}
	}
	g.Topics = known
	b.Groups.FetchOffsets(g, stable, func(resp kmsg.OffsetFetchResponseGroup) {
		if resp.ErrorCode == 0 {
			resp.Topics = append(resp.Topics, unknown...)
		}
		answer(resp)
	})
}

func failedFetchTopic(t kmsg.OffsetFetchRequestGroupTopic, code int16) kmsg.OffsetFetchResponseGroupTopic {
	out := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic, TopicID: t.TopicID}
	for _, p := range t.Partitions {
		out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{
			Partition: p, Offset: -1, LeaderEpoch: -1, Metadata: new(string), ErrorCode: code,
		})
	}
	return out
}

// withTopicIDs drops topics that are no more: they have no id to be named by.
func withTopicIDs(im *metadata.Image, g kmsg.OffsetFetchResponseGroup) kmsg.OffsetFetchResponseGroup {
	kept := g.Topics[:0]
	for _, t := range g.Topics {
		if topic := im.Topic(t.Topic); topic != nil {
			t.TopicID = topic.ID
			kept = append(kept, t)
		}
	}
	g.Topics = kept
	return g
}

// oneFetchGroup is a request up to version 7 in the form of the later ones.
func oneFetchGroup(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics == nil {
		return g
	}
	g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(req.Topics))
	for _, t := range req.Topics {
		g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	return g
}

// oneFetchResponse: an error of the group is each partition's in version 1, and the response's from 2 on.
func oneFetchResponse(req *kmsg.OffsetFetchRequest, g kmsg.OffsetFetchResponseGroup) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Version = req.Version
	if g.ErrorCode != 0 && req.Version >= 2 {
		resp.ErrorCode = g.ErrorCode
		return resp
	}
	if g.ErrorCode != 0 {
		resp.Topics = failedFetchTopics(req.Topics, g.ErrorCode)
		return resp
	}
	for _, t := range g.Topics {
		topic := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.OffsetFetchResponseTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
			})
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func failedFetchTopics(topics []kmsg.OffsetFetchRequestTopic, code int16) []kmsg.OffsetFetchResponseTopic {
	var out []kmsg.OffsetFetchResponseTopic
	for _, t := range topics {
		topic := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.OffsetFetchResponseTopicPartition{
				Partition: p, Offset: -1, LeaderEpoch: -1, Metadata: new(string), ErrorCode: code,
			})
		}
		out = append(out, topic)
	}
	return out
}
