package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

// kills is how often a test of failover kills: few times by default, FAILOVER_KILLS for figures.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("FAILOVER_KILLS")); err == nil {
		return n
	}
	return 4
}

// report logs the median and the longest of gaps, which must not be over limit.
func report(t *testing.T, what string, gaps []time.Duration, limit time.Duration) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(gaps))
	t.Logf("%s: p50 %v, max %v of %v", what, sorted[len(sorted)/2], sorted[len(sorted)-1], gaps)
	if longest := sorted[len(sorted)-1]; longest > limit {
		t.Errorf("%s took %v, more than %v", what, longest, limit)
	}
}

// metadata is what a broker says now; a kadm.Client would say what it has in its cache.
func metadata(ctx context.Context, cl *kgo.Client) *kmsg.MetadataResponse {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return &kmsg.MetadataResponse{ControllerID: -1}
	}
	return resp
}

// controller is the broker that leads the quorum, -1 when nobody says.
func (r *rig) controller() int32 { return metadata(r.ctx, r.cl).ControllerID }

// ledBy is a partition of topic that a broker leads.
func (r *rig) ledBy(topic string, id int32) int32 {
	r.t.Helper()
	topics, err := r.adm.ListTopics(r.ctx, topic)
	for _, p := range topics[topic].Partitions {
		if p.Leader == id {
			return p.Partition
		}
	}
	r.t.Fatalf("broker %d leads nothing: %v", id, err)
	return -1
}

// whole says whether all three replicas of every partition are in sync, and their first leads, once it has been asked
// to.
func (r *rig) whole(topic string) bool {
	_, _ = r.adm.ElectLeaders(r.ctx, kadm.ElectPreferredReplica, nil)
	topics, err := r.adm.ListTopics(r.ctx, topic)
	for _, p := range topics[topic].Partitions {
		if len(p.ISR) < 3 || p.Leader != p.Replicas[0] {
			return false
		}
	}
	return err == nil && len(topics[topic].Partitions) > 0
}

// defaults leaves sessions at their nine seconds.
var defaults = map[string]string{"group.initial.rebalance.delay.ms": "0"}

// A leader that is killed is replaced within two seconds with default settings: its session is nine seconds long, so
// reset connections and the controller's probe do it. Every second kill hits the controller, too.
func TestKilledLeaderIsReplacedAtOnce(t *testing.T) {
	r := start(t, kafka.ClusterOptions{Properties: defaults, Start: kafka.StartGrete})
	r.create("kept", 3)
	cl := r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("kept"), kgo.ProducerLinger(0))
	acked := map[int32]int64{}
	write := func(partition int32) {
		t.Helper()
		k, err := cl.ProduceSync(r.ctx, &kgo.Record{Partition: partition, Value: []byte("v")}).First()
		if err != nil {
			t.Fatalf("write to %d: %v", partition, err)
		}
		if k.Offset != acked[partition] {
			t.Fatalf("partition %d: offset %d after %d acknowledged records", partition, k.Offset, acked[partition])
		}
		acked[partition]++
	}
	gaps := map[bool][]time.Duration{} // by whether the controller was killed
	for i := range kills() {
		r.eventually("whole ISR", func() bool { return r.whole("kept") })
		victim := r.controller()
		if i%2 == 0 {
			victim = victim%3 + 1
		}
		p := r.ledBy("kept", victim)
		for range 20 {
			write(p)
		}
		_ = r.Node(victim).Kill()
		began := time.Now()
		write(p)
		gaps[i%2 == 1] = append(gaps[i%2 == 1], time.Since(began))
		write(p)
		r.start(victim)
	}
	report(t, "from kill -9 to the next acknowledged write", gaps[false], 2*time.Second)
	report(t, "the same where the controller was killed, too", gaps[true], 2*time.Second)
}

// Kill -9 of the controller: the next topic is created within two seconds.
func TestKilledControllerIsReplacedAtOnce(t *testing.T) {
	r := start(t, kafka.ClusterOptions{Properties: defaults, Start: kafka.StartGrete})
	var gaps []time.Duration
	for i := range kills() {
		victim := int32(-1)
		r.eventually("controller", func() bool { victim = r.controller(); return victim > 0 })
		_ = r.Node(victim).Kill()
		began := time.Now()
		topic := fmt.Sprint("topic-", i)
		r.eventually("topic", func() bool {
			ctx, cancel := context.WithTimeout(r.ctx, 5*time.Second)
			defer cancel()
			_, err := r.adm.CreateTopic(ctx, 1, 2, nil, topic)
			return err == nil
		})
		gaps = append(gaps, time.Since(began))
		r.start(victim)
	}
	report(t, "from kill -9 of the controller to the next topic", gaps, 2*time.Second)
}

// A broker that is asked to stop when the others are dead, and nobody can take over from it, stops in seconds.
func TestStopWithoutQuorum(t *testing.T) {
	r := start(t, kafka.ClusterOptions{Properties: defaults, Start: kafka.StartGrete})
	r.create("led", 3)
	_ = r.Node(1).Kill()
	_ = r.Node(2).Kill()
	began := time.Now()
	if err := r.Node(3).Stop(); err != nil {
		t.Error(err)
	}
	took := time.Since(began)
	t.Logf("stopped after %v", took)
	if took > 4*time.Second {
		t.Errorf("the stop took %v", took)
	}
}
