package node

import (
	"slices"

	"grete/cluster/metadata"
	"grete/internal/metrics"
)

// controllerState is the cluster as this node's metadata has it (Kafka's ControllerMetadataMetrics).
func (n *Node) controllerState() metrics.ControllerState {
	im := n.controller.Image()
	s := metrics.ControllerState{Topics: im.TopicCount(), Partitions: im.PartitionCount(), LastAppliedOffset: im.Offset()}
	if im.ControllerID() == n.o.Config.NodeID {
		s.ActiveControllers = 1
	}
	alone := n.controller.Leader().NodeID < 0 // no controller counts on any broker, and the image ages
	for t := range im.Topics() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if p.Leader < 0 || alone && p.Leader != n.o.Config.NodeID {
				s.OfflinePartitions++
			}
			if p.Leader != p.Replicas[0] {
				s.ImbalancedPartitions++
			}
		}
	}
	for b := range im.Brokers() {
		switch {
		case b.Fenced:
			s.FencedBrokers++
		case b.InControlledShutdown:
			s.ShuttingDownBrokers++
			fallthrough
		default:
			s.ActiveBrokers++
		}
	}
	if alone {
		s.ActiveBrokers = 0
	}
	return s
}

// countElections takes note of the elections between two images that were not from an ISR, and of a new controller.
func (n *Node) countElections(old, im *metadata.Image, delta metadata.Delta) {
	to := n.metrics.Controller
	if id := im.ControllerID(); id >= 0 && id != old.ControllerID() {
		to.NewControllers.Add(1)
	}
	for _, name := range delta.Topics {
		was, is := old.Topic(name), im.Topic(name)
		if was == nil || is == nil || was.ID != is.ID {
			continue
		}
		for i := range was.Partitions {
			switch p, q := &was.Partitions[i], &is.Partitions[i]; {
			case q.Leader < 0 || q.LeaderEpoch == p.LeaderEpoch || slices.Contains(p.ISR, q.Leader):
			case slices.Contains(p.ELR, q.Leader):
				to.ELRElections.Add(1)
			case q.LeaderRecoveryState == 1:
				to.UncleanElections.Add(1)
			}
		}
	}
}
