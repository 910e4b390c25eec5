// Package cluster tests brokers of several processes.
package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

// cluster is three brokers that all vote.
type cluster struct {
	t       *testing.T
	options []kafka.Options
	brokers []*kafka.Broker
}

func startCluster(t *testing.T, properties map[string]string) *cluster {
	t.Helper()
	ports := freePorts(t, 6)
	var voters []string
	for i := range 3 {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, ports[3+i]))
	}
	c := &cluster{t: t, brokers: make([]*kafka.Broker, 3)}
	for i := range 3 {
		p := map[string]string{
			"node.id": fmt.Sprint(i + 1), "controller.quorum.voters": strings.Join(voters, ","),
			"listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", ports[i], ports[3+i]),
		}
		for k, v := range properties {
			p[k] = v
		}
		c.options = append(c.options, kafka.Options{Dir: t.TempDir(), Port: ports[i], Properties: p})
	}
	t.Cleanup(func() {
		for _, b := range c.brokers {
			if b != nil {
				_ = b.Kill()
			}
		}
	})
	c.start(0, 1, 2)
	return c
}

func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// start starts brokers, by index, side by side.
func (c *cluster) start(indexes ...int) {
	c.t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for _, i := range indexes {
		wg.Go(func() { c.brokers[i], errs[i] = kafka.StartGrete(context.Background(), c.options[i]) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for _, o := range c.options {
		seeds = append(seeds, fmt.Sprint("127.0.0.1:", o.Port))
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(20 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("no %s in time", what)
}

// Kill -9 of a partition's leader, again and again, under a producer with acks=all: the next write is acknowledged soon after the session of
// the dead broker, and what was acknowledged is there, once.
func TestLeaderIsKilled(t *testing.T) {
	const sessionMs = 1000
	c := startCluster(t, map[string]string{
		"broker.session.timeout.ms": fmt.Sprint(sessionMs), "broker.heartbeat.interval.ms": "200", "offsets.topic.replication.factor": "3",
	})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cl := c.client(kgo.DefaultProduceTopic("kept"), kgo.ProducerLinger(0))
	admin := kadm.NewClient(cl)
	minISR := "2"
	if _, err := admin.CreateTopic(ctx, 1, 3, map[string]*string{"min.insync.replicas": &minISR}, "kept"); err != nil {
		t.Fatal(err)
	}
	partition := func() kadm.PartitionDetail {
		topics, err := admin.ListTopics(ctx, "kept")
		if err != nil {
			return kadm.PartitionDetail{Leader: -1}
		}
		return topics["kept"].Partitions[0]
	}
	acked := 0
	write := func() {
		t.Helper()
		if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint("value ", acked))).FirstErr(); err != nil {
			t.Fatalf("write %d: %v", acked, err)
		}
		acked++
	}
	var gaps []time.Duration
	for range 3 {
		for range 200 {
			write()
		}
		leader := int(partition().Leader) - 1
		_ = c.brokers[leader].Kill()
		began := time.Now()
		write()
		gaps = append(gaps, time.Since(began))
		for range 50 {
			write()
		}
		c.start(leader)
		eventually(t, "whole ISR", func() bool { return len(partition().ISR) == 3 })
	}
	slices.Sort(gaps)
	t.Logf("from kill -9 to the next acknowledged write: %v", gaps)
	if longest := gaps[len(gaps)-1]; longest > (2*sessionMs+2000)*time.Millisecond {
		t.Errorf("a write waited %v", longest)
	}
	c.readBack(acked)
}

// readBack wants every value once, in order.
func (c *cluster) readBack(count int) {
	c.t.Helper()
	consumer := c.client(kgo.ConsumeTopics("kept"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	next := 0
	eventually(c.t, "all records", func() bool {
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
	if next != count {
		c.t.Errorf("%d records, %d were acknowledged", next, count)
	}
}
