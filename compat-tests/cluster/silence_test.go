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

// cuts is how often a test of silence pulls a cable: few times by default, SILENCE_CUTS for figures.
func cuts() int {
	if n, err := strconv.Atoi(os.Getenv("SILENCE_CUTS")); err == nil {
		return n
	}
	return 2
}

// What a silent machine may cost: from the cut to the next acknowledged write.
const silenceMedian, silenceLongest = 3 * time.Second, 5 * time.Second

// onMachines starts three brokers with default settings and gossip, each on a machine of its own.
func onMachines(t *testing.T, properties map[string]string) (*rig, *kafka.Machines) {
	t.Helper()
	m, err := kafka.NewMachines(3)
	kafka.SkipOrFail(t, err)
	t.Cleanup(m.Close)
	return start(t, kafka.ClusterOptions{Properties: properties, Start: kafka.StartGrete, Machines: m, Gossip: true}), m
}

// survivors is a client that knows nobody but the others.
func (r *rig) survivors(silent int32, opts ...kgo.Opt) *kgo.Client {
	var seeds []string
	for _, id := range r.others(silent) {
		seeds = append(seeds, r.Node(id).Addr())
	}
	return r.client(append(opts, kgo.SeedBrokers(seeds...))...)
}

// partitionsNow are those of a topic as the broker behind ask has them; a kadm.Client would say what it has in its
// cache.
func partitionsNow(ctx context.Context, ask *kgo.Client, topic string) []kmsg.MetadataResponseTopicPartition {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest() // of all topics
	resp, err := req.RequestWith(ctx, ask)
	if err != nil {
		return nil
	}
	for _, t := range resp.Topics {
		if t.Topic != nil && *t.Topic == topic {
			return t.Partitions
		}
	}
	return nil
}

// leaderNow is the leader of a partition, -1 when the broker does not say.
func leaderNow(ctx context.Context, ask *kgo.Client, topic string, index int32) int32 {
	for _, p := range partitionsNow(ctx, ask, topic) {
		if p.Partition == index {
			return p.Leader
		}
	}
	return -1
}

// recovered waits until every broker has all replicas of a topic in sync, led by their first.
func (r *rig) recovered(topic string) {
	r.t.Helper()
	for _, n := range r.Nodes {
		ask := r.pinned(n.ID)
		r.eventually(fmt.Sprintf("whole ISR at broker %d", n.ID), func() bool {
			_, _ = r.adm.ElectLeaders(r.ctx, kadm.ElectPreferredReplica, nil)
			parts := partitionsNow(r.ctx, ask, topic)
			return len(parts) > 0 && !slices.ContainsFunc(parts, func(p kmsg.MetadataResponseTopicPartition) bool {
				return len(p.ISR) < 3 || p.Leader != p.Replicas[0]
			})
		})
		ask.Close()
	}
}

// acked is a write that was acknowledged.
type acked struct {
	partition int32
	offset    int64
	value     string
}

// writeAround writes to a partition of a silent leader once another leads, and again until that is acknowledged. A
// client that waits for the silent machine is no measure of ours.
func (r *rig) writeAround(silent int32, topic string, index int32, value string) acked {
	r.t.Helper()
	ask := r.pinned(r.others(silent)[0]) // a client that knows the silent machine asks that, too
	defer ask.Close()
	out := acked{partition: index, value: value}
	r.eventually("write", func() bool {
		if leader := leaderNow(r.ctx, ask, topic, index); leader < 0 || leader == silent {
			return false
		}
		cl := r.survivors(silent, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
		defer cl.Close()
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		k, err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: index, Value: []byte(value)}).First()
		if err == nil {
			out.offset = k.Offset
		}
		return err == nil
	})
	return out
}

// reportSilence wants the median and the longest gap within their limits.
func reportSilence(t *testing.T, what string, gaps []time.Duration) {
	t.Helper()
	report(t, what, gaps, silenceLongest)
	if sorted := slices.Sorted(slices.Values(gaps)); sorted[len(sorted)/2] > silenceMedian {
		t.Errorf("%s: the median is %v, more than %v", what, sorted[len(sorted)/2], silenceMedian)
	}
}

