package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// A reassignment first adds the new replicas behind the wanted list and names those that come and go; when all wanted
// ones are in sync, whatever change finds it so takes the others away (KIP-455, PartitionReassignmentReplicas).

// alterReassignments is ReplicationControlManager.alterPartitionReassignments.
func (v *view) alterReassignments(req *kmsg.AlterPartitionAssignmentsRequest) ([]metadata.Record, *kmsg.AlterPartitionAssignmentsResponse) {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	factorMayChange := req.Version < 1 || req.AllowReplicationFactorChange
	resp.AllowReplicationFactorChange = factorMayChange
	if len(req.Topics) == 0 {
		resp.ErrorMessage = new(string) // Kafka's answer to nothing
	}
	var records []metadata.Record
	for _, t := range req.Topics {
		answered := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		answered.Topic = t.Topic
		for _, p := range t.Partitions {
			record, f := v.reassign(t.Topic, p, factorMayChange)
			if f == nil && record != nil && len(records) == recordsPerOp {
				record, f = nil, bare(kerr.UnknownServerError) // as Kafka, whose list is full
			}
			if record != nil {
				records = append(records, record)
			}
			result := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			result.Partition = p.Partition
			result.ErrorCode, result.ErrorMessage = f.fields()
			answered.Partitions = append(answered.Partitions, result)
		}
		resp.Topics = append(resp.Topics, answered)
	}
	return records, resp
}

func (v *view) reassign(name string, want kmsg.AlterPartitionAssignmentsRequestTopicPartition, factorMayChange bool) (metadata.Record, *fault) {
	t := v.image.Topic(name)
	if t == nil {
		return nil, refuse(kerr.UnknownTopicOrPartition, "Unable to find a topic named %s.", name)
	}
	if want.Partition < 0 || int(want.Partition) >= len(t.Partitions) {
		return nil, refuse(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.", name, want.Partition)
	}
	c := v.change(t, want.Partition, v.rulesOf(t))
	f := (*fault)(nil)
	if want.Replicas == nil {
		f = c.cancelReassignment()
	} else {
		f = v.startReassignment(c, want.Replicas, factorMayChange)
	}
	if f != nil {
		return nil, f
	}
	if r := c.record(); r != nil {
		return r, nil
	}
	return nil, nil
}

func (v *view) startReassignment(c *partitionChange, wanted []int32, factorMayChange bool) *fault {
	if f := v.checkManual(wanted, 0); f != nil {
		return f
	}
	if factor := wantedFactor(c.was); !factorMayChange && factor != len(wanted) {
		return refuse(kerr.InvalidReplicationFactor, "The replication factor is changed from %d to %d", factor, len(wanted))
	}
	leaving := missing(c.was.Replicas, wanted)
	c.replicas = slices.Concat(wanted, leaving)
	if len(leaving) > 0 {
		c.removing = leaving
	}
	if coming := missing(wanted, c.was.Replicas); len(coming) > 0 {
		c.adding = coming
	}
	return nil
}

// wantedFactor is how many replicas there are, or will be at the end of the reassignment that goes on.
func wantedFactor(p *metadata.Partition) int {
	return len(missing(p.Replicas, p.Removing))
}

// missing are the members of ids that others lacks, sorted.
func missing(ids, others []int32) []int32 {
	return slices.Sorted(func(yield func(int32) bool) {
		for _, id := range ids {
			if !slices.Contains(others, id) && !yield(id) {
				return
			}
		}
	})
}

// cancelReassignment goes back to the replicas of before (PartitionReassignmentRevert). When all that are in sync go
// with it, only an unclean election could go on.
func (c *partitionChange) cancelReassignment() *fault {
	if !reassigning(c.was) {
		return bare(kerr.NoReassignmentInProgress)
	}
	added := func(id int32) bool { return slices.Contains(c.was.Adding, id) }
	c.replicas = slices.DeleteFunc(slices.Clone(c.was.Replicas), added)
	c.isr = slices.DeleteFunc(slices.Clone(c.was.ISR), added)
	c.adding, c.removing = nil, nil
	c.kind = c.rules.election()
	if len(c.replicas) == 0 {
		return refuse(kerr.InvalidReplicaAssignment, "Invalid replica assignment: addingReplicas contains all replicas.")
	}
	if len(c.isr) > 0 {
		return nil
	}
	if !c.rules.unclean {
		return refuse(kerr.InvalidReplicaAssignment,
			"Unable to revert partition assignment for %s:%d because it would require an unclean leader election.", c.topic.Name, c.index)
	}
	c.isr = c.replicas[:1]
	return nil
}

func reassigning(p *metadata.Partition) bool { return len(p.Adding)+len(p.Removing) > 0 }

// completeReassignment ends a reassignment whose wanted replicas are all in sync.
func (c *partitionChange) completeReassignment() {
	if len(c.adding)+len(c.removing) == 0 {
		return
	}
	leaving := func(id int32) bool { return slices.Contains(c.removing, id) }
	isr := slices.DeleteFunc(slices.Clone(c.isr), leaving)
	replicas := slices.DeleteFunc(slices.Clone(c.replicas), leaving)
	if len(c.removing) > 0 && (len(isr) == 0 || len(replicas) == 0) || !containsAll(isr, replicas) {
		return
	}
	c.isr, c.replicas, c.removing, c.adding = isr, replicas, nil, nil
}

// listReassignments is ReplicationControlManager.listPartitionReassignments; without topics it lists all.
func (v *view) listReassignments(req *kmsg.ListPartitionReassignmentsRequest) ([]metadata.Record, *kmsg.ListPartitionReassignmentsResponse) {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	list := func(t *metadata.Topic, partitions []int32) {
		out := kmsg.NewListPartitionReassignmentsResponseTopic()
		out.Topic = t.Name
		for _, index := range partitions {
			if index >= 0 && int(index) < len(t.Partitions) && reassigning(&t.Partitions[index]) {
				out.Partitions = append(out.Partitions, ongoing(index, &t.Partitions[index]))
			}
		}
		if len(out.Partitions) > 0 {
			resp.Topics = append(resp.Topics, out)
		}
	}
	if req.Topics == nil {
		for t := range v.image.Topics() {
			list(t, indexes(t))
		}
		return nil, resp
	}
	for _, asked := range req.Topics {
		if t := v.image.Topic(asked.Topic); t != nil {
			list(t, asked.Partitions)
		}
	}
	return nil, resp
}

func ongoing(index int32, p *metadata.Partition) kmsg.ListPartitionReassignmentsResponseTopicPartition {
	out := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	out.Partition, out.Replicas, out.AddingReplicas, out.RemovingReplicas = index, p.Replicas, p.Adding, p.Removing
	return out
}
