package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol"
)

// OffsetFetch serves versions 1–10: one group up to 7, several from 8 on; topics by id from 10 on.
func OffsetFetch(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.OffsetFetchRequest)
	if r.Version < 8 {
		b.Groups.FetchOffsets(oneFetchGroup(req), req.RequireStable, func(g kmsg.OffsetFetchResponseGroup) { r.Respond(oneFetchResponse(req, g)) })
		return
	}
	all := newGather(len(req.Groups), func(groups []kmsg.OffsetFetchResponseGroup) {
		resp := kmsg.NewPtrOffsetFetchResponse()
		resp.Version, resp.Groups = r.Version, groups
		r.Respond(resp)
	})
	for i := range req.Groups {
		b.fetchGroup(r.Version, req.RequireStable, req.Groups[i], func(g kmsg.OffsetFetchResponseGroup) { all.set(i, g) })
	}
}

// fetchGroup resolves topic ids, both ways. Unknown ids get their error after the topics that are known.
func (b *Broker) fetchGroup(version int16, stable bool, g kmsg.OffsetFetchRequestGroup, answer func(kmsg.OffsetFetchResponseGroup)) {
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
			unknown = append(unknown, unknownFetchTopic(t))
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

func unknownFetchTopic(t kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroupTopic {
	out := kmsg.OffsetFetchResponseGroupTopic{TopicID: t.TopicID}
	for _, p := range t.Partitions {
		out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{
			Partition: p, Offset: -1, LeaderEpoch: -1, Metadata: new(string), ErrorCode: kerr.UnknownTopicID.Code,
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
