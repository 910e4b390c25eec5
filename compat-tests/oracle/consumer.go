package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumer is a member of a consumer group (KIP-848) as a client keeps it, on a connection of its own.
type consumer struct {
	s        *Session
	c        *Conn
	version  int16 // of ConsumerGroupHeartbeat
	group    string
	id       string
	epoch    int32
	instance *string
	topics   []string
	regex    *string
	assignor *string
	rack     *string
	timeout  int32
	owned    []kmsg.ConsumerGroupHeartbeatRequestTopic
}

// consumer makes a member named name, which is its id. The first one of a scenario comes when its topics are known.
func (s *Session) consumer(v int16, name string, topics ...topic) *consumer {
	if len(s.conns) == 0 {
		learn()
	}
	m := &consumer{s: s, c: s.Conn(), version: v, group: s.Name("g"), id: s.Name(name), timeout: 30_000, topics: []string{}}
	for _, t := range topics {
		m.topics = append(m.topics, t.name)
	}
	return m
}

// fullRequest says everything about the member.
func (m *consumer) fullRequest() *kmsg.ConsumerGroupHeartbeatRequest {
	req := m.heartbeatRequest()
	req.RackID, req.RebalanceTimeoutMillis, req.ServerAssignor = m.rack, m.timeout, m.assignor
	req.SubscribedTopicNames, req.SubscribedTopicRegex = m.topics, m.regex
	req.Topics = append([]kmsg.ConsumerGroupHeartbeatRequestTopic{}, m.owned...)
	return req
}

// heartbeatRequest says that nothing has changed.
func (m *consumer) heartbeatRequest() *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = m.group, m.id, m.epoch, m.instance
	return req
}

// send sends a heartbeat and follows its answer as a client does.
func (m *consumer) send(note string, req *kmsg.ConsumerGroupHeartbeatRequest) {
	resp := m.c.Send(m.version, req).Note(note).Wait().(*kmsg.ConsumerGroupHeartbeatResponse)
	m.took(resp)
}

func (m *consumer) took(resp *kmsg.ConsumerGroupHeartbeatResponse) {
	if resp.ErrorCode != 0 {
		return
	}
	m.epoch = resp.MemberEpoch
	if resp.Assignment != nil {
		m.owned = nil
		for _, t := range resp.Assignment.Topics {
			own := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			own.TopicID, own.Partitions = t.TopicID, t.Partitions
			m.owned = append(m.owned, own)
		}
	}
}

func (m *consumer) join(note string) {
	m.epoch, m.owned = 0, nil
	m.send(note, m.fullRequest())
}

func (m *consumer) heartbeat(note string) { m.send(note, m.heartbeatRequest()) }

// confirm says what the member owns: that it has done what the last answer asked for.
func (m *consumer) confirm(note string) {
	req := m.heartbeatRequest()
	req.Topics = append([]kmsg.ConsumerGroupHeartbeatRequestTopic{}, m.owned...)
	m.send(note, req)
}

func (m *consumer) leave(note string) {
	req := m.heartbeatRequest()
	req.MemberEpoch = -1
	m.c.Send(m.version, req).Note(note).Wait()
}

// settleDown exchanges heartbeats of several members, unrecorded, until every one has seen nothing new for a round.
func settleDown(members ...*consumer) {
	for round := 0; round < 40; round++ {
		quiet := true
		for _, m := range members {
			before := fmt.Sprint(m.epoch, m.owned)
			req := m.heartbeatRequest()
			req.Topics = append([]kmsg.ConsumerGroupHeartbeatRequestTopic{}, m.owned...)
			m.took(m.s.setup(m.version, req).(*kmsg.ConsumerGroupHeartbeatResponse))
			quiet = quiet && before == fmt.Sprint(m.epoch, m.owned)
		}
		if quiet && round > 0 {
			return
		}
	}
	panic("the group does not settle")
}

func (m *consumer) describe(note string) { m.s.describeConsumers(m.c, m.version, note, m.group) }

func (s *Session) describeConsumers(c *Conn, v int16, note string, groups ...string) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = groups
	call := c.Send(v, req).Note(note)
	call.filter = sortedSubscriptions
	call.Wait()
}

// sortedSubscriptions sorts lists of subscribed topics, which Kafka takes from hash sets.
func sortedSubscriptions(tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		for name, field := range v {
			if list, ok := field.([]any); ok && name == "SubscribedTopics" {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(show(a), show(b)) })
			}
			sortedSubscriptions(field)
		}
	case []any:
		for _, item := range v {
			sortedSubscriptions(item)
		}
	}
	return tree
}

// atOnce lets the group be assigned anew with every change, not once a second.
func (s *Session) atOnce() {
	s.setGroupConfig("consumer.assignment.interval.ms", "0")
}

func (s *Session) setGroupConfig(name, value string) {
	req := incremental(resourceGroup, s.Name("g"), configOp{name, opSet, &value})
	if code := s.setup(1, req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode; code != 0 {
		panic(fmt.Sprintf("set-up: group config: error %d", code))
	}
	s.await(func() bool {
		resp := s.setup(4, describeConfigs(resourceGroup, s.Name("g"), name)).(*kmsg.DescribeConfigsResponse)
		shown := resp.Resources[0].Configs[0].Value
		return shown != nil && *shown == value
	}, name)
	learn()
}

// learn waits until a group coordinator knows what the cluster's metadata say: Kafka's does so some time after the
// broker's own answers show it.
func learn() { pause(1500 * time.Millisecond) }

// classicConsumer is a member of the classic protocol that subscribes to topics as consumers do, and owns what it says.
func (s *Session) classicConsumer(v int16, topics ...topic) *member {
	m := s.member(v)
	meta := kmsg.NewConsumerMemberMetadata()
	for _, t := range topics {
		meta.Topics = append(meta.Topics, t.name)
	}
	m.raw = meta.AppendTo(nil)
	return m
}

// consumerAssignment is what a classic leader assigns.
func consumerAssignment(t topic, partitions ...int32) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	a.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: t.name, Partitions: partitions}}
	return a.AppendTo(nil)
}
