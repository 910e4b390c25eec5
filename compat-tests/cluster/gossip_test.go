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

// Three machines, one flag each for the id, the seeds and the number: that is a cluster. It bears a kill, takes a fourth node that is only told where
// the others are, starts again from its disks with the same commands, and refuses a node whose id is taken.
func TestJoinAndExpect(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	m := &machines{t: t, ctx: ctx, dir: t.TempDir(), port: 19092, brokers: map[int]*kafka.Broker{}}
	defer func() {
		for _, b := range m.brokers {
			if b != nil {
				_ = b.Kill()
			}
		}
	}()
	expect := []string{"--expect", "3"}
	t.Logf("three nodes form a cluster in %v", m.start(expect, 1, 2, 3))
	cl, err := kgo.NewClient(kgo.SeedBrokers(m.brokers[1].Addr, m.brokers[2].Addr, m.brokers[3].Addr), kgo.DefaultProduceTopic("t"), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	two := "2"
	if _, err := adm.CreateTopic(ctx, 1, 3, map[string]*string{"min.insync.replicas": &two}, "t"); err != nil {
		t.Fatal(err)
	}
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
	r := &rig{t: t, ctx: ctx, adm: adm}
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
