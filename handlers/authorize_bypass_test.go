package handlers

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/metadata/acl"
	"grete/protocol"
)

// refuser is a controller that refuses deletions with neither or both of name and id. Others may not reach it.
type refuser struct{ t *testing.T }

func (c refuser) Do(_ context.Context, _ protocol.Principal, req kmsg.Request) (kmsg.Response, error) {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	for _, topic := range req.(*kmsg.DeleteTopicsRequest).Topics {
		if (topic.Topic == nil) != (topic.TopicID == metadata.UUID{}) {
			c.t.Errorf("%+v reached the controller", topic)
		}
		resp.Topics = append(resp.Topics, kmsg.DeleteTopicsResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID, ErrorCode: kerr.InvalidRequest.Code})
	}
	return resp, nil
}

// No form of DeleteTopics gets to the controller what the client may not delete: the controller may know a topic that
// the broker does not know yet, and takes an element with both name and id for none that is repeated.
func TestNothingIsDeletedWithoutRights(t *testing.T) {
	seen, gone, id := "seen", "gone", metadata.UUID{1: 9}
	for _, mayDescribe := range []bool{false, true} {
		r, _ := guarded(t, acl.Rules{})
		r.broker.Controller = refuser{t}
		known := r.createTopic("seen", 1)
		if mayDescribe {
			r.apply(allow(1, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, "seen"), allow(2, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, "gone"))
		}
		for what, topics := range map[string][]kmsg.DeleteTopicsRequestTopic{
			"names": {{Topic: &seen}, {Topic: &gone}}, "ids": {{TopicID: known}, {TopicID: id}},
			"a name beside the same with an id":          {{Topic: &seen, TopicID: id}, {Topic: &seen}},
			"an id beside the same with a name":          {{Topic: &gone, TopicID: known}, {TopicID: known}},
			"an unknown name beside the same with an id": {{Topic: &gone, TopicID: id}, {Topic: &gone}},
			"an unknown id beside the same with a name":  {{Topic: &gone, TopicID: id}, {TopicID: id}},
		} {
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.Topics = topics
			resp := call[*kmsg.DeleteTopicsResponse](r.dial(), 6, req)
			if len(resp.Topics) != len(topics) {
				t.Errorf("%s: %+v", what, resp.Topics)
			}
		}
	}
}

// The replicas know a topic before the image does: nobody reads or writes it by its id until it is known who may.
func TestTopicThatTheImageDoesNotKnowYet(t *testing.T) {
	r, _ := guarded(t, acl.Rules{})
	before := r.broker.Image()
	r.createTopic("t", 1)
	r.broker.Image = func() *metadata.Image { return before }
	produce := kmsg.NewPtrProduceRequest()
	produce.Acks = 1
	produce.Topics = []kmsg.ProduceRequestTopic{{TopicID: topicID("t"), Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records(t, plain, "v")}}}}
	if p := call[*kmsg.ProduceResponse](r.dial(), 13, produce).Topics[0].Partitions[0]; p.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("Produce: %+v", p)
	}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxBytes, fetch.SessionEpoch = 1000, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.PartitionMaxBytes = 1000
	fetch.Topics = []kmsg.FetchRequestTopic{{TopicID: topicID("t"), Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	if p := call[*kmsg.FetchResponse](r.dial(), 13, fetch).Topics[0].Partitions[0]; p.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("Fetch: %+v", p)
	}
}

// formed is a quorum that knows its cluster.
type formed struct{ Quorum }

func (formed) ClusterID() string { return "c" }

// Kafka's controllers tell which controllers there are to those alone that may alter the cluster.
func TestDescribeControllersWithoutRights(t *testing.T) {
	r, _ := guarded(t, acl.Rules{})
	r.broker.ForControllers, r.broker.Quorum = true, formed{}
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = controllerEndpoints
	if resp := call[*kmsg.DescribeClusterResponse](r.dial(), 2, req); resp.ErrorCode != clusterUnauthorized || resp.ClusterID != "" {
		t.Errorf("%+v", resp)
	}
	r.apply(allow(1, kmsg.ACLOperationAlter, kmsg.ACLResourceTypeCluster, acl.ClusterName))
	if resp := call[*kmsg.DescribeClusterResponse](r.dial(), 2, req); resp.ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
}
