package clients

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// saramaClient is IBM/sarama.
type saramaClient struct {
	addr    string
	members map[string]*saramaMember
}

// NewSarama drives IBM/sarama.
func NewSarama(addr string) Client {
	return &saramaClient{addr: addr, members: map[string]*saramaMember{}}
}

var saramaCodecs = map[string]sarama.CompressionCodec{"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD}

func saramaConfig() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	return c
}

func (s *saramaClient) Do(op Op) (Reply, error) {
	switch op.Op {
	case "create":
		adm, err := sarama.NewClusterAdmin([]string{s.addr}, saramaConfig())
		if err != nil {
			return Reply{}, err
		}
		defer adm.Close()
		return Reply{}, adm.CreateTopic(op.Topic, &sarama.TopicDetail{NumPartitions: op.Partitions, ReplicationFactor: 1}, false)
	case "produce":
		return s.produce(op)
	case "transact":
		return s.transact(op)
	case "consume":
		return s.consume(op)
	case "join":
		return s.join(op)
	case "poll":
		return s.members[op.Member].poll(time.Duration(op.WaitMs) * time.Millisecond), nil
	case "commit":
		s.members[op.Member].commit()
		return Reply{}, nil
	case "leave":
		m := s.members[op.Member]
		delete(s.members, op.Member)
		return Reply{}, m.close()
	case "offsetForTime":
		cl, err := sarama.NewClient([]string{s.addr}, saramaConfig())
		if err != nil {
			return Reply{}, err
		}
		defer cl.Close()
		o, err := cl.GetOffset(op.Topic, op.Partition, op.TimeMs)
		return Reply{Offset: o}, err
	}
	return Reply{}, fmt.Errorf("unknown operation %s", op.Op)
}

func (s *saramaClient) Close() error {
	for _, m := range s.members {
		_ = m.close()
	}
	return nil
}

func (s *saramaClient) produce(op Op) (Reply, error) {
	c := saramaConfig()
	c.Producer.Compression = saramaCodecs[op.Codec]
	if op.Idempotent {
		c.Producer.Idempotent, c.Net.MaxOpenRequests, c.Producer.RequiredAcks = true, 1, sarama.WaitForAll
	}
	p, err := sarama.NewSyncProducer([]string{s.addr}, c)
	if err != nil {
		return Reply{}, err
	}
	defer p.Close()
	return Reply{}, p.SendMessages(toSarama(op))
}

func (s *saramaClient) transact(op Op) (Reply, error) {
	c := saramaConfig()
	c.Producer.Idempotent, c.Net.MaxOpenRequests, c.Producer.RequiredAcks = true, 1, sarama.WaitForAll
	c.Producer.Transaction.ID = op.TransactionalID
	p, err := sarama.NewSyncProducer([]string{s.addr}, c)
	if err != nil {
		return Reply{}, err
	}
	defer p.Close()
	if err := p.BeginTxn(); err != nil {
		return Reply{}, err
	}
	if err := p.SendMessages(toSarama(op)); err != nil {
		return Reply{}, err
	}
	offsets := map[string][]*sarama.PartitionOffsetMetadata{op.Topic: {{Partition: 0, Offset: op.Offset, LeaderEpoch: -1}}}
	if err := p.AddOffsetsToTxn(offsets, op.Group); err != nil {
		return Reply{}, err
	}
	if op.Commit {
		return Reply{}, p.CommitTxn()
	}
	return Reply{}, p.AbortTxn()
}

func toSarama(op Op) []*sarama.ProducerMessage {
	var ms []*sarama.ProducerMessage
	for _, r := range op.Records {
		m := &sarama.ProducerMessage{Topic: op.Topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.TimeMs), Key: sarama.ByteEncoder(r.Key)}
		if r.Value != nil {
			m.Value = sarama.ByteEncoder(r.Value)
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h[0]), Value: []byte(h[1])})
		}
		ms = append(ms, m)
	}
	return ms
}

func saramaRecord(m *sarama.ConsumerMessage) Record {
	r := Record{Partition: m.Partition, Offset: m.Offset, TimeMs: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, [2]string{string(h.Key), string(h.Value)})
	}
	return r
}

func (s *saramaClient) consume(op Op) (Reply, error) {
	cfg := saramaConfig()
	if op.Committed {
		cfg.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	c, err := sarama.NewConsumer([]string{s.addr}, cfg)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	pc, err := c.ConsumePartition(op.Topic, op.Partition, op.Offset)
	if err != nil {
		return Reply{}, err
	}
	defer pc.Close()
	var out Reply
	for timeout := time.After(opTimeout); len(out.Records) < op.Count; {
		select {
		case m := <-pc.Messages():
			out.Records = append(out.Records, saramaRecord(m))
		case <-timeout:
			return out, fmt.Errorf("%d of %d records", len(out.Records), op.Count)
		}
	}
	return out, nil
}

// saramaMember is a sarama.ConsumerGroupHandler that gathers what comes.
type saramaMember struct {
	group   sarama.ConsumerGroup
	cancel  context.CancelFunc
	done    chan struct{}
	mu      sync.Mutex
	session sarama.ConsumerGroupSession
	parts   []int32
	got     []*sarama.ConsumerMessage
	polled  []*sarama.ConsumerMessage
}

func (s *saramaClient) join(op Op) (Reply, error) {
	g, err := sarama.NewConsumerGroup([]string{s.addr}, op.Group, saramaConfig())
	if err != nil {
		return Reply{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &saramaMember{group: g, cancel: cancel, done: make(chan struct{})}
	s.members[op.Member] = m
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{op.Topic}, m); err != nil {
				time.Sleep(50 * time.Millisecond)
			}
		}
	}()
	return Reply{}, nil
}

func (m *saramaMember) Setup(s sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.parts = s, nil
	for _, ps := range s.Claims() {
		m.parts = append(m.parts, ps...)
	}
	return nil
}

func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.parts = nil, nil
	return nil
}

func (m *saramaMember) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for msg := range c.Messages() {
		m.mu.Lock()
		m.got = append(m.got, msg)
		m.mu.Unlock()
	}
	return nil
}

func (m *saramaMember) poll(wait time.Duration) Reply {
	time.Sleep(wait)
	m.mu.Lock()
	defer m.mu.Unlock()
	out := Reply{Assigned: slices.Clone(m.parts)}
	for _, msg := range m.got {
		out.Records = append(out.Records, saramaRecord(msg))
	}
	m.polled, m.got = append(m.polled, m.got...), nil
	return out
}

func (m *saramaMember) commit() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, msg := range m.polled {
		m.session.MarkMessage(msg, "")
	}
	m.session.Commit()
}

func (m *saramaMember) close() error {
	m.cancel()
	err := m.group.Close()
	<-m.done
	return err
}
