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
	for _, t := range req.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = t.Topic
		for _, asked := range t.Partitions {
			topic.Partitions = append(topic.Partitions, n.quorumPartition(q, t.Topic, asked.Partition))
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

func (n *Node) quorumPartition(q raftlog.Quorum, topic string, index int32) kmsg.DescribeQuorumResponseTopicPartition {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.Partition = index
	if topic != LogID.Topic || index != LogID.Partition {
		p.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return p
	}
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = q.Leader.NodeID, q.Leader.Epoch, q.Commit
	nowMs := clock.Millis(n.o.Clock)
	for _, m := range q.Members {
		state := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		state.ReplicaID, state.LogEndOffset = m.NodeID, m.End
		if m.NodeID == n.o.NodeID { // of others Raft knows how far they are, not since when
			state.LastCaughtUpTimestamp = nowMs
		}
		if m.Voter {
			p.CurrentVoters = append(p.CurrentVoters, state)
		} else {
			p.Observers = append(p.Observers, state)
		}
	}
	return p
}
