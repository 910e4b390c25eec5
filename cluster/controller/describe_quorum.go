package controller

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/raftlog"
	"grete/internal/clock"
)

// observerSessionMs is how long a silent learner is still shown (LeaderState.OBSERVER_SESSION_TIMEOUT_MS). Kafka 4.4
// shows a broker that was stopped and unregistered as an observer 285 s later, and not 320 s later: the quorum does not
// know of registrations.
const observerSessionMs = 300_000

// describeQuorum is KafkaRaftClient.handleDescribeQuorumRequest: it reads Raft's state, so that only the leader can
// answer it.
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
	for _, m := range q.Members {
		if m.Voter && known {
			resp.Nodes = append(resp.Nodes, quorumNode(m.Member))
		}
	}
	return resp, nil
}

func quorumNode(m raftlog.Member) kmsg.DescribeQuorumResponseNode {
	node := kmsg.NewDescribeQuorumResponseNode()
	node.NodeID = m.NodeID
	for _, known := range m.Listeners {
		l := kmsg.NewDescribeQuorumResponseNodeListener()
		l.Name, l.Host, l.Port = known.Listener, known.Host, known.Port
		node.Listeners = append(node.Listeners, l)
	}
	return node
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
		state.ReplicaID, state.ReplicaDirectoryID, state.LogEndOffset = m.NodeID, m.DirectoryID, m.End
		state.LastFetchTimestamp, state.LastCaughtUpTimestamp = m.HeardMs, m.CaughtUpMs
		switch {
		case m.Voter:
			p.CurrentVoters = append(p.CurrentVoters, state)
		case nowMs-max(m.HeardMs, q.SinceMs) < observerSessionMs:
			p.Observers = append(p.Observers, state)
		}
	}
	return p
}
