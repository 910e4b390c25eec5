package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/history"
	"grete/protocol"
	"grete/protocol/batch"
)

// client is one life of a client on a host of its own, which dies with it. It does one thing at a time. Stock clients
// hold locks while they wait for an answer, which stops the simulation's time; they are tested against real processes.
type client struct {
	c     *clients
	name  string
	host  string
	rng   *rand.Rand
	conns map[int32]*protocol.Client // by broker

	ids     map[string]metadata.UUID // of topics
	leaders map[history.Partition]leadership
	epochs  map[history.Partition]int32 // the highest ones heard of
}

// leadership is what metadata says of a partition.
type leadership struct{ broker, epoch int32 }

func (c *clients) client(kind string, rng *rand.Rand) *client {
	name := fmt.Sprintf("%s.%d", kind, c.names.Add(1))
	return &client{
		c: c, name: name, host: name, rng: rng, conns: map[int32]*protocol.Client{},
		ids: map[string]metadata.UUID{}, leaders: map[history.Partition]leadership{}, epochs: map[history.Partition]int32{},
	}
}

func (k *client) close() {
	for _, conn := range k.conns {
		conn.Close()
	}
	clear(k.conns)
}

// crash ends the client's host without a goodbye.
func (k *client) crash() {
	k.c.w.net.kill(k.host, false)
	k.close()
	k.c.record(history.Op{Kind: history.Crash, Client: k.name})
}

// life is how long a client lives.
func (k *client) life(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, k.c.w.stretch(time.Duration(90*k.rng.ExpFloat64()*float64(time.Second))))
}

// rest is the time between two deeds; false when ctx has ended.
func (k *client) rest(ctx context.Context, mean time.Duration) bool {
	t := time.NewTimer(k.c.w.stretch(time.Duration(k.rng.Int64N(int64(2 * mean)))))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// attemptTimeout bounds one request; retryAfter is the mean pause before the next.
const (
	attemptTimeout = 6 * time.Second
	retryAfter     = 400 * time.Millisecond
)

// conn connects to a broker.
func (k *client) conn(ctx context.Context, broker int32) (*protocol.Client, error) {
	if conn := k.conns[broker]; conn != nil {
		return conn, nil
	}
	dial := k.c.w.net.dialer(k.host, func() bool { return true })
	conn, err := protocol.Dial(ctx, "n"+strconv.Itoa(int(broker))+":9092", protocol.ClientOptions{
		ClientID: k.name, Dial: func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, address) },
	})
	if err != nil {
		return nil, err
	}
	k.conns[broker] = conn
	return conn, nil
}

// ask sends one request to a broker, once.
func (k *client) ask(ctx context.Context, broker int32, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, k.c.w.stretch(attemptTimeout))
	defer cancel()
	conn, err := k.conn(ctx, broker)
	if err != nil {
		return nil, err
	}
	resp, err := conn.Call(ctx, req)
	if err != nil {
		k.drop(broker, conn)
	}
	return resp, err
}

func (k *client) drop(broker int32, conn *protocol.Client) {
	conn.Close()
	if k.conns[broker] == conn {
		delete(k.conns, broker)
	}
}

// anyBroker is one to ask what does not matter whom.
func (k *client) anyBroker() int32 { return 1 + k.rng.Int32N(int32(len(k.c.w.machines))) }

// refresh learns who leads; errors show when it is used.
func (k *client) refresh(ctx context.Context) {
	req := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		req.Topics = append(req.Topics, t)
	}
	answer, err := k.ask(ctx, k.anyBroker(), req)
	if err != nil {
		return
	}
	for _, t := range answer.(*kmsg.MetadataResponse).Topics {
		if t.ErrorCode != 0 {
			continue
		}
		k.ids[*t.Topic] = t.TopicID
		for _, p := range t.Partitions {
			at := history.Partition{Topic: *t.Topic, ID: p.Partition}
			if p.LeaderEpoch >= k.epochs[at] { // a broker that is cut off may tell of former times
				k.leaders[at], k.epochs[at] = leadership{p.Leader, p.LeaderEpoch}, p.LeaderEpoch
			}
		}
	}
}

// leader returns who leads a partition; false when nobody knows.
func (k *client) leader(ctx context.Context, p history.Partition) (leadership, bool) {
	if l, ok := k.leaders[p]; ok && l.broker >= 0 {
		return l, true
	}
	k.refresh(ctx)
	l, ok := k.leaders[p]
	return l, ok && l.broker >= 0
}

var errNoLeader = errors.New("nobody leads")

// pending is a batch on its way.
type pending struct {
	p    history.Partition
	raw  batch.Batch
	txn  *string
	acks int16
}

func (k *client) produceRequest(b pending) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, req.TransactionID = b.acks, int32(k.c.w.ms(4000)), b.txn
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = b.p.Topic, k.ids[b.p.Topic]
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = b.p.ID, b.raw
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	return req
}

// produced is the answer to a batch.
type produced struct {
	offset int64
	err    error
}

