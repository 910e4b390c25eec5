package handlers

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/coordinator/txn"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/memory"
	"grete/internal/vfs"
	"grete/logstore"
	"grete/protocol"
	"grete/protocol/batch"
)

// rig is a broker of real rooms on a loopback socket, except for the controller: the test writes the metadata.
type rig struct {
	t       testing.TB
	fs      vfs.FS
	dir     string // of logs
	clock   clock.Clock
	static  config.Layers
	store   *logstore.Store
	broker  *Broker
	server  *protocol.Server
	addr    string
	image   atomic.Pointer[metadata.Image]
	offset  int64
	nextIDs atomic.Int64
	// trusting switches verification of transactions off.
	trusting atomic.Bool
	close    func()

	listening sync.Once
	serving   sync.WaitGroup
	changes   []func(*Broker)
}

const rigNode = int32(1)

type rigOption func(*rig)

func withFS(fs vfs.FS, dir string) rigOption { return func(r *rig) { r.fs, r.dir = fs, dir } }
func withStatic(kv ...string) rigOption {
	return func(r *rig) {
		r.static.Static = map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			r.static.Static[kv[i]] = kv[i+1]
		}
	}
}

// withBroker changes what handlers call before they are called.
func withBroker(change func(*Broker)) rigOption {
	return func(r *rig) { r.changes = append(r.changes, change) }
}

// newRig starts a broker; it is stopped at the test's end.
func newRig(t testing.TB, options ...rigOption) *rig {
	t.Helper()
	r := &rig{t: t, fs: vfs.NewMem(), dir: "/data", clock: clock.System}
	for _, o := range options {
		o(r)
	}
	r.open()
	t.Cleanup(func() { r.close() })
	r.apply(&metadata.RegisterBrokerRecord{BrokerID: rigNode, BrokerEpoch: 1, Endpoints: []metadata.Endpoint{{Listener: "PLAINTEXT", Host: "localhost", Port: 9092}}})
	r.apply(&metadata.UnfenceBrokerRecord{BrokerID: rigNode, BrokerEpoch: 1})
	return r
}

