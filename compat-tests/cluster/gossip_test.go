package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

// machines are nodes on addresses of their own, as on machines of their own: every one of them uses the usual ports.
type machines struct {
	t       *testing.T
	ctx     context.Context
	dir     string
	port    int
	brokers map[int]*kafka.Broker
}

// host is the address of a node in 127.0.0.0/8, which no other run uses.
func (m *machines) host(id int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid/200%200, 1+pid%200, id)
}

// options start node id as an operator would on its machine: an address, and where the others are.
func (m *machines) options(id int, args ...string) kafka.Options {
	join := m.host(1) + "," + m.host(2) + ":7946"
	return kafka.Options{
		Dir: filepath.Join(m.dir, fmt.Sprint(id)), Host: m.host(id), Port: m.port, Properties: map[string]string{"group.initial.rebalance.delay.ms": "0"},
		Args: append([]string{"--node-id", fmt.Sprint(id), "--join", join}, args...),
	}
}

// start starts nodes side by side.
func (m *machines) start(args []string, ids ...int) time.Duration {
	m.t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, id := range ids {
		wg.Go(func() {
			o := m.options(id, args...)
			err := os.MkdirAll(o.Dir, 0o755)
			var b *kafka.Broker
			if err == nil {
				b, err = kafka.StartGrete(m.ctx, o)
			}
			mu.Lock()
			defer mu.Unlock()
			if m.brokers[id] = b; err != nil {
				m.t.Errorf("node %d: %v", id, err)
			}
		})
	}
	wg.Wait()
	if m.t.Failed() {
		m.t.FailNow()
	}
	return time.Since(began)
}

var expect = []string{"--expect", "3"}

// threeMachines form a cluster with a topic t of three replicas.
func threeMachines(t *testing.T) (*machines, *rig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	m := &machines{t: t, ctx: ctx, dir: t.TempDir(), port: 19092, brokers: map[int]*kafka.Broker{}}
	t.Cleanup(func() {
		for _, b := range m.brokers {
			if b != nil {
				_ = b.Kill()
			}
		}
	})
	t.Logf("three nodes form a cluster in %v", m.start(expect, 1, 2, 3))
	cl, err := kgo.NewClient(kgo.SeedBrokers(m.brokers[1].Addr, m.brokers[2].Addr, m.brokers[3].Addr), kgo.DefaultProduceTopic("t"), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	r := &rig{t: t, ctx: ctx, Cluster: &kafka.Cluster{}, cl: cl, adm: kadm.NewClient(cl)} // its nodes are machines
	r.create("t", 3)
	return m, r
}

// brokersOf is how many brokers are in service as the first seed of cl says, -1 when it does not.
func brokersOf(ctx context.Context, cl *kgo.Client) int {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := cl.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return -1
	}
	return len(resp.(*kmsg.MetadataResponse).Brokers)
}

// A broker that is paused for half of its session, so that gossip gives it up and the quorum replaces it, keeps its
// place: silence proves no death.
func TestPausedBrokerKeepsItsSession(t *testing.T) {
	m, r := threeMachines(t)
	r.eventually("whole ISR", func() bool { return r.whole("t") })
	controller := int(r.controller())
	for _, victim := range []int{controller%3 + 1, controller} {
		led := r.ledBy("t", int32(victim))
		if err := m.brokers[victim].Pause(); err != nil {
			t.Fatal(err)
		}
		other, err := kgo.NewClient(kgo.SeedBrokers(m.brokers[victim%3+1].Addr))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		for began := time.Now(); time.Since(began) < 4*time.Second; time.Sleep(100 * time.Millisecond) {
			if n := brokersOf(r.ctx, other); n >= 0 && n != 3 {
				t.Errorf("while broker %d is paused %d brokers are in service", victim, n)
			}
		}
		if err := m.brokers[victim].Resume(); err != nil {
			t.Fatal(err)
		}
		r.eventually("a write", func() bool { return r.cl.ProduceSync(r.ctx, kgo.StringRecord("v")).FirstErr() == nil })
		if p := r.partition("t", led); p.Leader != int32(victim) || p.LeaderEpoch != 0 {
			t.Errorf("broker %d was paused, and partition %d moved: %+v", victim, led, p)
		}
	}
}

// Three machines, one flag each for the id, the seeds and the number: that is a cluster. It bears a kill, takes a
// fourth node that is only told where the others are, starts again from its disks with the same commands, and refuses a
// node whose id is taken.
func TestJoinAndExpect(t *testing.T) {
	m, r := threeMachines(t)
	ctx, cl, adm := r.ctx, r.cl, r.adm
	write := func() time.Duration {
		t.Helper()
		began := time.Now()
		if err := cl.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	write()
	topics, err := adm.ListTopics(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	leader := int(topics["t"].Partitions[0].Leader)
	_ = m.brokers[leader].Kill()
	if took := write(); took > 2*time.Second {
		t.Errorf("a write waited %v for another leader", took)
	}
	m.start(expect, leader)
	t.Logf("a fourth joins in %v", m.start(nil, 4))
	brokers := func() int { return len(metadata(ctx, cl).Brokers) }
	r.eventually("four brokers", func() bool { return brokers() == 4 })
	m.refuses(4, 5)
	for _, b := range m.brokers {
		_ = b.Kill()
	}
	t.Logf("all start again in %v", m.start(expect, 1, 2, 3, 4))
	r.eventually("four brokers again", func() bool { return brokers() == 4 })
	r.eventually("whole ISR", func() bool { return len(r.partition("t", 0).ISR) == 3 })
	write()
}

// refuses starts a node on the machine of another id with an id that is taken.
func (m *machines) refuses(id, machine int) {
	m.t.Helper()
	o := m.options(machine)
	o.Args[1] = fmt.Sprint(id)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
	b, err := kafka.StartGrete(m.ctx, o)
	if err == nil {
		_ = b.Kill()
		m.t.Error("a second node of an id was let in")
	} else if !strings.Contains(err.Error(), fmt.Sprintf("has this one's node.id %d", id)) {
		m.t.Error(err)
	}
}
