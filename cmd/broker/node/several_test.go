package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"grete/protocol/batch"
)

// several is a cluster with a topic of three replicas, "all", and one of two, "some".
type several struct {
	*nodes
	cl       *kgo.Client
	leader   int32 // of all-0
	follower int32
	outsider int32 // without a replica of some-0
	someLed  int32 // leader of some-0
}

func newSeveral(t *testing.T) *several {
	t.Helper()
	s := &several{nodes: newNodes(t, 3, "offsets.topic.replication.factor=3", "offsets.topic.num.partitions=1", "auto.leader.rebalance.enable=false")}
	s.start(0, 1, 2)
	for topic, replicas := range map[string]int16{"all": 3, "some": 2} {
		if err := s.create(0, topic, replicas); err != nil {
			t.Fatal(err)
		}
	}
	s.cl = s.client(kgo.ProducerLinger(0))
	for _, topic := range []string{"all", "some"} {
		for i := range 10 {
			r := kgo.StringRecord(fmt.Sprint(i))
			r.Topic = topic
			if err := s.cl.ProduceSync(context.Background(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	some := s.partition(0, "some")
	s.leader, s.someLed = s.partition(0, "all").Leader, some.Leader
	s.follower = s.leader%3 + 1
	for id := int32(1); id <= 3; id++ {
		if !slices.Contains(some.Replicas, id) {
			s.outsider = id
		}
	}
	s.eventually("known high watermarks", func() bool {
		for _, n := range s.running {
			p, err := n.replicas.Partition("all", 0)
			if err != nil || p.Log().HighWatermark() != 10 || n.image().TopicCount() < 2 {
				return false
			}
		}
		return true
	})
	return s
}

// ask sends one broker a request, of at most a version where that is given.
func ask[R kmsg.Response](s *several, id int32, req kmsg.Request, atMost ...int16) R {
	s.t.Helper()
	cl := s.cl
	if len(atMost) > 0 {
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(req.Key(), atMost[0])
		cl = s.client(kgo.MaxVersions(versions))
		defer cl.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := cl.Broker(int(id)).Request(ctx, req)
	if err != nil {
		s.t.Fatalf("%T: %v", req, err)
	}
	return resp.(R)
}

func (s *several) topicID(name string) [16]byte { return s.running[0].image().Topic(name).ID }

func (s *several) want(what string, code int16, want *kerr.Error) {
	s.t.Helper()
	if want == nil && code != 0 || want != nil && code != want.Code {
		s.t.Errorf("%s: %v, want %v", what, kerr.ErrorForCode(code), want)
	}
}

func (s *several) produceTo(id int32, topic string) *kmsg.ProduceResponse {
	s.t.Helper()
	b, err := batch.Build(batch.BuildOptions{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, []batch.Record{{TimestampMs: time.Now().UnixMilli(), Value: []byte("v")}})
	if err != nil {
		s.t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, s.topicID(topic)
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = b
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return ask[*kmsg.ProduceResponse](s, id, req)
}

func (s *several) offsetAt(id, replica int32, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	s.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = replica
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = "all"
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = timestamp
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return ask[*kmsg.ListOffsetsResponse](s, id, req).Topics[0].Partitions[0]
}

// What only a leader answers is refused by followers and by brokers without a replica, who name the leader and where it
// is (KIP-951).
func TestOnlyTheLeaderAnswers(t *testing.T) {
	s := newSeveral(t)
	for _, c := range []struct {
		at, leader int32
		topic      string
	}{{s.follower, s.leader, "all"}, {s.outsider, s.someLed, "some"}} {
		resp := s.produceTo(c.at, c.topic)
		p := resp.Topics[0].Partitions[0]
		s.want("Produce", p.ErrorCode, kerr.NotLeaderForPartition)
		if p.CurrentLeader.LeaderID != c.leader || p.CurrentLeader.LeaderEpoch != 0 || len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != c.leader || resp.Brokers[0].Port == 0 {
			t.Errorf("Produce of %s: %+v, %+v", c.topic, p.CurrentLeader, resp.Brokers)
		}
	}
	s.want("Produce to the leader", s.produceTo(s.leader, "all").Topics[0].Partitions[0].ErrorCode, nil)

	fetched := ask[*kmsg.FetchResponse](s, s.outsider, fetchOf(s.topicID("some"), 0))
	p := fetched.Topics[0].Partitions[0]
	s.want("Fetch without a replica", p.ErrorCode, kerr.NotLeaderForPartition)
	if p.CurrentLeader.LeaderID != s.someLed || len(fetched.Brokers) != 1 || fetched.Brokers[0].NodeID != s.someLed {
		t.Errorf("Fetch: %+v, %+v", p.CurrentLeader, fetched.Brokers)
	}
	old := fetchOf(s.topicID("all"), 0)
	old.Topics[0].Topic = "all"
	s.want("Fetch of an old client from a follower", ask[*kmsg.FetchResponse](s, s.follower, old, 10).Topics[0].Partitions[0].ErrorCode, kerr.NotLeaderForPartition)
	fromFollower := ask[*kmsg.FetchResponse](s, s.follower, fetchOf(s.topicID("all"), 3)).Topics[0].Partitions[0]
	if fromFollower.ErrorCode != 0 || len(fromFollower.RecordBatches) == 0 || fromFollower.HighWatermark < 10 {
		t.Errorf("Fetch from a follower: %+v", fromFollower)
	}
	beyond := ask[*kmsg.FetchResponse](s, s.follower, fetchOf(s.topicID("all"), 500)).Topics[0].Partitions[0]
	s.want("Fetch beyond a follower's log", beyond.ErrorCode, kerr.OffsetOutOfRange)

	s.want("ListOffsets of a client", s.offsetAt(s.follower, -1, -1).ErrorCode, kerr.NotLeaderForPartition)
	s.want("ListOffsets of a debugger", s.offsetAt(s.follower, -2, -2).ErrorCode, nil)
	s.want("ListOffsets of a follower", s.offsetAt(s.leader, s.follower, -1).ErrorCode, nil)
	if at := s.offsetAt(s.leader, -1, -1); at.Offset != 11 || at.LeaderEpoch != 0 {
		t.Errorf("ListOffsets: %+v", at)
	}

	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	et := kmsg.NewOffsetForLeaderEpochRequestTopic()
	et.Topic = "all"
	ep := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	ep.CurrentLeaderEpoch, ep.LeaderEpoch = -1, 0
	et.Partitions = append(et.Partitions, ep)
	epochs.Topics = append(epochs.Topics, et)
	s.want("OffsetForLeaderEpoch", ask[*kmsg.OffsetForLeaderEpochResponse](s, s.follower, epochs).Topics[0].Partitions[0].ErrorCode, kerr.NotLeaderForPartition)
	if end := ask[*kmsg.OffsetForLeaderEpochResponse](s, s.leader, epochs).Topics[0].Partitions[0]; end.ErrorCode != 0 || end.EndOffset != 11 {
		t.Errorf("OffsetForLeaderEpoch: %+v", end)
	}
	producers := kmsg.NewPtrDescribeProducersRequest()
	pt := kmsg.NewDescribeProducersRequestTopic()
	pt.Topic, pt.Partitions = "all", []int32{0}
	producers.Topics = append(producers.Topics, pt)
	s.want("DescribeProducers", ask[*kmsg.DescribeProducersResponse](s, s.follower, producers).Topics[0].Partitions[0].ErrorCode, kerr.NotLeaderForPartition)
	s.want("DeleteRecords", s.deleteRecords(s.follower, 1, 100).ErrorCode, kerr.NotLeaderForPartition)
}

// Every broker says the same about the cluster, and each its own about its logs.
func TestEveryBrokerKnowsTheCluster(t *testing.T) {
	s := newSeveral(t)
	var coordinators []int32
	for id := int32(1); id <= 3; id++ {
		meta := ask[*kmsg.MetadataResponse](s, id, kmsg.NewPtrMetadataRequest())
		if len(meta.Brokers) != 3 || *meta.ClusterID != s.running[0].ClusterID() || len(meta.Topics) < 2 {
			t.Errorf("broker %d: %+v", id, meta)
		}
		for _, topic := range meta.Topics {
			p := topic.Partitions[0]
			if want := s.partition(0, *topic.Topic); p.Leader != want.Leader || !slices.Equal(p.Replicas, want.Replicas) || len(p.ISR) != len(want.ISR) || len(p.OfflineReplicas) != 0 {
				t.Errorf("broker %d, %s: %+v", id, *topic.Topic, p)
			}
		}
		cluster := ask[*kmsg.DescribeClusterResponse](s, id, kmsg.NewPtrDescribeClusterRequest())
		if len(cluster.Brokers) != 3 || cluster.ClusterID != s.running[0].ClusterID() {
			t.Errorf("broker %d: %+v", id, cluster)
		}
		coordinators = append(coordinators, s.coordinatorAt(id))
		dirs := ask[*kmsg.DescribeLogDirsResponse](s, id, kmsg.NewPtrDescribeLogDirsRequest())
		names := map[string]bool{}
		for _, topic := range dirs.Dirs[0].Topics {
			names[topic.Topic] = true
		}
		if !names["all"] || names["some"] == (id == s.outsider) {
			t.Errorf("broker %d has logs of %v", id, names)
		}
	}
	if coordinators[0] != coordinators[1] || coordinators[1] != coordinators[2] {
		t.Errorf("the group's coordinator is %v", coordinators)
	}
}

// coordinatorAt asks a broker until the offsets topic is there.
func (s *several) coordinatorAt(id int32) (node int32) {
	s.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{"group"}
	s.eventually("coordinator", func() bool {
		c := ask[*kmsg.FindCoordinatorResponse](s, id, req).Coordinators[0]
		node = c.NodeID
		return c.ErrorCode == 0
	})
	return node
}

func (s *several) deleteRecords(id int32, offset int64, timeoutMs int32) kmsg.DeleteRecordsResponseTopicPartition {
	s.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = timeoutMs
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = "all"
	t.Partitions = append(t.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Offset: offset})
	req.Topics = append(req.Topics, t)
	return ask[*kmsg.DeleteRecordsResponse](s, id, req).Topics[0].Partitions[0]
}

// DeleteRecords is answered once the followers have deleted, too; one that cannot is waited for until the timeout, one
// that is fenced not at all.
func TestDeleteRecordsWaitsForFollowers(t *testing.T) {
	s := newSeveral(t)
	starts := func() (out []int64) {
		for _, n := range s.running {
			p, err := n.replicas.Partition("all", 0)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, p.LogStartOffset())
		}
		return out
	}
	if a := s.deleteRecords(s.leader, 4, 20_000); a.ErrorCode != 0 || a.LowWatermark != 4 || slices.Min(starts()) != 4 {
		t.Errorf("%+v, logs start at %v", a, starts())
	}
	cut := s.follower
	if int(cut)-1 == s.nodes.leader() {
		cut = 6 - s.leader - s.follower // the controller must go on
	}
	s.wires[cut-1].set(true)
	if a := s.deleteRecords(s.leader, 6, 100); a.ErrorCode != kerr.RequestTimedOut.Code || a.LowWatermark != 4 {
		t.Errorf("%+v", a)
	}
	s.eventually("fencing", func() bool { return s.running[s.leader-1].image().Broker(cut).Fenced })
	if a := s.deleteRecords(s.leader, 6, 20_000); a.ErrorCode != 0 || a.LowWatermark != 6 {
		t.Errorf("%+v", a)
	}
	s.wires[cut-1].set(false)
	s.eventually("the follower's start", func() bool { return slices.Min(starts()) == 6 })
}

// In-sync replicas that leave and come back are counted by the leader that asked for it; a follower shows its lag.
func TestReplicationMetrics(t *testing.T) {
	c := newNodes(t, 3, "replica.lag.time.max.ms=500", "broker.session.timeout.ms=30000", "admin.listen=127.0.0.1:0", "auto.leader.rebalance.enable=false")
	c.start(0, 1, 2)
	if err := c.create(0, "m", 3); err != nil {
		t.Fatal(err)
	}
	leader := int(c.partition(0, "m").Leader) - 1
	cut := (leader + 1) % 3
	if cut == c.leader() {
		cut = (leader + 2) % 3
	}
	cl := c.client(kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	c.wires[cut].set(true)
	produce(t, cl, "m", 0, 1) // who has all there is does not lag, however long it is silent
	c.eventually("shrink", func() bool { return len(c.partition(leader, "m").ISR) == 2 })
	changes := c.running[leader].metrics.Replicas
	if s := c.running[leader].replicas.State(); s.UnderReplicated != 1 || changes.ISRShrinks.Load() == 0 {
		t.Errorf("%+v, %d shrinks", s, changes.ISRShrinks.Load())
	}
	c.wires[cut].set(false)
	c.eventually("expand", func() bool { return len(c.partition(leader, "m").ISR) == 3 })
	c.eventually("count", func() bool { return changes.ISRExpands.Load() > 0 })
	follower := (leader + 1) % 3
	want := fmt.Sprintf(`kafka_server_fetcherlagmetrics_consumerlag{clientId="ReplicaFetcherThread-0-%d",partition="0",topic="m"} 0`, leader+1)
	c.eventually("lag", func() bool {
		_, body := get(t, "http://"+c.running[follower].AdminAddr()+"/metrics")
		return slices.Contains(strings.Split(body, "\n"), want) && slices.Contains(strings.Split(body, "\n"), `kafka_server_replicafetchermanager_maxlag{clientId="Replica"} 0`)
	})
}
