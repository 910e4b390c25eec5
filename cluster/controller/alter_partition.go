package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// alterPartition is ReplicationControlManager.alterPartition: a leader changes the in-sync replicas of what it leads.
func (v *view) alterPartition(req *kmsg.AlterPartitionRequest) ([]metadata.Record, *kmsg.AlterPartitionResponse) {
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	if v.currentBroker(req.BrokerID, req.BrokerEpoch) == nil {
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return nil, resp
	}
	var records []metadata.Record
	for _, t := range req.Topics {
		answered := kmsg.NewAlterPartitionResponseTopic()
		answered.Topic, answered.TopidID = t.Topic, t.TopicID
		topic, unknown := v.topicOf(req.Version, t)
		for _, p := range t.Partitions {
			normalizeISR(req.Version, &p)
			code := unknown
			if code == nil {
				code = v.checkNewISR(req, topic, p)
			}
			if code != nil {
				answered.Partitions = append(answered.Partitions, refusedISR(p.Partition, code))
				continue
			}
			record, result := v.changeISR(req, topic, p)
			if record != nil {
				records = append(records, record)
			}
			answered.Partitions = append(answered.Partitions, result)
		}
		resp.Topics = append(resp.Topics, answered)
	}
	return records, resp
}

func (v *view) topicOf(version int16, t kmsg.AlterPartitionRequestTopic) (*metadata.Topic, *kerr.Error) {
	if version < 2 {
		if topic := v.image.Topic(t.Topic); topic != nil {
			return topic, nil
		}
		return nil, kerr.UnknownTopicOrPartition
	}
	if topic := v.image.TopicByID(t.TopicID); topic != nil {
		return topic, nil
	}
	return nil, kerr.UnknownTopicID
}

// normalizeISR: before v3 the ISR came without broker epochs.
func normalizeISR(version int16, p *kmsg.AlterPartitionRequestTopicPartition) {
	if version >= 3 {
		return
	}
	for _, id := range p.NewISR {
		p.NewEpochISR = append(p.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: id, BrokerEpoch: -1})
	}
}

func isrOf(p kmsg.AlterPartitionRequestTopicPartition) []int32 {
	ids := make([]int32, len(p.NewEpochISR))
	for i, b := range p.NewEpochISR {
		ids[i] = b.BrokerID
	}
	return ids
}

// checkNewISR fences by epochs: a leader that knows more than this controller makes the controller doubt itself.
func (v *view) checkNewISR(req *kmsg.AlterPartitionRequest, t *metadata.Topic, p kmsg.AlterPartitionRequestTopicPartition) *kerr.Error {
	if p.Partition < 0 || int(p.Partition) >= len(t.Partitions) {
		return kerr.UnknownTopicOrPartition
	}
	current := &t.Partitions[p.Partition]
	isr := isrOf(p)
	switch {
	case p.LeaderEpoch > current.LeaderEpoch, p.PartitionEpoch > current.PartitionEpoch:
		return kerr.NotController
	case p.LeaderEpoch < current.LeaderEpoch:
		return kerr.FencedLeaderEpoch
	case req.BrokerID != current.Leader:
		return kerr.InvalidRequest
	case p.PartitionEpoch < current.PartitionEpoch:
		return kerr.InvalidUpdateVersion
	case !validISR(current, isr):
		return kerr.InvalidRequest
	case p.LeaderRecoveryState == 1 && (len(isr) > 1 || current.LeaderRecoveryState == 0):
		return kerr.InvalidRequest
	case !v.allEligible(p.NewEpochISR) && req.Version > 1:
		return kerr.IneligibleReplica
	case !v.allEligible(p.NewEpochISR):
		return kerr.OperationNotAttempted
	}
	return nil
}

// validISR: replicas of the partition, none twice, the leader among them.
func validISR(p *metadata.Partition, isr []int32) bool {
	sorted := slices.Sorted(slices.Values(isr))
	for i, id := range sorted {
		if !slices.Contains(p.Replicas, id) || i > 0 && sorted[i-1] == id {
			return false
		}
	}
	return slices.Contains(isr, p.Leader)
}

// allEligible: fenced, leaving and restarted brokers do not join an ISR (KIP-903); epoch -1 is not checked.
func (v *view) allEligible(isr []kmsg.AlterPartitionRequestTopicPartitionNewEpochISR) bool {
	for _, member := range isr {
		b := v.image.Broker(member.BrokerID)
		if b == nil || !b.Active() || member.BrokerEpoch != -1 && member.BrokerEpoch != b.Epoch {
			return false
		}
	}
	return true
}

// changeISR makes the record, if anything changes, and the answer. A change may end a reassignment, and with it the
// leadership of who asks.
func (v *view) changeISR(req *kmsg.AlterPartitionRequest, t *metadata.Topic, p kmsg.AlterPartitionRequestTopicPartition) (metadata.Record, kmsg.AlterPartitionResponseTopicPartition) {
	c := v.change(t, p.Partition, v.rulesOf(t))
	c.kind, c.isr, c.recovery = c.rules.election(), isrOf(p), p.LeaderRecoveryState
	record := c.record()
	if record == nil {
		return nil, described(p.Partition, *c.was)
	}
	now := c.was.With(record)
	if now.Leader != req.BrokerID {
		code := kerr.NewLeaderElected
		if req.Version < 2 {
			code = kerr.FencedLeaderEpoch
		}
		return record, refusedISR(p.Partition, code)
	}
	return record, described(p.Partition, now)
}

func refusedISR(index int32, code *kerr.Error) kmsg.AlterPartitionResponseTopicPartition {
	r := kmsg.NewAlterPartitionResponseTopicPartition()
	r.Partition, r.ErrorCode = index, code.Code
	return r
}

func described(index int32, p metadata.Partition) kmsg.AlterPartitionResponseTopicPartition {
	r := kmsg.NewAlterPartitionResponseTopicPartition()
	r.Partition, r.LeaderID, r.LeaderEpoch, r.PartitionEpoch = index, p.Leader, p.LeaderEpoch, p.PartitionEpoch
	r.ISR, r.LeaderRecoveryState = p.ISR, p.LeaderRecoveryState
	return r
}