// produce sends batches to one partition, all at once and in order, each once, and returns their answers.
func (k *client) produce(ctx context.Context, batches []pending) []produced {
	out := make([]produced, len(batches))
	p := batches[0].p
	leader, ok := k.leader(ctx, p)
	if !ok {
		for i := range out {
			out[i].err = errNoLeader
		}
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, k.c.w.stretch(attemptTimeout))
	defer cancel()
	conn, err := k.conn(ctx, leader.broker)
	answers := make([]chan produced, len(batches))
	for i, b := range batches {
		answers[i] = make(chan produced, 1)
		if err != nil {
			answers[i] <- produced{err: err}
			continue
		}
		req := k.produceRequest(b)
		go func() { answers[i] <- call(ctx, conn, req) }()
		time.Sleep(time.Nanosecond) // time passes once everybody waits: it is written
	}
	for i := range answers {
		out[i] = <-answers[i]
		if out[i].err != nil {
			k.moved(p, leader.broker, conn, out[i].err)
		}
	}
	return out
}

func call(ctx context.Context, conn *protocol.Client, req *kmsg.ProduceRequest) produced {
	answer, err := conn.Call(ctx, req)
	if err != nil {
		return produced{err: err}
	}
	r := answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return produced{r.BaseOffset, kerr.ErrorForCode(r.ErrorCode)}
}

// moved forgets a leader that failed, and, unless the broker itself has answered, the connection to it.
func (k *client) moved(p history.Partition, leader int32, conn *protocol.Client, err error) {
	delete(k.leaders, p)
	if _, answered := err.(*kerr.Error); !answered && conn != nil {
		k.drop(leader, conn)
	}
}

// coordinator finds who coordinates a transactional id (1) or a group (0).
func (k *client) coordinator(ctx context.Context, kind int8, key string) (int32, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKeys, req.CoordinatorKey = kind, []string{key}, key
	answer, err := k.ask(ctx, k.anyBroker(), req)
	if err != nil {
		return -1, err
	}
	found := answer.(*kmsg.FindCoordinatorResponse).Coordinators[0]
	return found.NodeID, kerr.ErrorForCode(found.ErrorCode)
}

// askCoordinator repeats a request until ctx ends or its answer, as codeOf reads it, is not one that passes.
func (k *client) askCoordinator(ctx context.Context, kind int8, key string, req kmsg.Request, codeOf func(kmsg.Response) int16) (kmsg.Response, error) {
	for {
		at, err := k.coordinator(ctx, kind, key)
		var answer kmsg.Response
		if err == nil {
			if answer, err = k.ask(ctx, at, req); err == nil {
				err = kerr.ErrorForCode(codeOf(answer))
			}
		}
		if code, ok := err.(*kerr.Error); err == nil || ok && !code.Retriable {
			return answer, err
		}
		if !k.rest(ctx, retryAfter) {
			return nil, ctx.Err()
		}
	}
}

// read fetches from one partition and returns what isolation shows, and where to go on.
func (k *client) read(ctx context.Context, p history.Partition, from int64, committed bool) (records []history.Record, next int64, err error) {
	leader, ok := k.leader(ctx, p)
	if !ok {
		return nil, from, errNoLeader
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = int32(k.c.w.ms(1000)), 1, 1<<20, -1
	if committed {
		req.IsolationLevel = 1
	}
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = p.Topic, k.ids[p.Topic]
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch = p.ID, from, 1<<20, leader.epoch
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	answer, err := k.ask(ctx, leader.broker, req)
	if err == nil {
		resp := answer.(*kmsg.FetchResponse)
		if err = kerr.ErrorForCode(resp.ErrorCode); err == nil && len(resp.Topics) > 0 {
			r := &resp.Topics[0].Partitions[0]
			if err = kerr.ErrorForCode(r.ErrorCode); err == nil {
				return visible(p, r, from, committed)
			}
		}
	}
	k.moved(p, leader.broker, nil, err)
	return nil, from, err
}

// visible decodes what was fetched and leaves out aborted transactions, as consumers do.
func visible(p history.Partition, r *kmsg.FetchResponseTopicPartition, from int64, committed bool) (records []history.Record, next int64, err error) {
	next = from
	filter := newFilter(r.AbortedTransactions)
	for raw := r.RecordBatches; len(raw) > 0; {
		b, rest, err := batch.Next(raw)
		if errors.Is(err, batch.ErrShort) {
			break
		}
		if err != nil || !b.ChecksumOK() {
			return records, next, fmt.Errorf("a bad batch at %d: %w", next, err)
		}
		raw, next = rest, b.LastOffset()+1
		if !filter.shows(b) && committed || b.Control() {
			continue
		}
		for rec, err := range b.Records() {
			if err != nil {
				return records, next, err
			}
			if rec.Offset >= from {
				records = append(records, history.Record{Partition: p, Offset: rec.Offset, Value: string(rec.Value), Key: string(rec.Key)})
			}
		}
	}
	return records, next, nil
}

// filter leaves out what was aborted (Kafka's CompletedFetch).
type filter struct {
	due  []kmsg.FetchResponseTopicPartitionAbortedTransaction // by first offset
	open map[int64]bool                                       // producers in a transaction that was aborted
}

func newFilter(aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction) *filter {
	slices.SortFunc(aborted, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	return &filter{aborted, map[int64]bool{}}
}

func (f *filter) shows(b batch.Batch) bool {
	for len(f.due) > 0 && f.due[0].FirstOffset <= b.LastOffset() {
		f.open[f.due[0].ProducerID] = true
		f.due = f.due[1:]
	}
	if b.Control() {
		for r := range b.Records() {
			if len(r.Key) >= 4 && r.Key[3] == 0 { // an abort
				delete(f.open, b.ProducerID())
			}
		}
		return false
	}
	return !b.Transactional() || !f.open[b.ProducerID()]
}
