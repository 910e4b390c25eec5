package handlers

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol"
)

// Metadata describes the brokers and topics, creating topics where the request and the broker allow it.
func Metadata(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.MetadataRequest)
	m := &metadataAnswer{b: b, r: r, im: b.Image(), req: req, version: r.Version, listener: r.Conn.Listener}
	m.resp = req.ResponseKind().(*kmsg.MetadataResponse)
	if code := m.malformed(); code != 0 {
		m.refuse(code)
		r.Respond(m.resp)
		return
	}
	missing := m.topics()
	m.brokers()
	allowed := req.AllowAutoTopicCreation || r.Version < 4 // before, nobody could forbid it
	if len(missing) > 0 && allowed && b.config().Bool("auto.create.topics.enable") {
		if missing = m.creatable(missing); len(missing) > 0 {
			b.createMissing(ctx, r, missing)
		}
	}
	m.resp.Topics = append(m.resp.Topics, m.denied...)
	r.Respond(m.resp)
}

type metadataAnswer struct {
	b        *Broker
	r        *protocol.Request
	im       *metadata.Image
	req      *kmsg.MetadataRequest
	resp     *kmsg.MetadataResponse
	version  int16
	listener string
	denied   []kmsg.MetadataResponseTopic // that the client may not describe, or not create; they come last
}

// malformed: a topic without a name before v12, which first has ids, or without either from then on.
func (m *metadataAnswer) malformed() int16 {
	for _, t := range m.req.Topics {
		switch {
		case m.version == 10 || m.version == 11:
			if t.Topic == nil || t.TopicID != (metadata.UUID{}) {
				return kerr.InvalidRequest.Code
			}
		case m.version >= 12 && t.Topic == nil && t.TopicID == (metadata.UUID{}):
			return kerr.UnknownServerError.Code
		}
	}
	return 0
}

// refuse answers every topic of the request with code, and nothing else: no brokers, no cluster id.
func (m *metadataAnswer) refuse(code int16) {
	m.resp.ControllerID, m.resp.ErrorCode = noLeader, code
	for _, t := range m.req.Topics {
		topic := newMetadataTopic(t.Topic, code)
		topic.TopicID = t.TopicID
		if topic.Topic == nil {
			topic.Topic = kmsg.StringPtr("")
		}
		m.resp.Topics = append(m.resp.Topics, topic)
	}
}

func newMetadataTopic(name *string, code int16) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.ErrorCode = name, code
	return t
}

func (m *metadataAnswer) brokers() {
	for _, n := range nodes(m.im, m.listener, false) {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = n.id, n.host, n.port, n.rack
		m.resp.Brokers = append(m.resp.Brokers, broker)
	}
	m.resp.ClusterID = &m.b.ClusterID
	m.resp.ControllerID = controllerID(m.im)
	if m.req.IncludeClusterAuthorizedOperations {
		m.resp.AuthorizedOperations = m.b.clusterPermissions(m.r)
	}
}

// deny answers a topic as unauthorized. By name its id is not told; an id is no secret.
func (m *metadataAnswer) deny(name *string, id metadata.UUID) {
	t := newMetadataTopic(name, topicUnauthorized)
	t.TopicID = id
	m.denied = append(m.denied, t)
}

// creatable returns the missing topics that the client may create; the others are answered as unauthorized.
func (m *metadataAnswer) creatable(missing []string) []string {
	if m.b.clusterAllows(m.r, kmsg.ACLOperationCreate) {
		return missing
	}
	kept, refused := withhold(missing, func(name *string) bool { return m.b.mayTopic(m.r, kmsg.ACLOperationCreate, *name) })
	gone := map[string]bool{}
	for _, name := range refused {
		gone[name] = true
		m.deny(&name, metadata.UUID{})
		m.denied[len(m.denied)-1].IsInternal = isInternal(name)
	}
	m.resp.Topics = slices.DeleteFunc(m.resp.Topics, func(t kmsg.MetadataResponseTopic) bool { return t.Topic != nil && gone[*t.Topic] })
	return kept
}

