package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// route is a broker, and the partitions of a topic that it leads.
type route struct {
	endpoint
	partitions []int32
}

func (t *target) replication() int16 {
	if t.cluster == nil {
		return 1
	}
	return int16(len(t.cluster.Nodes))
}

// routes waits until every partition of a topic has a leader. A lone target leads all; the floor knows no others.
func routes(t *target, topic string, partitions int32) ([]route, error) {
	if t.cluster == nil {
		alone := route{endpoint: t.endpoint}
		for p := range partitions {
			alone.partitions = append(alone.partitions, p)
		}
		return []route{alone}, nil
	}
	c, err := t.dial()
	if err != nil {
		return nil, err
	}
	defer c.close()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		found, led, err := leaders(c, topic)
		if err != nil || led == partitions {
			return found, err
		}
	}
	return nil, fmt.Errorf("partitions of %s have no leader", topic)
}

// leaders asks c; led counts the partitions that have one.
func leaders(c *conn, topic string) (found []route, led int32, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	answer, err := c.call(req)
	if err != nil {
		return nil, 0, err
	}
	resp := answer.(*kmsg.MetadataResponse)
	for _, b := range resp.Brokers {
		r := route{endpoint: endpoint{addr: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))}}
		for _, p := range resp.Topics[0].Partitions {
			if p.Leader == b.NodeID && p.ErrorCode == 0 {
				r.partitions = append(r.partitions, p.Partition)
			}
		}
		if len(r.partitions) > 0 {
			found = append(found, r)
			led += int32(len(r.partitions))
		}
	}
	return found, led, nil
}

// quorumLeader asks who the active controller is.
func quorumLeader(ctx context.Context, cl *kgo.Client) (int32, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil || len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
		return -1, err
	}
	return resp.Topics[0].Partitions[0].LeaderID, nil
}
