package handlers

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/replica"
	"grete/protocol"
)

// AlterReplicaLogDirs serves versions 1–2: it begins to move replicas of this broker to other log directories. A
// partition that is named for several goes to the last.
func AlterReplicaLogDirs(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.AlterReplicaLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.AlterReplicaLogDirsResponse)
	var topics lookup[string]
	var places []lookup[int32] // of each topic's partitions
	dirs := [][]string{}
	for i := range req.Dirs {
		dir := &req.Dirs[i]
		for _, t := range dir.Topics {
			for _, partition := range t.Partitions {
				at, again := topics.add(t.Topic)
				if !again {
					rt := kmsg.NewAlterReplicaLogDirsResponseTopic()
					rt.Topic = t.Topic
					resp.Topics, places, dirs = append(resp.Topics, rt), append(places, lookup[int32]{}), append(dirs, nil)
				}
				k, twice := places[at].add(partition)
				if !twice {
					a := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
					a.Partition = partition
					resp.Topics[at].Partitions, dirs[at] = append(resp.Topics[at].Partitions, a), append(dirs[at], "")
				}
				dirs[at][k] = dir.Dir
			}
		}
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			p.ErrorCode = moveCode(b.Replicas.MoveTo(resp.Topics[i].Topic, p.Partition, dirs[i][j]))
		}
	}
	r.Respond(resp)
}

// moveCode keeps the name that clients know from before for a replica that is not here.
func moveCode(err error) int16 {
	if errors.Is(err, replica.ErrNotLeader) {
		return kerr.ReplicaNotAvailable.Code
	}
	return codeOf(err)
}
