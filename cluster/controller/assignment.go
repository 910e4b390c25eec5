package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// layOut decides the partitions of a new topic.
func (v *view) layOut(t kmsg.CreateTopicsRequestTopic) ([]metadata.Partition, *fault) {
	switch {
	case len(t.ReplicaAssignment) > 0:
		return v.layOutManually(t)
	case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
		return nil, refuse(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case t.NumPartitions < -1 || t.NumPartitions == 0:
		return nil, refuse(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	count, factor := int(t.NumPartitions), int(t.ReplicationFactor)
	if count == -1 {
		count = int(v.config.Int("num.partitions"))
	}
	if factor == -1 {
		factor = int(v.config.Int("default.replication.factor"))
	}
	placed, reason := v.place(count, factor)
	if reason != "" {
		return nil, unplaceable(factor, reason)
	}
	return v.partitionsOf(placed, func(int) *fault { return allInactive(factor) })
}

func unplaceable(factor int, reason string) *fault {
	return refuse(kerr.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): %s", factor, reason)
}

func allInactive(factor int) *fault {
	return unplaceable(factor, "All brokers are currently fenced or in controlled shutdown.")
}

func (v *view) layOutManually(t kmsg.CreateTopicsRequestTopic) ([]metadata.Partition, *fault) {
	if t.ReplicationFactor != -1 {
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if t.NumPartitions != -1 {
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	byIndex := map[int32][]int32{}
	factor := 0
	for _, a := range t.ReplicaAssignment {
		if _, twice := byIndex[a.Partition]; twice {
			return nil, refuse(kerr.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		if f := v.checkManual(a.Replicas, factor); f != nil {
			return nil, f
		}
		if !slices.ContainsFunc(a.Replicas, v.active) {
			return nil, manualInactive(int(a.Partition))
		}
		byIndex[a.Partition], factor = a.Replicas, len(a.Replicas)
	}
	placed := make([][]int32, len(byIndex))
	for i := range placed {
		replicas, ok := byIndex[int32(i)]
		if !ok {
			return nil, refuse(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		placed[i] = replicas
	}
	return v.partitionsOf(placed, manualInactive)
}

func manualInactive(partition int) *fault {
	return refuse(kerr.InvalidReplicaAssignment,
		"All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", partition)
}

// checkManual checks one partition's replicas; factor is that of the partitions before, 0 for the first.
func (v *view) checkManual(replicas []int32, factor int) *fault {
	if len(replicas) == 0 {
		return refuse(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		switch b := v.image.Broker(id); {
		case b == nil:
			return refuse(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes broker %d, but no such broker is registered.", id)
		case cordoned(b):
			return refuse(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes broker %d, but all its log directories are cordoned.", id)
		}
		if i > 0 && sorted[i-1] == id {
			return refuse(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes the broker %d more than once.", id)
		}
	}
	if factor > 0 && factor != len(replicas) {
		return refuse(kerr.InvalidReplicaAssignment,
			"The manual partition assignment includes a partition with %d replica(s), but this is not consistent with "+
				"previous partitions, which have %d replica(s).", len(replicas), factor)
	}
	return nil
}

func (v *view) active(id int32) bool {
	b := v.image.Broker(id)
	return b != nil && b.Active()
}

// partitionsOf makes new partitions of replica lists: in sync are the active ones, the first of which leads.
func (v *view) partitionsOf(placed [][]int32, inactive func(i int) *fault) ([]metadata.Partition, *fault) {
	partitions := make([]metadata.Partition, len(placed))
	for i, replicas := range placed {
		var isr []int32
		dirs := make([]metadata.UUID, len(replicas))
		for j, id := range replicas {
			if v.active(id) {
				isr = append(isr, id)
			}
			dirs[j] = v.defaultDir(id)
		}
		if len(isr) == 0 {
			return nil, inactive(i)
		}
		partitions[i] = metadata.Partition{Replicas: replicas, ISR: isr, Directories: dirs, Leader: isr[0]}
	}
	return partitions, nil
}

// defaultDir is the log directory of a broker that has just one; another broker chooses for itself (KIP-858).
func (v *view) defaultDir(id int32) metadata.UUID {
	if b := v.image.Broker(id); b != nil && len(b.LogDirs) == 1 {
		return b.LogDirs[0]
	}
	return metadata.UnassignedDir
}
