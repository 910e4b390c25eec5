package replica

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchSession is a follower's side of an incremental fetch session (KIP-227): what the leader remembers.
type fetchSession struct {
	id    int32 // 0: there is none
	epoch int32 // of the next request
	sent  map[partitionKey]position
}

// lost makes the next request a full one, which also ends the session at the leader.
func (s *fetchSession) lost() { s.epoch = 0 }

// accepted notes a response without error. Without a session at the leader every request is a full one.
func (s *fetchSession) accepted(id int32) {
	s.id = id
	switch {
	case id == 0:
		s.epoch = 0
	case s.epoch == math.MaxInt32:
		s.epoch = 1
	default:
		s.epoch++
	}
}

// request asks for wanted: in a session for what differs from what the leader remembers.
func (s *fetchSession) request(o Options, wanted map[partitionKey]position) *kmsg.FetchRequest {
	set := o.Replication.Fetch
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = o.NodeID
	req.ReplicaState.ID, req.ReplicaState.Epoch = o.NodeID, o.Replication.BrokerEpoch()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = set.WaitMaxMs, set.MinBytes, set.ResponseMaxBytes
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	if s.epoch == 0 {
		s.sent = map[partitionKey]position{}
	}
	places := topicPlaces{}
	for key, at := range wanted {
		if s.sent[key] == at && s.epoch != 0 {
			continue
		}
		t := places.in(&req.Topics, key)
		t.Partitions = append(t.Partitions, targetOf(key, at, set.MaxBytes))
		s.sent[key] = at
	}
	s.forget(req, wanted)
	return req
}

// forget takes out of the session what is not wanted now.
func (s *fetchSession) forget(req *kmsg.FetchRequest, wanted map[partitionKey]position) {
	for key := range s.sent {
		if _, keep := wanted[key]; keep {
			continue
		}
		delete(s.sent, key)
		t := kmsg.NewFetchRequestForgottenTopic()
		t.TopicID, t.Partitions = key.id, []int32{key.index}
		req.ForgottenTopics = append(req.ForgottenTopics, t)
	}
}

func targetOf(key partitionKey, at position, maxBytes int32) kmsg.FetchRequestTopicPartition {
	t := kmsg.NewFetchRequestTopicPartition()
	t.Partition, t.PartitionMaxBytes = key.index, maxBytes
	t.CurrentLeaderEpoch, t.FetchOffset, t.LastFetchedEpoch, t.LogStartOffset = at.leaderEpoch, at.offset, at.lastEpoch, at.logStart
	return t
}

// topicPlaces finds a topic's place in a request.
type topicPlaces map[[16]byte]int

func (x topicPlaces) in(topics *[]kmsg.FetchRequestTopic, key partitionKey) *kmsg.FetchRequestTopic {
	i, ok := x[key.id]
	if !ok {
		i = len(*topics)
		x[key.id] = i
		t := kmsg.NewFetchRequestTopic()
		t.TopicID = key.id
		*topics = append(*topics, t)
	}
	return &(*topics)[i]
}
