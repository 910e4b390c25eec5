package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

// observer asks every broker for its view of the partitions, over and over: at one leader epoch there is one leader.
type observer struct {
	mu      sync.Mutex
	leaders map[string]int32 // by partition and leader epoch
	broken  []string
	seen    int
}

func (o *observer) note(by int32, topics kadm.TopicDetails) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen++
	topics.EachPartition(func(d kadm.PartitionDetail) {
		if d.Leader < 0 {
			return
		}
		key := fmt.Sprintf("%s-%d at epoch %d", d.Topic, d.Partition, d.LeaderEpoch)
		if other, ok := o.leaders[key]; ok && other != d.Leader {
			o.broken = append(o.broken, fmt.Sprintf("broker %d says that %s is led by %d, which was %d", by, key, d.Leader, other))
		}
		o.leaders[key] = d.Leader
	})
}

// observe goes on until stop is called.
func (r *rig) observe() (o *observer, stop func()) {
	o = &observer{leaders: map[string]int32{}}
	ctx, cancel := context.WithCancel(r.ctx)
	var running sync.WaitGroup
	for _, n := range r.Nodes {
		adm := kadm.NewClient(r.pinned(n.ID, kgo.MetadataMinAge(10*time.Millisecond)))
		running.Go(func() {
			for ctx.Err() == nil {
				asking, done := context.WithTimeout(ctx, time.Second)
				if topics, err := adm.ListTopics(asking); err == nil {
					o.note(n.ID, topics)
				}
				done()
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	return o, func() { cancel(); running.Wait() }
}

// FAULTS: "Controller killed or paused five times during topic and ISR changes → one leader per epoch, no lost change".
func TestControllerIsKilledAndPaused(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{})
	r.create("first", 6)
	o, stop := r.observe()
	changes := r.changeTopics()
	w := r.writer("first", 0)
	for i := range longer(5, 30) {
		controller := r.activeController()
		if i%2 == 0 {
			r.kill(controller)
		} else if err := r.Node(controller).Pause(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		before := changes.count()
		r.eventually("changes without that controller", func() bool { return changes.count() > before+1 })
		t.Logf("changes went on after %v", time.Since(began))
		w.write(20) // ISRs change meanwhile
		if i%2 == 0 {
			r.start(controller)
		} else if err := r.Node(controller).Resume(); err != nil {
			t.Fatal(err)
		}
		r.wholeISR("first", 0)
	}
	made := changes.stop()
	r.nothingMissing()
	stop()
	for _, broken := range o.broken {
		t.Error(broken)
	}
	for _, n := range r.Nodes {
		r.knows(n.ID, made)
	}
	w.readBack()
	t.Logf("%d topics made, %d looks at %d leaderships", len(made), o.seen, len(o.leaders))
}

// changes makes topics and changes their configuration, one after the other.
type changes struct {
	mu   sync.Mutex
	made []string
	end  func()
}

func (c *changes) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.made)
}

func (c *changes) stop() []string {
	c.end()
	return c.made
}

// changeTopics asks each broker in turn: the one that is paused keeps nobody waiting but its own clients.
func (r *rig) changeTopics() *changes {
	c := &changes{}
	ctx, cancel := context.WithCancel(r.ctx)
	var adms []*kadm.Client
	for _, n := range r.Nodes {
		adms = append(adms, kadm.NewClient(r.pinned(n.ID)))
	}
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if name := fmt.Sprint("made-", i); makeTopic(ctx, adms[i%len(adms)], name) {
				c.mu.Lock()
				c.made = append(c.made, name)
				c.mu.Unlock()
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	c.end = func() { cancel(); running.Wait() }
	return c
}

// makeTopic says whether both the topic and a configuration of it were acknowledged.
func makeTopic(ctx context.Context, adm *kadm.Client, name string) bool {
	asking, done := context.WithTimeout(ctx, time.Second)
	defer done()
	value := "12345"
	if made, err := adm.CreateTopic(asking, 2, 3, nil, name); err != nil || made.Err != nil {
		return false
	}
	answers, err := adm.AlterTopicConfigs(asking, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, name)
	if err != nil {
		return false
	}
	_, err = answers.On(name, func(a *kadm.AlterConfigsResponse) error { return a.Err })
	return err == nil
}

// knows: a broker has every topic with its configuration.
func (r *rig) knows(id int32, topics []string) {
	r.t.Helper()
	var missing string
	adm := kadm.NewClient(r.pinned(id))
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		missing = ""
		configs, err := adm.DescribeTopicConfigs(r.ctx, topics...)
		if err != nil {
			missing = err.Error()
			continue
		}
		for _, topic := range topics {
			c, err := configs.On(topic, nil)
			found := err == nil && c.Err == nil
			if found {
				found = false
				for _, pair := range c.Configs {
					found = found || pair.Key == "retention.ms" && pair.MaybeValue() == "12345"
				}
			}
			if !found {
				missing = topic
			}
		}
		if missing == "" {
			return
		}
	}
	r.t.Errorf("broker %d does not know %s", id, missing)
}
