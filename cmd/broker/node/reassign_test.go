package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/replica"
	"grete/logstore"
)

// reassign asks for replicas of partition 0; nil cancels.
func reassign(cl *kgo.Client, topic string, replicas []int32) error {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Replicas = replicas
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(context.Background(), cl)
	if err != nil {
		return err
	}
	return errors.Join(kerr.ErrorForCode(resp.ErrorCode), kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
}

func reassignments(t *testing.T, cl *kgo.Client) []kmsg.ListPartitionReassignmentsResponseTopic {
	t.Helper()
	resp, err := kmsg.NewPtrListPartitionReassignmentsRequest().RequestWith(context.Background(), cl)
	if err != nil || resp.ErrorCode != 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
	return resp.Topics
}

// A partition moves from broker to broker while it is written to: new replicas fetch everything, old ones give up their
// logs, and what was acknowledged stays. A move that cannot end, because a broker is gone, can be cancelled.
func TestReplicasMove(t *testing.T) {
	c := newNodes(t, 3)
	c.start(0, 1, 2)
	cl := c.client(kgo.DefaultProduceTopic("moved"), kgo.ProducerLinger(0))
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "moved", -1, -1
	topic.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{1}}}
	create.Topics = append(create.Topics, topic)
	if resp, err := create.RequestWith(context.Background(), cl); err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
	acked := 0
	write := func(n int) { t.Helper(); writeMore(t, cl, &acked, n) }
	write(100)
	for _, to := range [][]int32{{2}, {3, 1}, {1, 2, 3}, {2, 3}, {3, 2}, {1}} {
		if err := reassign(cl, "moved", to); err != nil {
			t.Fatal(err)
		}
		write(20)
		c.requireReplicas("moved", to, int64(acked))
		write(20)
	}
	if left := reassignments(t, cl); len(left) != 0 {
		t.Errorf("%+v", left)
	}
	c.stop(2)
	if err := reassign(cl, "moved", []int32{3}); err != nil {
		t.Fatal(err)
	}
	if going := reassignments(t, cl); len(going) != 1 || !slices.Equal(going[0].Partitions[0].AddingReplicas, []int32{3}) || !slices.Equal(going[0].Partitions[0].RemovingReplicas, []int32{1}) {
		t.Errorf("%+v", going)
	}
	write(20)
	if err := reassign(cl, "moved", nil); err != nil {
		t.Fatal(err)
	}
	if err := reassign(cl, "moved", nil); !errors.Is(err, kerr.NoReassignmentInProgress) {
		t.Error(err)
	}
	c.requireReplicas("moved", []int32{1}, int64(acked))
	c.readBack("moved", acked)
}

// readBack wants every value once, in order.
func (c *nodes) readBack(topic string, count int) {
	c.t.Helper()
	consumer := c.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	next := 0
	c.eventually("everything", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if want := fmt.Sprint("value ", next); string(r.Value) != want {
				c.t.Errorf("%q at offset %d, want %q", r.Value, r.Offset, want)
			}
			next++
		})
		return next >= count
	})
}

// requireReplicas waits until a topic's only partition is on these brokers, all in sync and with everything below end,
// and on no other broker's disk.
func (c *nodes) requireReplicas(topic string, want []int32, end int64) {
	c.t.Helper()
	c.eventually(fmt.Sprint("replicas on ", want), func() bool {
		for i, n := range c.running {
			if c.stopped[i] {
				continue
			}
			p := c.partition(i, topic)
			log, here := n.store.Log(logstore.ID{Topic: topic}), slices.Contains(want, int32(i+1))
			if !slices.Equal(p.Replicas, want) || len(p.ISR) != len(want) || !slices.Contains(want, p.Leader) || len(p.Adding)+len(p.Removing) > 0 {
				return false
			}
			if _, err := n.replicas.Partition(topic, 0); here != (err == nil) || !here && !errors.Is(err, replica.ErrNotLeader) {
				return false
			}
			if here != (log != nil) || here && log.EndOffset() < end {
				return false
			}
		}
		return true
	})
}
