package oracle

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Set-up steps go over a connection of their own and leave no step unless they fail.

const (
	setupTimeout = 20 * time.Second
	setupClient  = "setup" // client id
)

// topic is a topic of a scenario.
type topic struct {
	name string
	id   [16]byte
}

// setup sends a set-up request and fails the scenario if there is no response.
func (s *Session) setup(version int16, req kmsg.Request) kmsg.Response {
	if s.setupConn == nil {
		s.setupConn = dial(s, setupClient)
	}
	resp := s.setupConn.Send(version, req).Quiet()
	if resp == nil {
		panic(fmt.Sprintf("set-up: no answer to %s v%d", kmsg.NameForKey(req.Key()), version))
	}
	return resp
}

// Topic makes a topic with configs "name=value" and waits until each partition has its leader.
func (s *Session) Topic(name string, partitions int32, configs ...string) topic {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	t := newTopic(s.Name(name), partitions, 1)
	for _, kv := range configs {
		k, v, _ := strings.Cut(kv, "=")
		t.Configs = append(t.Configs, topicConfig(k, &v))
	}
	req.Topics = append(req.Topics, t)
	made := s.setup(7, req).(*kmsg.CreateTopicsResponse).Topics[0]
	if made.ErrorCode != 0 {
		panic(fmt.Sprintf("set-up: create topic %s: error %d", name, made.ErrorCode))
	}
	return s.adopt(name, made.TopicID, partitions)
}

// adopt gives a topic that exists its alias, and waits for its leaders.
func (s *Session) adopt(name string, id [16]byte, partitions int32) topic {
	t := topic{s.Name(name), id}
	s.ids["named"+string(id[:])] = "id of ~" + name
	for p := range partitions {
		s.await(func() bool { return s.logEnd(t, p) >= 0 }, "leader of "+name)
	}
	return t
}

func (s *Session) await(ok func() bool, what string) {
	for deadline := time.Now().Add(setupTimeout); !ok(); {
		if time.Now().After(deadline) {
			panic("set-up: waited in vain for " + what)
		}
		pause(5 * time.Millisecond)
	}
}

// propagate waits, leaving no step, until a broker shows what its controller has just answered: Kafka's does so a
// moment after the answer.
func propagate() { pause(400 * time.Millisecond) }

// logEnd is the partition's log end offset, or less than 0 on any error.
func (s *Session) logEnd(t topic, partition int32) int64 {
	resp := s.setup(4, listOffsets(t, partition, -1, 0)).(*kmsg.ListOffsetsResponse)
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return -1
	}
	return p.Offset
}

// Fill appends batches to a partition.
func (s *Session) Fill(t topic, partition int32, batches ...*batchSpec) {
	for _, b := range batches {
		resp := s.setup(9, produce(t, partition, -1, b.bytes())).(*kmsg.ProduceResponse)
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			panic(fmt.Sprintf("set-up: produce: error %d", code))
		}
	}
}

// ProducerID gets a new producer id, epoch 0.
func (s *Session) ProducerID() int64 {
	resp := s.setup(4, initProducerID(nil)).(*kmsg.InitProducerIDResponse)
	if resp.ErrorCode != 0 {
		panic(fmt.Sprintf("set-up: producer id: error %d", resp.ErrorCode))
	}
	return resp.ProducerID
}

// internalTopic is __consumer_offsets.
func (s *Session) internalTopic() topic {
	name := "__consumer_offsets"
	resp := s.setup(12, metadata(&name)).(*kmsg.MetadataResponse)
	id := resp.Topics[0].TopicID
	s.ids["named"+string(id[:])] = "id of " + name
	return topic{name, id}
}
