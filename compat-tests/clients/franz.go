package clients

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// franz is franz-go.
type franz struct {
	addr    string
	members map[string]*franzMember
}

type franzMember struct {
	cl       *kgo.Client
	assigned map[int32]bool
}

// NewFranz drives twmb/franz-go.
func NewFranz(addr string) Client { return &franz{addr: addr, members: map[string]*franzMember{}} }

var franzCodecs = map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}

func (f *franz) Do(op Op) (Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	switch op.Op {
	case "create":
		return f.create(ctx, op)
	case "produce":
		return f.produce(ctx, op)
	case "transact":
		return f.transact(ctx, op)
	case "consume":
		return f.consume(ctx, op)
	case "join":
		return f.join(op)
	case "poll":
		return f.poll(ctx, op)
	case "commit":
		return Reply{}, f.members[op.Member].cl.CommitUncommittedOffsets(ctx)
	case "leave":
		f.members[op.Member].cl.Close()
		delete(f.members, op.Member)
		return Reply{}, nil
	case "offsetForTime":
		return f.offsetForTime(ctx, op)
	}
	return Reply{}, fmt.Errorf("unknown operation %s", op.Op)
}

func (f *franz) Close() error {
	for _, m := range f.members {
		m.cl.Close()
	}
	return nil
}

func (f *franz) admin() (*kadm.Client, error) { return kadm.NewOptClient(kgo.SeedBrokers(f.addr)) }

func (f *franz) create(ctx context.Context, op Op) (Reply, error) {
	adm, err := f.admin()
	if err != nil {
		return Reply{}, err
	}
	defer adm.Close()
	_, err = adm.CreateTopic(ctx, op.Partitions, 1, nil, op.Topic)
	return Reply{}, err
}

func (f *franz) produce(ctx context.Context, op Op) (Reply, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(f.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(franzCodecs[op.Codec])}
	if !op.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return Reply{}, err
	}
	defer cl.Close()
	return Reply{}, cl.ProduceSync(ctx, toFranz(op)...).FirstErr()
}

func toFranz(op Op) []*kgo.Record {
	var rs []*kgo.Record
	for _, r := range op.Records {
		k := &kgo.Record{Topic: op.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.TimeMs)}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
		}
		rs = append(rs, k)
	}
	return rs
}

// transact commits the offset by kadm: kgo's own way is a whole session of a group's member.
func (f *franz) transact(ctx context.Context, op Op) (Reply, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(op.TransactionalID))
	if err != nil {
		return Reply{}, err
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		return Reply{}, err
	}
	if err := cl.ProduceSync(ctx, toFranz(op)...).FirstErr(); err != nil {
		return Reply{}, err
	}
	if err := f.txnOffset(ctx, cl, op); err != nil {
		return Reply{}, err
	}
	return Reply{}, cl.EndTransaction(ctx, kgo.TransactionEndTry(op.Commit))
}

func (f *franz) txnOffset(ctx context.Context, cl *kgo.Client, op Op) error {
	id, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	topics, err := kadm.NewClient(cl).ListTopics(ctx, op.Topic)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = op.TransactionalID, op.Group, id, epoch
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = op.Topic, topics[op.Topic].ID
	part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	part.Offset = op.Offset
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

func (f *franz) consume(ctx context.Context, op Op) (Reply, error) {
	isolation := kgo.ReadUncommitted()
	if op.Committed {
		isolation = kgo.ReadCommitted()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.FetchIsolationLevel(isolation), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		op.Topic: {op.Partition: kgo.NewOffset().At(op.Offset)}}))
	if err != nil {
		return Reply{}, err
	}
	defer cl.Close()
	var out Reply
	for len(out.Records) < op.Count {
		fetches := cl.PollRecords(ctx, op.Count-len(out.Records))
		if err := fetches.Err(); err != nil {
			return out, err
		}
		out.Records = append(out.Records, franzRecords(fetches)...)
	}
	return out, nil
}

func franzRecords(fetches kgo.Fetches) []Record {
	var out []Record
	fetches.EachRecord(func(k *kgo.Record) {
		r := Record{Partition: k.Partition, Offset: k.Offset, TimeMs: k.Timestamp.UnixMilli(), Key: k.Key, Value: k.Value}
		for _, h := range k.Headers {
			r.Headers = append(r.Headers, [2]string{h.Key, string(h.Value)})
		}
		out = append(out, r)
	})
	return out
}

func (f *franz) join(op Op) (Reply, error) {
	m := &franzMember{assigned: map[int32]bool{}}
	set := func(to bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			for _, p := range parts[op.Topic] {
				m.assigned[p] = to
			}
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.ConsumerGroup(op.Group), kgo.ConsumeTopics(op.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(set(true)), kgo.OnPartitionsRevoked(set(false)), kgo.OnPartitionsLost(set(false)))
	m.cl = cl
	f.members[op.Member] = m
	return Reply{}, err
}

func (f *franz) poll(ctx context.Context, op Op) (Reply, error) {
	m := f.members[op.Member]
	ctx, cancel := context.WithTimeout(ctx, time.Duration(op.WaitMs)*time.Millisecond)
	defer cancel()
	fetches := m.cl.PollFetches(ctx)
	out := Reply{Records: franzRecords(fetches)}
	for p, on := range m.assigned { // BlockRebalanceOnPoll: no callback runs before AllowRebalance
		if on {
			out.Assigned = append(out.Assigned, p)
		}
	}
	m.cl.AllowRebalance()
	return out, nil
}

func (f *franz) offsetForTime(ctx context.Context, op Op) (Reply, error) {
	adm, err := f.admin()
	if err != nil {
		return Reply{}, err
	}
	defer adm.Close()
	listed, err := adm.ListOffsetsAfterMilli(ctx, op.TimeMs, op.Topic)
	if err != nil {
		return Reply{}, err
	}
	o, _ := listed.Lookup(op.Topic, op.Partition)
	return Reply{Offset: o.Offset}, o.Err
}
