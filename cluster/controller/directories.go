package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

func (v *view) dirOnline(id int32, dir metadata.UUID) bool {
	b := v.image.Broker(id)
	return b != nil && b.HasOnlineDir(dir)
}

// dirsOffline has others lead what a broker has in directories that it cannot use any more
// (ReplicationControlManager.handleDirectoriesOffline).
func (v *view) dirsOffline(b *metadata.Broker, offline [][16]byte) []metadata.Record {
	var lost, left []metadata.UUID
	for _, id := range b.LogDirs {
		if slices.Contains(offline, [16]byte(id)) {
			lost = append(lost, id)
		} else {
			left = append(left, id)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	records := v.reelect(b.ID, func(p *metadata.Partition) bool {
		return slices.Contains(lost, p.Directory(b.ID)) && (slices.Contains(p.ISR, b.ID) || p.Leader == b.ID)
	}, func(c *partitionChange) { c.withoutReplica(b.ID) })
	if len(left) == 0 { // it cannot go on, and an empty list would change nothing
		return records
	}
	return append(records, &metadata.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, LogDirs: left})
}

// withoutReplica takes a broker out of the ISR, and whatever happens to its replica it must not go on under the old
// epoch.
func (c *partitionChange) withoutReplica(id int32) {
	c.isr, c.leaderSet = without(c.isr, id), true
	mayLead := c.mayLead
	c.mayLead = func(other int32) bool { return other != id && mayLead(other) }
}

// withoutData: the directory that had a broker's replica is lost, and the replica that it has now began empty. If that
// broker led last, it does not have the most there is any more, unlike in Kafka, which elects it and has the others
// truncate what they have. Where there are no others nothing more can be lost.
func (c *partitionChange) withoutData(id int32) {
	if len(c.replicas) > 1 {
		c.lastKnown = without(c.lastKnown, id)
	}
}

// assignDirs is ReplicationControlManager.handleAssignReplicasToDirs: a broker says in which directories it has its
// replicas. In one that is offline, or lost, they do not count.
func (v *view) assignDirs(req *kmsg.AssignReplicasToDirsRequest) ([]metadata.Record, *kmsg.AssignReplicasToDirsResponse) {
	resp := req.ResponseKind().(*kmsg.AssignReplicasToDirsResponse)
	b := v.currentBroker(req.BrokerID, req.BrokerEpoch)
	if b == nil {
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return nil, resp
	}
	var records []metadata.Record
	for _, d := range req.Directories {
		rd := kmsg.NewAssignReplicasToDirsResponseDirectory()
		rd.ID = d.ID
		for _, t := range d.Topics {
			rt := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			rt.TopicID = t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				rp.Partition = p.Partition
				record, code := v.assignDir(b, d.ID, v.image.TopicByID(t.TopicID), p.Partition)
				if code != nil {
					rp.ErrorCode = code.Code
				}
				if record != nil {
					records = append(records, record)
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			rd.Topics = append(rd.Topics, rt)
		}
		resp.Directories = append(resp.Directories, rd)
	}
	return records, resp
}

func (v *view) assignDir(b *metadata.Broker, dir metadata.UUID, t *metadata.Topic, index int32) (metadata.Record, *kerr.Error) {
	switch {
	case t == nil:
		return nil, kerr.UnknownTopicID
	case index < 0 || int(index) >= len(t.Partitions):
		return nil, kerr.UnknownTopicOrPartition
	}
	rules := v.rulesOf(t)
	c := v.change(t, index, rules)
	at := slices.Index(c.replicas, b.ID)
	if at < 0 {
		return nil, kerr.NotLeaderForPartition
	}
	if dir == metadata.FullDir {
		return c.withoutFull(b.ID), nil
	}
	c.directories = make([]metadata.UUID, len(c.replicas))
	for i, id := range c.replicas {
		c.directories[i] = c.was.Directory(id)
	}
	c.directories[at], c.kind = dir, rules.election()
	if !b.HasOnlineDir(c.was.Directory(b.ID)) {
		c.withoutData(b.ID)
	}
	if !b.HasOnlineDir(dir) && (slices.Contains(c.isr, b.ID) || c.was.Leader == b.ID) {
		c.withoutReplica(b.ID)
		if dir == metadata.LostDir { // what it had is not all there any more, so that it is not eligible either
			c.uncleanShutdown = b.ID
		}
	}
	if r := c.record(); r != nil {
		return r, nil
	}
	return nil, nil
}

// withoutFull takes a follower out of the ISR that takes no more records: writes need not wait until it lags
// (replica.lag.time.max.ms). It has all that it has acknowledged, so that it stays eligible where the ISR is below
// min.insync.replicas.
func (c *partitionChange) withoutFull(id int32) metadata.Record {
	if c.was.Leader == id || !slices.Contains(c.isr, id) || len(c.isr) == 1 {
		return nil
	}
	c.isr = without(c.isr, id)
	if r := c.record(); r != nil {
		return r
	}
	return nil
}
