package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"grete/compat-tests/kafka"
)

// The figures of this file are those of three brokers on one machine, all of them controllers, with three replicas of
// everything and min.insync.replicas=2.

// clusterJVM is brokerJVM with a heap of which three fit on a machine beside the load.
var clusterJVM = append([]string{"-Xmx512m", "-Xms512m"}, brokerJVM[2:]...)

// withTwoInSync adds what every cluster of a benchmark is started with.
func withTwoInSync(properties map[string]string) map[string]string {
	out := map[string]string{"min.insync.replicas": "2", "default.replication.factor": "3", "group.initial.rebalance.delay.ms": "0"}
	for k, v := range properties {
		out[k] = v
	}
	return out
}

// startCluster starts three brokers.
func startCluster(ctx context.Context, name, dir string, properties map[string]string) (*target, error) {
	o := kafka.ClusterOptions{Dir: dir, Properties: withTwoInSync(properties), JVM: clusterJVM, Start: kafka.StartApache}
	if name == "grete" {
		o.Start = kafka.StartGrete
	}
	c, err := kafka.StartCluster(ctx, o)
	if err != nil {
		return nil, err
	}
	t := &target{name: name, endpoint: endpoint{addr: c.Nodes[0].Addr()}, cluster: c}
	for _, n := range c.Nodes {
		t.pids = append(t.pids, n.Pid())
	}
	t.kill = func() error { c.Kill(); return nil }
	t.stop = t.kill // nothing is looked at afterwards
	return t, nil
}

func clusterComparisons(scale int64) []comparison {
	cpuGiB := func(s sample) float64 { return s.cpuPerGiB }
	p50, p99 := func(s sample) float64 { return s.p50 }, func(s sample) float64 { return s.p99 }
	return []comparison{
		{name: "cluster-produce64", brokers: 3, warm: true, targets: both,
			run:     produce(produceLoad{topic: "p64", partitions: 6, totalBytes: scale << 29, batchBytes: 65536, conns: 1, inFlight: 5}),
			figures: []figure{{"acks=all, 64 KiB batches: CPU of all brokers, s/GiB", cpuGiB, "kafka", .5, 0}}},
		{name: "cluster-rtt", brokers: 3, warm: true, targets: both,
			run:     func(t *target, _ int) (sample, error) { return rttLoad("rtt", 300, 5000)(t) },
			figures: []figure{{"acks=all, rtt of a 300-byte batch: p50 ms", p50, "kafka", .5, 0}, {"acks=all, rtt of a 300-byte batch: p99 ms", p99, "kafka", .5, 0}}},
		{name: "cluster-create", brokers: 3, rounds: 1, targets: both, run: createMany,
			figures: []figure{{"create 1,000 topics × 10 partitions × 3 replicas: s", func(s sample) float64 { return s.seconds }, "kafka", .5, 0}}},
	}
}

const (
	manyTopics     = 1000
	topicsAtOnce   = 100 // Kafka's controller refuses what makes more than 10,000 records
	partitionsEach = 10
)

// createMany makes topics, a hundred a request, until a batch is acknowledged on each partition of the last of them.
func createMany(t *target, round int) (sample, error) {
	m := startMeter(t)
	last, err := makeTopics(t, fmt.Sprint("many-", round), manyTopics)
	if err != nil {
		return sample{}, err
	}
	err = settle(t, last, partitionsEach, recordBatch(300, 200, time.Now().UnixMilli()))
	return m.sample(1), err
}

// makeTopics makes n topics of partitionsEach partitions.
func makeTopics(t *target, prefix string, n int) (last string, err error) {
	for made := 0; made < n; {
		var names []string
		for range min(topicsAtOnce, n-made) {
			last = fmt.Sprintf("%s-%d", prefix, made)
			names = append(names, last)
			made++
		}
		if err := createTopics(t, partitionsEach, names...); err != nil {
			return "", err
		}
	}
	return last, nil
}