// A machine that falls silent, as one that lost its power or its cable, is replaced as leader of partitions long before
// its session of nine seconds ends: a broker, and the controller. Nothing that was acknowledged is lost.
func TestSilentMachineIsReplaced(t *testing.T) {
	r, m := onMachines(t, defaults)
	r.create("kept", 3)
	var all []acked
	gaps := map[bool][]time.Duration{} // by whether the controller fell silent
	for i := range 2 * cuts() {
		r.recovered("kept")
		victim := r.controller()
		if i%2 == 0 {
			victim = victim%3 + 1
		}
		p := int32(-1)
		for _, of := range partitionsNow(r.ctx, r.cl, "kept") {
			if of.Leader == victim {
				p = of.Partition
			}
		}
		if err := m.Cut(victim); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		all = append(all, r.writeAround(victim, "kept", p, fmt.Sprint("value ", i)))
		gaps[i%2 == 1] = append(gaps[i%2 == 1], time.Since(began))
		if err := m.Heal(victim); err != nil {
			t.Fatal(err)
		}
	}
	reportSilence(t, "from a broker's silence to the next acknowledged write", gaps[false])
	reportSilence(t, "the same where the controller fell silent", gaps[true])
	r.recovered("kept")
	r.kept("kept", all)
}

// kept wants every acknowledged write where it was acknowledged.
func (r *rig) kept(topic string, all []acked) {
	r.t.Helper()
	at := map[acked]bool{}
	cl := r.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	r.eventually("all acknowledged writes", func() bool {
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		cl.PollFetches(ctx).EachRecord(func(k *kgo.Record) { at[acked{k.Partition, k.Offset, string(k.Value)}] = true })
		return !slices.ContainsFunc(all, func(a acked) bool { return !at[a] })
	})
}

// The coordinator of a group falls silent: the next commit is taken by another.
func TestSilentCoordinatorIsReplaced(t *testing.T) {
	r, m := onMachines(t, defaults)
	r.create("read", 1)
	offsets := kadm.Offsets{}
	offsets.AddOffset("read", 0, 0, -1)
	r.eventually("first commit", func() bool {
		return r.adm.CommitAllOffsets(r.ctx, "group", offsets) == nil
	})
	var gaps []time.Duration
	for i := range cuts() {
		r.recovered("__consumer_offsets")
		victim := int32(-1)
		r.eventually("coordinator", func() bool { victim = coordinator(r.ctx, r.cl, "group"); return victim > 0 })
		if err := m.Cut(victim); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ask := r.pinned(r.others(victim)[0])
		offsets.AddOffset("read", 0, int64(i+1), -1)
		r.eventually("commit", func() bool {
			if id := coordinator(r.ctx, ask, "group"); id < 0 || id == victim {
				return false
			}
			cl := r.survivors(victim)
			defer cl.Close()
			ctx, cancel := context.WithTimeout(r.ctx, time.Second)
			defer cancel()
			return kadm.NewClient(cl).CommitAllOffsets(ctx, "group", offsets) == nil
		})
		gaps = append(gaps, time.Since(began))
		ask.Close()
		if err := m.Heal(victim); err != nil {
			t.Fatal(err)
		}
	}
	reportSilence(t, "from a coordinator's silence to the next commit", gaps)
	r.eventually("last commit", func() bool {
		got, err := r.adm.FetchOffsets(r.ctx, "group")
		o, _ := got.Lookup("read", 0)
		return err == nil && o.At == int64(cuts())
	})
}

// coordinator is a group's as the brokers of ask have it, -1 when none says.
func coordinator(ctx context.Context, ask *kgo.Client, group string) int32 {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	for _, shard := range ask.RequestSharded(ctx, req) {
		if resp, ok := shard.Resp.(*kmsg.FindCoordinatorResponse); ok && shard.Err == nil && len(resp.Coordinators) == 1 && resp.Coordinators[0].ErrorCode == 0 {
			return resp.Coordinators[0].NodeID
		}
	}
	return -1
}
