package handlers

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol"
)

// Codes and texts of what a client may not touch; the texts are those of Kafka's Errors.
const (
	topicUnauthorized       = 29
	groupUnauthorized       = 30
	clusterUnauthorized     = 31
	transactionUnauthorized = 53

	topicUnauthorizedText   = "Topic authorization failed."
	groupUnauthorizedText   = "Group authorization failed."
	clusterUnauthorizedText = "Cluster authorization failed."

	transactionUnauthorizedText = "Transactional Id authorization failed."
)

func authorizeListOffsets(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.ListOffsetsRequest)
	kept, refused := withhold(req.Topics, func(t *kmsg.ListOffsetsRequestTopic) bool {
		return b.mayTopic(r, kmsg.ACLOperationDescribe, t.Topic)
	})
	req.Topics = kept
	if len(refused) == 0 {
		return true
	}
	amend(r, func(resp *kmsg.ListOffsetsResponse) {
		for _, t := range refused {
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, failedOffset(p.Partition, topicUnauthorized))
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
	return true
}

func authorizeDeleteRecords(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.DeleteRecordsRequest)
	kept, refused := withhold(req.Topics, func(t *kmsg.DeleteRecordsRequestTopic) bool {
		return b.mayTopic(r, kmsg.ACLOperationDelete, t.Topic)
	})
	req.Topics = kept
	if len(refused) == 0 {
		return true
	}
	amend(r, func(resp *kmsg.DeleteRecordsResponse) {
		for _, t := range refused {
			rt := kmsg.NewDeleteRecordsResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewDeleteRecordsResponseTopicPartition()
				rp.Partition, rp.LowWatermark, rp.ErrorCode = p.Partition, -1, topicUnauthorized
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
	return true
}

// authorizeEpochs: followers ask as nodes of the cluster, consumers as those who may describe the topic.
func authorizeEpochs(b *Broker, r *protocol.Request) bool {
	if b.clusterAllows(r, kmsg.ACLOperationClusterAction) {
		return true
	}
	req := r.Body.(*kmsg.OffsetForLeaderEpochRequest)
	kept, refused := withhold(req.Topics, func(t *kmsg.OffsetForLeaderEpochRequestTopic) bool {
		return b.mayTopic(r, kmsg.ACLOperationDescribe, t.Topic)
	})
	req.Topics = kept
	if len(refused) == 0 {
		return true
	}
	amend(r, func(resp *kmsg.OffsetForLeaderEpochResponse) {
		for _, t := range refused {
			rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				rp.Partition, rp.ErrorCode, rp.LeaderEpoch, rp.EndOffset = p.Partition, topicUnauthorized, -1, -1
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
	return true
}

func authorizeDescribeProducers(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.DescribeProducersRequest)
	kept, refused := withhold(req.Topics, func(t *kmsg.DescribeProducersRequestTopic) bool {
		return b.mayTopic(r, kmsg.ACLOperationRead, t.Topic)
	})
	req.Topics = kept
	if len(refused) == 0 {
		return true
	}
	amend(r, func(resp *kmsg.DescribeProducersResponse) {
		for _, t := range refused {
			rt := kmsg.NewDescribeProducersResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewDescribeProducersResponseTopicPartition()
				rp.Partition, rp.ErrorCode, rp.ErrorMessage = p, topicUnauthorized, kmsg.StringPtr(topicUnauthorizedText)
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
	return true
}

// authorizeCreateTopics: creating topics is allowed for the cluster or for the topic. What a created topic's settings
// are is told to those who may describe them.
func authorizeCreateTopics(b *Broker, r *protocol.Request) bool {
	if b.Authorizer == nil {
		return true
	}
	req := r.Body.(*kmsg.CreateTopicsRequest)
	kept, refused := req.Topics, []kmsg.CreateTopicsRequestTopic(nil)
	twice := repeated(req.Topics, func(t *kmsg.CreateTopicsRequestTopic) string { return t.Topic })
	if !b.clusterAllows(r, kmsg.ACLOperationCreate) {
		kept, refused = withhold(req.Topics, func(t *kmsg.CreateTopicsRequestTopic) bool {
			return twice[t.Topic] || t.Topic == metadataTopic || b.mayTopic(r, kmsg.ACLOperationCreate, t.Topic)
		})
	}
	req.Topics = kept
	amend(r, func(resp *kmsg.CreateTopicsResponse) {
		for i := range resp.Topics {
			if t := &resp.Topics[i]; t.ErrorCode == 0 && !b.topicAllows(r, kmsg.ACLOperationDescribeConfigs, t.Topic) {
				t.ConfigErrorCode, t.Configs, t.NumPartitions, t.ReplicationFactor = topicUnauthorized, []kmsg.CreateTopicsResponseTopicConfig{}, -1, -1
			}
		}
		for _, t := range refused {
			rt := kmsg.NewCreateTopicsResponseTopic()
			rt.Topic, rt.ErrorCode, rt.ErrorMessage = t.Topic, topicUnauthorized, kmsg.StringPtr("Authorization failed.")
			rt.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
			resp.Topics = append(resp.Topics, rt)
		}
	})
	return true
}

func authorizeCreatePartitions(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.CreatePartitionsRequest)
	twice := repeated(req.Topics, func(t *kmsg.CreatePartitionsRequestTopic) string { return t.Topic })
	kept, refused := withhold(req.Topics, func(t *kmsg.CreatePartitionsRequestTopic) bool {
		return twice[t.Topic] || b.mayTopic(r, kmsg.ACLOperationAlter, t.Topic)
	})
	req.Topics = kept
	if len(refused) == 0 {
		return true
	}
	amend(r, func(resp *kmsg.CreatePartitionsResponse) {
		for _, t := range refused {
			rt := kmsg.NewCreatePartitionsResponseTopic()
			rt.Topic, rt.ErrorCode = t.Topic, topicUnauthorized
			resp.Topics = append(resp.Topics, rt)
		}
	})
	return true
}

// authorizeDeleteTopics: a client that may not describe a topic does not learn whether it exists, nor its name by its
// id. The controller may know topics that this broker's image does not have yet: of those that are unknown here, only
// names that the client may delete go there.
func authorizeDeleteTopics(b *Broker, r *protocol.Request) bool {
	if b.clusterAllows(r, kmsg.ACLOperationDelete) {
		return true
	}
	req := r.Body.(*kmsg.DeleteTopicsRequest)
	im := b.Image()
	var refused []kmsg.DeleteTopicsResponseTopic
	answer := func(name *string, id metadata.UUID, code int16, text string) bool {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode, t.ErrorMessage = name, id, code, &text
		refused = append(refused, t)
		return false
	}
	unknown := func(name *string, id metadata.UUID, err *kerr.Error) bool {
		return answer(name, id, err.Code, err.Description)
	}
	refuse := func(name *string, id metadata.UUID) bool {
		return answer(name, id, topicUnauthorized, topicUnauthorizedText)
	}
	twice, twiceIDs := repeatedDeletions(req)
	named := func(name string) bool {
		known := im.Topic(name)
		switch {
		case twice[name]:
		case !b.mayTopic(r, kmsg.ACLOperationDescribe, name):
			return refuse(&name, metadata.UUID{})
		case known == nil && !b.topicAllows(r, kmsg.ACLOperationDelete, name):
			return unknown(&name, metadata.UUID{}, kerr.UnknownTopicOrPartition)
		case known != nil && !b.mayTopic(r, kmsg.ACLOperationDelete, name):
			return refuse(&name, metadata.UUID{})
		}
		return true
	}
	req.TopicNames, _ = withhold(req.TopicNames, func(name *string) bool { return named(*name) })
	req.Topics, _ = withhold(req.Topics, func(t *kmsg.DeleteTopicsRequestTopic) bool {
		switch none := t.TopicID == (metadata.UUID{}); {
		case (t.Topic == nil) == none: // neither a name nor an id, or both
			return true
		case t.Topic != nil:
			return named(*t.Topic)
		}
		known := im.TopicByID(t.TopicID)
		switch {
		case twiceIDs[t.TopicID]:
			return true
		case known == nil:
			return unknown(nil, t.TopicID, kerr.UnknownTopicID)
		case b.mayTopic(r, kmsg.ACLOperationDelete, known.Name):
			return true
		case b.mayTopic(r, kmsg.ACLOperationDescribe, known.Name):
			return refuse(&known.Name, t.TopicID)
		}
		return refuse(nil, t.TopicID)
	})
	if len(refused) > 0 {
		amend(r, func(resp *kmsg.DeleteTopicsResponse) { resp.Topics = append(resp.Topics, refused...) })
	}
	return true
}

// repeatedDeletions are the names and the ids that a request has more than once, as the controller counts them: an
// element with both counts for neither. It refuses what it finds repeated, and that alone needs no right.
func repeatedDeletions(req *kmsg.DeleteTopicsRequest) (byName map[string]bool, byID map[metadata.UUID]bool) {
	names, ids := slices.Clone(req.TopicNames), []metadata.UUID(nil)
	for _, t := range req.Topics {
		switch hasID := t.TopicID != (metadata.UUID{}); {
		case t.Topic != nil && !hasID:
			names = append(names, *t.Topic)
		case t.Topic == nil && hasID:
			ids = append(ids, t.TopicID)
		}
	}
	return repeated(names, func(name *string) string { return *name }), repeated(ids, func(id *metadata.UUID) metadata.UUID { return *id })
}