// topics answers the topics asked for and returns the names, valid ones, that do not exist. Ids, where there are any,
// make names count for nothing; a topic named twice is answered once.
func (m *metadataAnswer) topics() (missing []string) {
	if m.wantsAll() {
		for t := range m.im.Topics() {
			if m.b.topicAllows(m.r, kmsg.ACLOperationDescribe, t.Name) {
				m.add(m.describe(t))
			}
		}
		return nil
	}
	if slices.ContainsFunc(m.req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != metadata.UUID{} }) {
		m.topicsByID()
		return nil
	}
	return m.topicsByName()
}

// wantsAll: null asks for all topics, and in version 0, which has no null, an empty list does.
func (m *metadataAnswer) wantsAll() bool {
	return m.req.Topics == nil || m.version == 0 && len(m.req.Topics) == 0
}

func (m *metadataAnswer) topicsByID() {
	seen := map[metadata.UUID]bool{{}: true}
	for _, asked := range m.req.Topics {
		if seen[asked.TopicID] {
			continue
		}
		seen[asked.TopicID] = true
		if t := m.im.TopicByID(asked.TopicID); t != nil {
			if m.b.mayTopic(m.r, kmsg.ACLOperationDescribe, t.Name) {
				m.add(m.describe(t))
			} else {
				m.deny(nil, t.ID)
			}
			continue
		}
		unknown := newMetadataTopic(nil, kerr.UnknownTopicID.Code)
		unknown.TopicID = asked.TopicID
		m.resp.Topics = append(m.resp.Topics, unknown)
	}
}

func (m *metadataAnswer) topicsByName() (missing []string) {
	seen := map[string]bool{}
	var failed []kmsg.MetadataResponseTopic
	for _, asked := range m.req.Topics {
		name := ""
		if asked.Topic != nil {
			name = *asked.Topic
		}
		if seen[name] {
			continue
		}
		seen[name] = true
		if !m.b.mayTopic(m.r, kmsg.ACLOperationDescribe, name) {
			m.deny(&name, metadata.UUID{})
			continue
		}
		if t := m.im.Topic(name); t != nil {
			m.add(m.describe(t))
			continue
		}
		code := kerr.UnknownTopicOrPartition.Code
		if checkTopicName(name) != "" {
			code = kerr.InvalidTopicException.Code
		} else {
			missing = append(missing, name)
		}
		absent := newMetadataTopic(&name, code)
		absent.IsInternal = isInternal(name)
		failed = append(failed, absent)
	}
	for _, t := range failed {
		m.add(t)
	}
	return missing
}

// add answers a topic, with what may be done to it where that was asked for.
func (m *metadataAnswer) add(t kmsg.MetadataResponseTopic) {
	if m.req.IncludeTopicAuthorizedOperations {
		t.AuthorizedOperations = m.b.topicPermissions(m.r, *t.Topic)
	}
	m.resp.Topics = append(m.resp.Topics, t)
}

func (m *metadataAnswer) describe(t *metadata.Topic) kmsg.MetadataResponseTopic {
	topic := newMetadataTopic(&t.Name, 0)
	topic.TopicID, topic.IsInternal = t.ID, isInternal(t.Name)
	topic.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		topic.Partitions[i] = m.describePartition(int32(i), &t.Partitions[i])
	}
	return topic
}

func (m *metadataAnswer) describePartition(index int32, p *metadata.Partition) kmsg.MetadataResponseTopicPartition {
	out := kmsg.NewMetadataResponseTopicPartition()
	v := viewPartition(m.im, p, m.listener)
	out.Partition, out.Leader, out.LeaderEpoch = index, v.leader, p.LeaderEpoch
	out.Replicas, out.ISR, out.OfflineReplicas = p.Replicas, p.ISR, v.offline
	switch {
	case v.leader == noLeader && v.hasNode && m.version >= 6:
		out.ErrorCode = kerr.ListenerNotFound.Code
	case v.leader == noLeader:
		out.ErrorCode = kerr.LeaderNotAvailable.Code
	case v.degraded && m.version == 0: // later versions leave the broker out of the list instead
		out.ErrorCode = kerr.ReplicaNotAvailable.Code
	}
	return out
}