// clusterWorks are the figures of our brokers alone.
func clusterWorks(ctx context.Context) []work {
	ours := func(topic string, run func(context.Context, *load, int) ([]row, error)) func(string, int) ([]row, error) {
		return func(scratch string, rounds int) (rows []row, err error) {
			t, err := startCluster(ctx, "grete", filepath.Join(scratch, topic), nil)
			if err != nil {
				return nil, err
			}
			defer t.cluster.Kill()
			l, err := startLoad(ctx, t.cluster, topic)
			if err != nil {
				return nil, err
			}
			defer l.close()
			rows, err = run(ctx, l, rounds)
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, t.cluster.Tails())
			}
			return rows, err
		}
	}
	return []work{
		{"cluster-kill", ours("killed", killLeader)}, {"cluster-restart", ours("restarted", restartEach)},
		{"cluster-controller", ours("controlled", killController)}, {"cluster-lose", ours("lost", loseBroker)},
	}
}

// kills is how often a leader is killed.
const kills = 20

// killLeader: kill -9 of the leader of a partition, to the next acknowledged write.
func killLeader(ctx context.Context, l *load, _ int) ([]row, error) {
	var gaps []float64
	for range kills {
		leader, err := l.leader(ctx, 0)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := l.cluster.Node(leader).Kill(); err != nil {
			return nil, err
		}
		if err := l.ackedSince(ctx, time.Now()); err != nil {
			return nil, err
		}
		gaps = append(gaps, l.longestGap(began, time.Now()).Seconds())
		if err := errors.Join(l.cluster.Start(ctx), l.wholeAgain(ctx)); err != nil {
			return nil, err
		}
	}
	return []row{bound("kill −9 of a leader → next acked write: p50 of 20", median(gaps), 1, "s"),
		bound("kill −9 of a leader → next acked write: max of 20", greatest(gaps), 2, "s")}, nil
}

// restartEach stops each broker in turn, as its administrator would, and starts it again.
func restartEach(ctx context.Context, l *load, rounds int) ([]row, error) {
	var gaps []float64
	for range rounds {
		for _, n := range l.cluster.Nodes {
			began := time.Now()
			if err := errors.Join(n.Stop(), n.Start(ctx), l.wholeAgain(ctx)); err != nil {
				return nil, err
			}
			gaps = append(gaps, l.longestGap(began, time.Now()).Seconds()*1000)
		}
	}
	if err := l.failed(); err != nil {
		return nil, fmt.Errorf("a client has seen an error: %w", err)
	}
	return []row{bound("graceful restart of each broker under load: longest gap without an ack", greatest(gaps), 300, "ms")}, nil
}

// killController: kill -9 of the controller, to the next topic made.
func killController(ctx context.Context, l *load, rounds int) ([]row, error) {
	var took []float64
	for i := range 2 * rounds {
		controller, err := l.controller(ctx)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := l.cluster.Node(controller).Kill(); err != nil {
			return nil, err
		}
		if err := l.makeTopic(ctx, fmt.Sprint("after-", i)); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began).Seconds())
		if err := errors.Join(l.cluster.Start(ctx), l.wholeAgain(ctx)); err != nil {
			return nil, err
		}
	}
	return []row{bound("kill −9 of the controller → next topic created: max", greatest(took), 2, "s")}, nil
}

// loseBroker: a broker with 10,000 partitions dies.
func loseBroker(ctx context.Context, l *load, _ int) ([]row, error) {
	t := &target{endpoint: endpoint{addr: l.cluster.Nodes[0].Addr()}, cluster: l.cluster}
	if _, err := makeTopics(t, "of-many", manyTopics); err != nil {
		return nil, err
	}
	if err := l.wholeAgain(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := l.cluster.Nodes[2].Kill(); err != nil {
		return nil, err
	}
	if err := l.nothingLedBy(ctx, 3); err != nil {
		return nil, err
	}
	return []row{bound("broker with 10,000 partitions dies → all re-led", time.Since(began).Seconds(), 3, "s")}, nil
}
