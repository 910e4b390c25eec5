package controller

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/clock"
)

// QuorumNode is where a controller listens, for DescribeQuorum.
type QuorumNode struct {
	ID       int32
	Listener metadata.Endpoint
}

// describeQuorum is KafkaRaftClient.handleDescribeQuorumRequest: it reads Raft's state, so that only the leader can answer it.
func (n *Node) describeQuorum(req *kmsg.DescribeQuorumRequest) (*kmsg.DescribeQuorumResponse, error) {
	q, err := n.raft.Quorum()
	if err != nil {
		return nil, err
	}
	if q.Leader.NodeID != n.o.NodeID {
		return nil, ErrNotController
	}
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	none := "" // Kafka's text without an error
	resp.ErrorMessage = &none
	known := asksForMetadataLog(req)
	for _, t := range req.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = t.Topic
		for _, asked := range t.Partitions {
			p := unknownQuorum(asked.Partition)
			if known {
				p = n.quorumPartition(q)
				p.ErrorMessage = &none
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	for _, known := range n.o.Quorum {
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = known.ID
		l := kmsg.NewDescribeQuorumResponseNodeListener()
		l.Name, l.Host, l.Port = known.Listener.Listener, known.Listener.Host, known.Listener.Port
		node.Listeners = append(node.Listeners, l)
		resp.Nodes = append(resp.Nodes, node)
	}
	return resp, nil
}

// asksForMetadataLog: for that and nothing else; Kafka knows the quorum in no other company.
func asksForMetadataLog(req *kmsg.DescribeQuorumRequest) bool {
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
		return false
	}
	return req.Topics[0].Topic == LogID.Topic && req.Topics[0].Partitions[0].Partition == LogID.Partition
}

func unknownQuorum(index int32) kmsg.DescribeQuorumResponseTopicPartition {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	f := refuse(kerr.UnknownTopicOrPartition, "This partition has no quorum, or was not asked for alone.")
	p.Partition = index
	p.ErrorCode, p.ErrorMessage = f.fields()
	return p
}

func (n *Node) quorumPartition(q raftlog.Quorum) kmsg.DescribeQuorumResponseTopicPartition {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.Partition = LogID.Partition
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = q.Leader.NodeID, q.Leader.Epoch, q.Commit
	nowMs := clock.Millis(n.o.Clock)
	for _, m := range q.Members {
		state := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		state.ReplicaID, state.LogEndOffset = m.NodeID, m.End
		if m.NodeID == n.o.NodeID { // of others Raft knows how far they are, not since when
			state.LastFetchTimestamp, state.LastCaughtUpTimestamp = nowMs, nowMs
		}
		if m.Voter {
			p.CurrentVoters = append(p.CurrentVoters, state)
		} else {
			p.Observers = append(p.Observers, state)
		}
	}
	return p
}
