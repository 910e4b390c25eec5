package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
)

// kafkaGo is segmentio/kafka-go. Its group readers do not tell their partitions: they are taken from what is read.
type kafkaGo struct {
	addr    string
	members map[string]*kafkaGoMember
}

type kafkaGoMember struct {
	group *kafkago.ConsumerGroup
	gens  chan *kafkago.Generation
	gen   *kafkago.Generation
	topic string
	next  map[int]int64
	got   chan kafkago.Message
	done  chan struct{}
}

// NewKafkaGo drives segmentio/kafka-go.
func NewKafkaGo(addr string) Client {
	return &kafkaGo{addr: addr, members: map[string]*kafkaGoMember{}}
}

var kafkaGoCodecs = map[string]kafkago.Compression{"none": compress.None, "gzip": kafkago.Gzip, "snappy": kafkago.Snappy,
	"lz4": kafkago.Lz4, "zstd": kafkago.Zstd}

func (k *kafkaGo) client() *kafkago.Client {
	return &kafkago.Client{Addr: kafkago.TCP(k.addr), Timeout: opTimeout}
}

func (k *kafkaGo) Do(op Op) (Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	switch op.Op {
	case "create":
		r, err := k.client().CreateTopics(ctx, &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{
			{Topic: op.Topic, NumPartitions: int(op.Partitions), ReplicationFactor: 1}}})
		if err != nil {
			return Reply{}, err
		}
		return Reply{}, r.Errors[op.Topic]
	case "produce":
		return k.produce(ctx, op)
	case "consume":
		return k.consume(ctx, op)
	case "join":
		return k.join(op)
	case "poll":
		return k.members[op.Member].poll(time.Duration(op.WaitMs) * time.Millisecond), nil
	case "commit":
		m := k.members[op.Member]
		return Reply{}, m.gen.CommitOffsets(map[string]map[int]int64{m.topic: m.next})
	case "leave":
		m := k.members[op.Member]
		delete(k.members, op.Member)
		err := m.group.Close()
		<-m.done
		return Reply{}, err
	case "offsetForTime":
		r, err := k.client().ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{
			op.Topic: {kafkago.TimeOffsetOf(int(op.Partition), time.UnixMilli(op.TimeMs))}}})
		if err != nil {
			return Reply{}, err
		}
		for offset := range r.Topics[op.Topic][0].Offsets {
			return Reply{Offset: offset}, nil
		}
		return Reply{}, fmt.Errorf("no offset in %+v", r)
	}
	return Reply{}, fmt.Errorf("unknown operation %s", op.Op)
}

func (k *kafkaGo) Close() error { return nil }

func (k *kafkaGo) produce(ctx context.Context, op Op) (Reply, error) {
	// One Produce per partition: the Writer has no manual partitioner that takes a number from the message.
	for p := range int32(partitionsOf(op.Records)) {
		if err := k.send(ctx, op, p); err != nil {
			return Reply{}, err
		}
	}
	return Reply{}, nil
}

// send produces to one partition; like the library's Writer it repeats what a new topic's leader refuses.
func (k *kafkaGo) send(ctx context.Context, op Op, partition int32) error {
	for {
		r, err := k.client().Produce(ctx, &kafkago.ProduceRequest{Topic: op.Topic, Partition: int(partition), RequiredAcks: kafkago.RequireAll,
			Records: kafkago.NewRecordReader(kafkaGoRecords(op.Records, partition)...), Compression: kafkaGoCodecs[op.Codec]})
		if err == nil {
			err = r.Error
		}
		var refused kafkago.Error
		if !errors.As(err, &refused) || !refused.Temporary() || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func kafkaGoRecords(records []Record, partition int32) []kafkago.Record {
	var out []kafkago.Record
	for _, r := range records {
		if r.Partition != partition {
			continue
		}
		rec := kafkago.Record{Time: time.UnixMilli(r.TimeMs), Key: kafkago.NewBytes(r.Key), Value: kafkago.NewBytes(r.Value)}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, kafkago.Header{Key: h[0], Value: []byte(h[1])})
		}
		out = append(out, rec)
	}
	return out
}

func partitionsOf(records []Record) int {
	n := 0
	for _, r := range records {
		n = max(n, int(r.Partition)+1)
	}
	return n
}

func kafkaGoRecord(m kafkago.Message) Record {
	r := Record{Partition: int32(m.Partition), Offset: m.Offset, TimeMs: m.Time.UnixMilli(), Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, [2]string{h.Key, string(h.Value)})
	}
	return r
}

func (k *kafkaGo) reader(topic string, partition int, offset int64) (*kafkago.Reader, error) {
	r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: []string{k.addr}, Topic: topic, Partition: partition, MaxWait: 200 * time.Millisecond, MaxBytes: 10 << 20})
	return r, r.SetOffset(offset)
}

func (k *kafkaGo) consume(ctx context.Context, op Op) (Reply, error) {
	r, err := k.reader(op.Topic, int(op.Partition), op.Offset)
	if err != nil {
		return Reply{}, err
	}
	defer r.Close()
	var out Reply
	for len(out.Records) < op.Count {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return out, err
		}
		out.Records = append(out.Records, kafkaGoRecord(m))
	}
	return out, nil
}

func (k *kafkaGo) join(op Op) (Reply, error) {
	g, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{ID: op.Group, Brokers: []string{k.addr}, Topics: []string{op.Topic},
		StartOffset: kafkago.FirstOffset})
	if err != nil {
		return Reply{}, err
	}
	m := &kafkaGoMember{group: g, gens: make(chan *kafkago.Generation, 16), topic: op.Topic, next: map[int]int64{},
		got: make(chan kafkago.Message, 1024), done: make(chan struct{})}
	k.members[op.Member] = m
	go func() {
		defer close(m.done)
		for {
			gen, err := g.Next(context.Background())
			if err == kafkago.ErrGroupClosed {
				return
			}
			if err == nil {
				k.follow(m, gen)
			}
		}
	}()
	return Reply{}, nil
}

// follow reads the generation's partitions until it ends.
func (k *kafkaGo) follow(m *kafkaGoMember, gen *kafkago.Generation) {
	for _, a := range gen.Assignments[m.topic] {
		gen.Start(func(ctx context.Context) {
			r, err := k.reader(m.topic, a.ID, a.Offset)
			if err != nil {
				return
			}
			defer r.Close()
			for {
				msg, err := r.ReadMessage(ctx)
				if err == io.EOF || ctx.Err() != nil {
					return
				}
				if err == nil {
					m.got <- msg
				}
			}
		})
	}
	m.gens <- gen
}

func (m *kafkaGoMember) poll(wait time.Duration) Reply {
	var out Reply
	for timeout := time.After(wait); ; {
		select {
		case m.gen = <-m.gens:
			continue
		case msg := <-m.got:
			out.Records = append(out.Records, kafkaGoRecord(msg))
			m.next[msg.Partition] = msg.Offset + 1
			continue
		case <-timeout:
		}
		break
	}
	if m.gen != nil {
		for _, a := range m.gen.Assignments[m.topic] {
			out.Assigned = append(out.Assigned, int32(a.ID))
		}
	}
	return out
}