func (r *rig) open() {
	var manager *replica.Manager
	store, err := logstore.Open(context.Background(), logstore.Options{
		FS: r.fs, Clock: r.clock, Log: zerolog.Nop(), Dirs: []string{r.dir},
		OnDirOffline: func(dir string, err error) { manager.DirOffline(dir, err) },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.store = store
	manager = replica.NewManager(replica.Options{
		NodeID: rigNode, Store: store, Clock: r.clock, Log: zerolog.Nop(),
		TopicConfig: replica.NewConfigs(r.static, rigNode).Of,
	})
	r.image.Store(&metadata.Image{})
	r.broker = &Broker{
		NodeID: rigNode, ClusterID: "rig", Image: r.image.Load, Controller: r, Clock: r.clock,
		Replicas: manager, FetchSessions: NewFetchSessions(1000, memory.New(0).Sessions, r.clock, rand.NewPCG(1, 2)),
		Limits: Limits{FetchMaxBytes: 55 << 20},
	}
	r.broker.ProducerIDs = NewProducerIDs(r, rigNode, func() int64 { return 1 })
	r.broker.Static, r.broker.LogDirs = r.static, store.Dirs
	r.coordinateTransactions()
	for _, change := range r.changes {
		change(r.broker)
	}
	r.close = sync.OnceFunc(r.shut)
}

// coordinateTransactions makes the transaction coordinator; it leads what createTopic makes of __transaction_state.
func (r *rig) coordinateTransactions() {
	r.broker.VerifyTransactions = func() bool { return !r.trusting.Load() }
	r.broker.Markers = &Markers{NodeID: rigNode, Image: r.image.Load, Replicas: r.broker.Replicas}
	r.broker.Txns = txn.NewService(txn.Options{
		Config: txn.DefaultConfig(), Clock: r.clock, Log: zerolog.Nop(), Markers: r.broker.Markers,
		Partitions:         func() int32 { return 3 },
		TransactionVersion: func() int16 { return 2 },
		NextProducerID:     func(got func(int64, error)) { r.broker.ProducerIDs.Next(got) },
	})
}

// listen starts the server when the first connection is wanted: until then a test may still change the broker.
func (r *rig) listen() {
	r.server = protocol.NewServer(r.broker, protocol.Options{Clock: r.clock, Log: zerolog.Nop(), MaxIdle: -1})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.addr = l.Addr().String()
	r.serving.Go(func() { _ = r.server.Serve("PLAINTEXT", l) })
}

func (r *rig) shut() {
	if r.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = r.server.Shutdown(ctx)
		r.serving.Wait()
	}
	r.broker.Txns.Close()
	r.broker.ProducerIDs.Close()
	if err := r.store.Close(); err != nil {
		r.t.Error(err)
	}
}

// Do stands in for the controller.
func (r *rig) Do(_ context.Context, _ protocol.Principal, req kmsg.Request) (kmsg.Response, error) {
	if _, ok := req.(*kmsg.AllocateProducerIDsRequest); !ok {
		return nil, errors.New("unexpected request")
	}
	resp := kmsg.NewPtrAllocateProducerIDsResponse()
	resp.ProducerIDStart, resp.ProducerIDLen = r.nextIDs.Add(1000)-1000, 1000
	return resp, nil
}

func (r *rig) apply(records ...metadata.Record) {
	r.t.Helper()
	r.offset++
	old := r.image.Load()
	im, delta, err := old.Apply(records, r.offset, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	r.broker.Replicas.Apply(old, im, delta) // before readers have the image, as on a broker
	r.image.Store(im)
}

// createTopic makes a topic led by this broker at epoch 0; config is pairs.
func (r *rig) createTopic(name string, partitions int, config ...string) metadata.UUID {
	r.t.Helper()
	id := topicID(name)
	records := []metadata.Record{&metadata.TopicRecord{Name: name, ID: id}}
	for i := range partitions {
		records = append(records, &metadata.PartitionRecord{Index: int32(i), TopicID: id, Partition: metadata.Partition{
			Replicas: []int32{rigNode}, ISR: []int32{rigNode}, Leader: rigNode,
		}})
	}
	for i := 0; i < len(config); i += 2 {
		records = append(records, &metadata.ConfigRecord{Type: metadata.TopicResource, Name: name, Config: config[i], Value: &config[i+1]})
	}
	r.apply(records...)
	return id
}

func topicID(name string) (id metadata.UUID) {
	copy(id[:], name+"................")
	return id
}

// moveLeader gives every partition of a topic to leader, one epoch on.
func (r *rig) moveLeader(name string, leader int32) {
	r.t.Helper()
	var records []metadata.Record
	for i := range r.image.Load().Topic(name).Partitions {
		c := metadata.NewPartitionChange(topicID(name), int32(i))
		c.Leader, c.ISR, c.Replicas = leader, []int32{leader}, []int32{rigNode, 2}
		records = append(records, c)
	}
	r.apply(records...)
}

// wire is a connection that sends kmsg requests.
type wire struct {
	t    testing.TB
	c    net.Conn
	next int32
}

func (r *rig) dial() *wire {
	r.t.Helper()
	r.listening.Do(r.listen)
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return &wire{t: r.t, c: c}
}

func (w *wire) send(req kmsg.Request) (correlation int32) {
	w.t.Helper()
	w.next++
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("rig"))
	if _, err := w.c.Write(f.AppendRequest(nil, req, w.next)); err != nil {
		w.t.Fatal(err)
	}
	return w.next
}

// receive reads the response to req, which must be the next on the connection.
func (w *wire) receive(req kmsg.Request, correlation int32) kmsg.Response {
	w.t.Helper()
	frame, err := w.frame(10 * time.Second)
	if err != nil {
		w.t.Fatalf("no response to %T: %v", req, err)
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != correlation {
		w.t.Fatalf("correlation id %d, want %d", got, correlation)
	}
	resp := req.ResponseKind()
	body := frame[4:]
	if resp.IsFlexible() && resp.Key() != 18 {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		w.t.Fatalf("%T: %v", resp, err)
	}
	return resp
}

func (w *wire) frame(timeout time.Duration) ([]byte, error) {
	_ = w.c.SetReadDeadline(time.Now().Add(timeout))
	var size [4]byte
	if _, err := io.ReadFull(w.c, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(w.c, frame)
	return frame, err
}

// call sends req at version and returns its response.
func call[R kmsg.Response](w *wire, version int16, req kmsg.Request) R {
	w.t.Helper()
	req.SetVersion(version)
	return w.receive(req, w.send(req)).(R)
}

// expectClose fails unless the peer closes without an answer.
func (w *wire) expectClose() {
	w.t.Helper()
	if frame, err := w.frame(5 * time.Second); err == nil {
		w.t.Fatalf("answered %x instead of closing", frame)
	} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		w.t.Fatal("neither answered nor closed")
	}
}

// records builds a batch of values at offset 0, as a producer does.
func records(t testing.TB, o batch.BuildOptions, values ...string) []byte {
	t.Helper()
	now := time.Now().UnixMilli()
	var rs []batch.Record
	for i, v := range values {
		rs = append(rs, batch.Record{Offset: int64(i), TimestampMs: now, Key: []byte("k"), Value: []byte(v)})
	}
	b, err := batch.Build(o, rs)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// plain are the options of a producer without idempotence.
var plain = batch.BuildOptions{ProducerID: batch.NoProducerID, ProducerEpoch: -1, BaseSequence: batch.NoSequence, LeaderEpoch: -1}

func produceRequest(topic string, partition int32, acks int16, raw []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, topicID(topic)
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, raw
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// produce writes values and returns the partition's answer.
func (w *wire) produce(topic string, partition int32, values ...string) kmsg.ProduceResponseTopicPartition {
	w.t.Helper()
	resp := call[*kmsg.ProduceResponse](w, 9, produceRequest(topic, partition, -1, records(w.t, plain, values...)))
	return resp.Topics[0].Partitions[0]
}

func fetchRequest(topic string, partition int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MinBytes, req.MaxBytes, req.MaxWaitMillis, req.SessionEpoch = 1, 1<<20, 0, -1
	req.Topics = []kmsg.FetchRequestTopic{fetchTopic(topic, partition, offset)}
	return req
}

func fetchTopic(topic string, partition int32, offset int64) kmsg.FetchRequestTopic {
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, topicID(topic)
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = partition, offset, 1<<20, -1, -1
	t.Partitions = append(t.Partitions, p)
	return t
}

// values are the records' values of fetched batches.
func values(t testing.TB, raw []byte) []string {
	t.Helper()
	var out []string
	for len(raw) > 0 {
		b, rest, err := batch.Next(raw)
		if errors.Is(err, batch.ErrShort) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !b.ChecksumOK() {
			t.Fatal("checksum of a fetched batch")
		}
		for r, err := range b.Records() {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(r.Value))
		}
		raw = rest
	}
	return out
}
