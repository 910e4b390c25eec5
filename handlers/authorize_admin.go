package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// mayConfig returns why the client may not do op, ALTER_CONFIGS or DESCRIBE_CONFIGS, on a resource; nil when it may.
func (b *Broker) mayConfig(r *protocol.Request, op kmsg.ACLOperation, t kmsg.ConfigResourceType, name string) *apiError {
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		if !b.mayTopic(r, op, name) {
			return &apiError{topicUnauthorized, topicUnauthorizedText}
		}
	case kmsg.ConfigResourceTypeGroupConfig:
		if !b.mayGroup(r, op, name) {
			return &apiError{groupUnauthorized, groupUnauthorizedText}
		}
	default:
		if !b.mayCluster(r, op) {
			return &apiError{clusterUnauthorized, clusterUnauthorizedText}
		}
	}
	return nil
}

func authorizeDescribeConfigs(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.DescribeConfigsRequest)
	if b.Authorizer == nil || unknownResource(req) != nil {
		return true
	}
	var refused []kmsg.DescribeConfigsResponseResource
	req.Resources, _ = withhold(req.Resources, func(res *kmsg.DescribeConfigsRequestResource) bool {
		err := b.mayConfig(r, kmsg.ACLOperationDescribeConfigs, res.ResourceType, res.ResourceName)
		if err != nil {
			out := kmsg.NewDescribeConfigsResponseResource()
			out.ResourceType, out.ResourceName = res.ResourceType, res.ResourceName
			out.ErrorCode, out.ErrorMessage = err.Code, &err.Message
			refused = append(refused, out)
		}
		return err == nil
	})
	if len(refused) > 0 {
		amend(r, func(resp *kmsg.DescribeConfigsResponse) { resp.Resources = append(resp.Resources, refused...) })
	}
	return true
}

func authorizeAlterLogDirs(b *Broker, r *protocol.Request) bool {
	if b.mayCluster(r, kmsg.ACLOperationAlter) {
		return true
	}
	req := r.Body.(*kmsg.AlterReplicaLogDirsRequest)
	return refusal(r, func(resp *kmsg.AlterReplicaLogDirsResponse) {
		for _, dir := range req.Dirs {
			for _, t := range dir.Topics {
				rt := kmsg.NewAlterReplicaLogDirsResponseTopic()
				rt.Topic = t.Topic
				for _, p := range t.Partitions {
					rt.Partitions = append(rt.Partitions, kmsg.AlterReplicaLogDirsResponseTopicPartition{Partition: p, ErrorCode: clusterUnauthorized})
				}
				resp.Topics = append(resp.Topics, rt)
			}
		}
	})
}

// authorizeDescribeControllers: unlike on brokers, where everybody may ask, Kafka's controllers want ALTER.
func authorizeDescribeControllers(b *Broker, r *protocol.Request) bool {
	if b.mayCluster(r, kmsg.ACLOperationAlter) {
		return true
	}
	return refusal(r, func(resp *kmsg.DescribeClusterResponse) {
		resp.ErrorCode, resp.ErrorMessage = clusterUnauthorized, kmsg.StringPtr(clusterUnauthorizedText)
	})
}

func authorizeDescribeLogDirs(b *Broker, r *protocol.Request) bool {
	if b.mayCluster(r, kmsg.ACLOperationDescribe) {
		return true
	}
	return refusal(r, func(resp *kmsg.DescribeLogDirsResponse) { resp.ErrorCode = clusterUnauthorized })
}

func authorizeListConfigResources(b *Broker, r *protocol.Request) bool {
	if b.mayCluster(r, kmsg.ACLOperationDescribeConfigs) {
		return true
	}
	return refusal(r, func(resp *kmsg.ListConfigResourcesResponse) { resp.ErrorCode = clusterUnauthorized })
}

// authorizeDescribeScram: who may describe the cluster may see who can log in, and how.
func authorizeDescribeScram(b *Broker, r *protocol.Request) bool {
	if b.mayCluster(r, kmsg.ACLOperationDescribe) {
		return true
	}
	req := r.Body.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	return refusal(r, func(resp *kmsg.DescribeUserSCRAMCredentialsResponse) {
		resp.ErrorCode = clusterUnauthorized
		for range req.Users {
			result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
			result.ErrorCode = clusterUnauthorized
			resp.Results = append(resp.Results, result)
		}
	})
}
