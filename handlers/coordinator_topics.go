package handlers

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
	"grete/internal/loglimit"
	"grete/internal/sched"
	"grete/protocol"
)

const (
	offsetsTopic      = "__consumer_offsets"
	transactionsTopic = "__transaction_state"
)

// refusedTopicLogEvery is how often it is told that an internal topic cannot be made.
const refusedTopicLogEvery = 10 * time.Minute

// CoordinatorTopic is how an internal topic is made when a client first looks for a coordinator.
type CoordinatorTopic struct {
	Name              string
	Partitions        int32 // such as offsets.topic.num.partitions
	ReplicationFactor int16 // such as offsets.topic.replication.factor
	Configs           map[string]string
}

// CoordinatorTopics makes internal topics in the background, one attempt at a time for each.
type CoordinatorTopics struct {
	controller Controller
	log        zerolog.Logger
	topics     map[string]CoordinatorTopic
	ctx        context.Context
	stop       context.CancelFunc

	refusals map[string]*loglimit.Limit // by topic: clients ask for what cannot be made again and again

	mu       sched.Mutex
	creating map[string]bool
	running  sync.WaitGroup
}

// NewCoordinatorTopics knows how to make topics; Close ends what it has started.
func NewCoordinatorTopics(c Controller, clk clock.Clock, log zerolog.Logger, topics ...CoordinatorTopic) *CoordinatorTopics {
	t := &CoordinatorTopics{controller: c, log: log, topics: make(map[string]CoordinatorTopic), creating: make(map[string]bool), refusals: make(map[string]*loglimit.Limit)}
	t.ctx, t.stop = context.WithCancel(context.Background())
	for _, topic := range topics {
		t.topics[topic.Name] = topic
		t.refusals[topic.Name] = loglimit.New(clk, refusedTopicLogEvery)
	}
	return t
}

// Close cancels the attempts that run, waits for them, and makes none any more.
func (t *CoordinatorTopics) Close() {
	t.mu.Lock()
	t.stop()
	t.mu.Unlock()
	t.running.Wait()
}

// create starts to make a topic unless that is under way. Whoever wants it asks again.
func (t *CoordinatorTopics) create(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	topic, known := t.topics[name]
	if !known || t.creating[name] || t.ctx.Err() != nil {
		return
	}
	t.creating[name] = true
	t.running.Add(1)
	go t.run(topic)
}

func (t *CoordinatorTopics) run(topic CoordinatorTopic) {
	defer t.running.Done()
	if err := t.attempt(topic); err != nil {
		t.refusals[topic.Name].Write(&t.log, zerolog.WarnLevel, func(e *zerolog.Event) {
			e.Err(err).Str("topic", topic.Name).Int16("replicas", topic.ReplicationFactor).Msg("internal topic could not be created")
		})
	}
	t.mu.Lock()
	delete(t.creating, topic.Name)
	t.mu.Unlock()
}

func (t *CoordinatorTopics) attempt(topic CoordinatorTopic) error {
	resp, err := t.controller.Do(t.ctx, protocol.Principal{Type: "User", Name: "ANONYMOUS"}, topic.request())
	if err != nil {
		return err
	}
	for _, r := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if r.ErrorCode != 0 && r.ErrorCode != kerr.TopicAlreadyExists.Code {
			return kerr.ErrorForCode(r.ErrorCode)
		}
	}
	return nil
}

func (c CoordinatorTopic) request() *kmsg.CreateTopicsRequest {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = c.Name, c.Partitions, c.ReplicationFactor
	for name, value := range c.Configs {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = req.MaxVersion()
	req.Topics = append(req.Topics, topic)
	return req
}
