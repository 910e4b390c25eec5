package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

// loadPartitions is how many partitions are written to while brokers come and go.
const loadPartitions = 6

// load writes to each partition of a topic, one record after another with acks=all, and remembers when each was
// acknowledged.
type load struct {
	cluster *kafka.Cluster
	topic   string
	clients []*kgo.Client
	adm     *kadm.Client
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	acks [loadPartitions][]ack
	err  error
}

// ack is when a record was written, and when that was acknowledged.
type ack struct{ sent, at time.Time }

// startLoad makes the topic and returns when every partition is written to.
func startLoad(ctx context.Context, c *kafka.Cluster, topic string) (*load, error) {
	l := &load{cluster: c, topic: topic}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.MetadataMinAge(10*time.Millisecond)) // it is asked who leads now
	if err != nil {
		return nil, err
	}
	l.clients, l.adm = append(l.clients, cl), kadm.NewClient(cl)
	made, err := l.adm.CreateTopic(ctx, loadPartitions, 3, nil, topic)
	if err == nil {
		err = made.Err
	}
	if err != nil {
		return nil, err
	}
	ctx, l.cancel = context.WithCancel(ctx)
	for p := range int32(loadPartitions) {
		// One client each, so that a partition does not wait for what another one waits for. No pause of its own hides
		// what a broker does.
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
			kgo.MetadataMinAge(20*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
		if err != nil {
			l.close()
			return nil, err
		}
		l.clients = append(l.clients, cl)
		l.running.Go(func() { l.write(ctx, cl, p) })
	}
	return l, l.ackedSince(ctx, time.Now())
}

func (l *load) close() {
	if l.cancel != nil {
		l.cancel()
	}
	l.running.Wait()
	for _, cl := range l.clients {
		cl.Close()
	}
}

// writeEvery is the pause between an acknowledgement and the next write.
const writeEvery = 2 * time.Millisecond

func (l *load) write(ctx context.Context, cl *kgo.Client, p int32) {
	for ctx.Err() == nil {
		sent := time.Now()
		err := cl.ProduceSync(ctx, &kgo.Record{Topic: l.topic, Partition: p, Value: make([]byte, 200)}).FirstErr()
		l.mu.Lock()
		if err == nil {
			l.acks[p] = append(l.acks[p], ack{sent, time.Now()})
		} else if ctx.Err() == nil {
			l.err = errors.Join(l.err, fmt.Errorf("partition %d: %w", p, err))
		}
		l.mu.Unlock()
		time.Sleep(writeEvery)
	}
}

func (l *load) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// longestGap is the longest time between two acknowledgements of one partition that reaches into from…to.
func (l *load) longestGap(from, to time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, acks := range l.acks {
		before := from
		for _, a := range acks {
			if a.at.After(to) {
				break
			}
			if a.at.After(from) {
				longest = max(longest, a.at.Sub(before))
			}
			before = a.at
		}
	}
	return longest
}

// patience bounds a wait for the cluster.
const patience = time.Minute

// pollEvery is the pause between two looks: what is asked must not keep the brokers from their work.
const pollEvery = 20 * time.Millisecond

func (l *load) until(ctx context.Context, what string, f func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ctx.Err() == nil {
		if f(ctx) {
			return nil
		}
		time.Sleep(pollEvery)
	}
	return fmt.Errorf("not within %v: %s", patience, what)
}

// ackedSince waits until every partition has acknowledged something that was sent after t.
func (l *load) ackedSince(ctx context.Context, t time.Time) error {
	return l.until(ctx, "a write to every partition", func(context.Context) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, acks := range l.acks {
			if len(acks) == 0 || !acks[len(acks)-1].sent.After(t) {
				return false
			}
		}
		return true
	})
}

// leader is who leads a partition of the topic.
func (l *load) leader(ctx context.Context, p int32) (id int32, err error) {
	return id, l.until(ctx, "a leader", func(ctx context.Context) bool {
		topics, err := l.adm.ListTopics(ctx, l.topic)
		id = topics[l.topic].Partitions[p].Leader
		return err == nil && id > 0
	})
}

// wholeAgain waits until all replicas of the topic are in sync and led by the first of them, where that is what happens
// by itself.
func (l *load) wholeAgain(ctx context.Context) error {
	return l.until(ctx, "all replicas in sync", func(ctx context.Context) bool {
		topics, err := l.adm.ListTopics(ctx, l.topic)
		if err != nil {
			return false
		}
		ps := topics[l.topic].Partitions
		return len(ps) == loadPartitions && !slices.ContainsFunc(ps.Sorted(), func(p kadm.PartitionDetail) bool { return len(p.ISR) < 3 || p.Leader < 0 })
	})
}

// controller is the leader of the metadata quorum.
func (l *load) controller(ctx context.Context) (id int32, err error) {
	return id, l.until(ctx, "a controller", func(ctx context.Context) bool {
		id, err = quorumLeader(ctx, l.clients[0])
		return err == nil && id > 0
	})
}

func (l *load) makeTopic(ctx context.Context, name string) error {
	return l.until(ctx, "a new topic", func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		made, err := l.adm.CreateTopic(ctx, 1, 3, nil, name)
		return err == nil && made.Err == nil
	})
}

// nothingLedBy waits until a live broker says that every partition is led, none by id.
func (l *load) nothingLedBy(ctx context.Context, id int32) error {
	return l.until(ctx, "leaders for all", func(ctx context.Context) bool {
		topics, err := l.adm.ListTopics(ctx)
		if err != nil || len(topics) < manyTopics {
			return false
		}
		for _, t := range topics {
			for _, p := range t.Partitions {
				if p.Leader == id || p.Leader < 0 {
					return false
				}
			}
		}
		return true
	})
}
