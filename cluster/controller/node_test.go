package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/vfs"
	"grete/logstore"
	"grete/protocol"
	"grete/protocol/batch"
)

// rig is a broker's metadata side over a real store: node, and lifecycle once register is called.
type rig struct {
	*Node
	registered int64 // the epoch of the last registration
	store      *logstore.Store
	fs         vfs.FS
	dir        string
	life       *Lifecycle
	run        byte
	mu         sync.Mutex
	deltas     []metadata.Delta
	failure    chan error
	static     map[string]string
	onImage    func(old, new *metadata.Image, d metadata.Delta)
	clock      clock.Clock // of node and lifecycle
	probe      func(ctx context.Context, address string) error
	witness    func(ctx context.Context, witness int32, b *metadata.Broker) (bool, error)
	unseen     func(id int32) bool

	heartbeats atomic.Int64 // that the controller has answered
	lacks      atomic.Int64 // reads of the log that still find no descriptor
	starves    atomic.Bool  // the reads after the next commit do not
}

// starvedLog is a log of which some reads find no descriptor.
type starvedLog struct {
	raftlog.Log
	rig *rig
}

func (l *starvedLog) SetHighWatermark(offset int64) {
	if l.rig.starves.Swap(false) {
		l.rig.lacks.Store(3)
	}
	l.Log.SetHighWatermark(offset)
}

func (l *starvedLog) Read(offset int64, o logstore.ReadOptions) (*logstore.Span, error) {
	if l.rig.lacks.Load() > 0 && l.rig.lacks.Add(-1) >= 0 {
		return nil, syscall.EMFILE
	}
	return l.Log.Read(offset, o)
}

// TestLackOfDescriptorsHeals: a broker that finds no descriptor to read the metadata log with follows it once there is
// one.
func TestLackOfDescriptorsHeals(t *testing.T) {
	r := startRig(t, memory(t), "/data", 1)
	r.starves.Store(true)
	r.create(t, 1, "later")
	if left := r.lacks.Load(); r.starves.Load() || left > 0 {
		t.Errorf("%d reads found their descriptors", left)
	}
	select {
	case err := <-r.failure:
		t.Error(err)
	default:
	}
	r.kill(t)
}

func newRig(fsys vfs.FS, dir string, run byte) *rig {
	return &rig{fs: fsys, dir: dir, run: run, failure: make(chan error, 1), static: map[string]string{}, clock: clock.System}
}

func memory(t testing.TB) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewMem()
	must(t, fsys.MkdirAll("/data", 0o755))
	must(t, fsys.SyncDir("/"))
	return fsys
}

func (r *rig) open() error {
	ctx := context.Background()
	defaults := LogConfig(logstore.DefaultConfig())
	defaults.FileDeleteDelayMs = 0
	var err error
	r.store, err = logstore.Open(ctx, logstore.Options{FS: r.fs, Clock: clock.System, Dirs: []string{r.dir}, Defaults: defaults, BrokerEpoch: r.epoch})
	if err != nil {
		return err
	}
	created, err := r.store.Create(LogID, metadata.MetadataTopicID, defaults)
	if err != nil {
		return err
	}
	log := &starvedLog{Log: created, rig: r}
	r.Node, err = Start(ctx, Options{
		NodeID: 1, ClusterID: "cluster", Log: log, FS: r.fs, Dir: path.Join(created.Dir(), LogID.String()), Clock: r.clock,
		Rand: rand.New(rand.NewPCG(uint64(r.run), 1)), Logger: zerolog.Nop(), Config: config.Layers{Static: r.static},
		OnImage: func(old, new *metadata.Image, d metadata.Delta) {
			r.mu.Lock()
			r.deltas = append(r.deltas, d)
			r.mu.Unlock()
			if r.onImage != nil {
				r.onImage(old, new, d)
			}
		},
		OnFailure: func(err error) { r.failure <- err }, Probe: r.probe, Witness: r.witness, Unseen: r.unseen,
	})
	return err
}

// listener counts the heartbeats that the controller has answered.
type listener struct {
	*Node
	heartbeats *atomic.Int64
}

func (l listener) Do(ctx context.Context, p protocol.Principal, req kmsg.Request) (kmsg.Response, error) {
	resp, err := l.Node.Do(ctx, p, req)
	if _, is := req.(*kmsg.BrokerHeartbeatRequest); is && err == nil {
		l.heartbeats.Add(1)
	}
	return resp, err
}

func newLifecycleOf(r *rig) *Lifecycle {
	return NewLifecycle(LifecycleOptions{
		Controller: listener{r.Node, &r.heartbeats}, Principal: protocol.Principal{Type: "User", Name: "ANONYMOUS"}, Clock: r.clock, Logger: zerolog.Nop(),
		NodeID: 1, ClusterID: "cluster", Incarnation: metadata.UUID{0: 1, 1: r.run}, LogDirs: []metadata.UUID{{0: 7}}, StoppedEpoch: r.store.StoppedEpoch(),
		Endpoints: []metadata.Endpoint{{Listener: "PLAINTEXT", Host: "localhost", Port: 9092}}, IntervalMs: 2000,
	})
}

func (r *rig) epoch() int64 { return r.registered }

func (r *rig) register(t testing.TB) {
	t.Helper()
	r.life = newLifecycleOf(r)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	must(t, r.life.Start(ctx))
	r.registered = r.life.BrokerEpoch()
}

func startRig(t testing.TB, fsys vfs.FS, dir string, run byte) *rig {
	t.Helper()
	r := newRig(fsys, dir, run)
	must(t, r.open())
	r.register(t)
	return r
}

// kill ends the goroutines without a controlled shutdown, as far as a process can do that to itself.
func (r *rig) kill(t testing.TB) {
	t.Helper()
	if r.life != nil {
		r.life.Stop()
	}
	must(t, r.Node.Stop(context.Background()))
	must(t, r.store.Close())
}

func (r *rig) shutDown(t testing.TB) {
	t.Helper()
	must(t, r.life.Shutdown(context.Background()))
	r.life = nil
	r.kill(t)
}

func (r *rig) do(t testing.TB, req kmsg.Request) kmsg.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := r.Do(ctx, protocol.Principal{}, req)
	must(t, err)
	return resp
}

func createRequest(partitions int32, names ...string) *kmsg.CreateTopicsRequest {
	r := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (r *rig) create(t testing.TB, partitions int32, names ...string) {
	t.Helper()
	for _, topic := range r.do(t, createRequest(partitions, names...)).(*kmsg.CreateTopicsResponse).Topics {
		if topic.ErrorCode != 0 {
			t.Fatalf("%s: %d", topic.Topic, topic.ErrorCode)
		}
		if r.Image().Topic(topic.Topic) == nil {
			t.Fatalf("%s was answered before the image had it", topic.Topic)
		}
	}
}

func TestLifeOfANode(t *testing.T) {
	fsys := memory(t)
	r := startRig(t, fsys, "/data", 1)
	b := r.Image().Broker(1)
	if b == nil || b.Fenced || b.Epoch != r.life.BrokerEpoch() || r.Image().ControllerID() != 1 || r.Image().Feature("metadata.version") != 33 {
		t.Fatalf("%+v", b)
	}
	r.create(t, 3, "a", "b")
	id := r.Image().Topic("a").ID
	if dirs := r.Image().Topic("a").Partitions[0].Directories; !slices.Equal(dirs, []metadata.UUID{{0: 7}}) {
		t.Error(dirs)
	}
	if _, err := r.Do(context.Background(), protocol.Principal{}, kmsg.NewPtrFetchRequest()); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	r.shutDown(t)
	if p := r.Image().Topic("a").Partitions[0]; p.Leader != -1 || len(p.ISR) > 0 || !slices.Equal(p.ELR, []int32{1}) || !r.Image().Broker(1).Fenced {
		t.Errorf("after a controlled shutdown: %+v", p)
	}

	again := startRig(t, fsys, "/data", 2)
	defer again.kill(t)
	topic := again.Image().Topic("a")
	if topic == nil || topic.ID != id || topic.Partitions[0].Leader != 1 || topic.Partitions[0].LeaderEpoch != 2 {
		t.Fatalf("after a restart: %+v", topic)
	}
	if e := again.Image().Broker(1).Epoch; e <= b.Epoch {
		t.Errorf("broker epoch %d after %d", e, b.Epoch)
	}
}

func TestReadersSeeNothingBeforeAppliers(t *testing.T) {
	r := newRig(memory(t), "/data", 1)
	var early atomic.Int32
	var node atomic.Pointer[Node]
	var previous *metadata.Image
	r.onImage = func(old, new *metadata.Image, d metadata.Delta) {
		if n := node.Load(); n != nil && n.Image() == new || previous != nil && old != previous {
			early.Add(1)
		}
		previous = new
		for _, name := range d.Topics {
			if new.Topic(name) == nil && old.Topic(name) == nil {
				early.Add(1)
			}
		}
	}
	must(t, r.open())
	node.Store(r.Node)
	r.register(t)
	r.create(t, 1, "a")
	r.create(t, 1, "b")
	r.kill(t)
	if n := early.Load(); n != 0 {
		t.Errorf("%d faults", n)
	}
}

// TestConcurrentRequests has many clients create, delete and fail at once: each answer is true of the image that its
// client then sees, and few fsyncs serve many requests.
func TestConcurrentRequests(t *testing.T) {
	faulty := vfs.NewFaulty(memory(t))
	r := startRig(t, faulty, "/data", 1)
	var syncs atomic.Int64
	faulty.Inject(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			syncs.Add(1)
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	const clients, each = 30, 8
	var wg sync.WaitGroup
	var created atomic.Int64
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("t%d", (c/2)*100+i) // two clients want the same names
				resp := r.do(t, createRequest(1, name)).(*kmsg.CreateTopicsResponse)
				switch code := resp.Topics[0].ErrorCode; {
				case code == 0:
					created.Add(1)
				case code != 36:
					t.Errorf("%s: %d", name, code)
				}
				if r.Image().Topic(name) == nil {
					t.Errorf("%s does not exist after code %d", name, resp.Topics[0].ErrorCode)
				}
			}
		})
	}
	wg.Wait()
	if n := created.Load(); n != clients*each/2 || r.Image().TopicCount() != int(n) {
		t.Errorf("%d created, %d there", n, r.Image().TopicCount())
	}
	if n := syncs.Load(); n > clients*each/2 {
		t.Errorf("%d fsyncs for %d requests", n, clients*each)
	}
	r.kill(t)
}

// TestQueueIsBounded: requests beyond the bound wait in Do, and leave it when their clients do.
func TestQueueIsBounded(t *testing.T) {
	r := newRig(memory(t), "/data", 1)
	hold := make(chan struct{})
	r.onImage = func(_, new *metadata.Image, _ metadata.Delta) {
		if new.Topic("first") != nil {
			<-hold
		}
	}
	must(t, r.open())
	r.register(t)
	const more = 300
	var wg sync.WaitGroup
	for i := range 2*queuedOps + more {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			_, _ = r.Do(ctx, protocol.Principal{}, createRequest(1, map[bool]string{true: "first", false: fmt.Sprint("t", i)}[i == 0]))
		})
	}
	for deadline := time.Now().Add(2 * time.Second); len(r.ops) < queuedOps && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if n := len(r.ops); n != queuedOps {
		t.Errorf("%d requests queued", n)
	}
	if n := r.waiting.len(); n > queuedOps+opsPerBatch {
		t.Errorf("%d answers wait", n)
	}
	close(hold)
	wg.Wait()
	r.create(t, 1, "last")
	r.kill(t)
}

// TestAcknowledgedChangesSurviveCrashes takes crash clones while clients create topics: whatever was answered is there.
func TestAcknowledgedChangesSurviveCrashes(t *testing.T) {
	for seed := range scaled(25) {
		rng := rand.New(rand.NewPCG(seed, 3))
		fsys := memory(t)
		acked := map[string]metadata.UUID{}
		for run := range byte(3) {
			r := startRig(t, fsys, "/data", run+1)
			for name, id := range acked {
				if topic := r.Image().Topic(name); topic == nil || topic.ID != id || topic.Partitions[0].Leader != 1 {
					t.Fatalf("seed %d run %d: %s is lost: %+v", seed, run, name, topic)
				}
			}
			ackedNow, clone := r.createUntilCrash(t, rng, fsys, run)
			for name, id := range ackedNow {
				acked[name] = id
			}
			r.kill(t)
			fsys = clone
		}
	}
}

// createUntilCrash returns what was answered before the clone was taken.
func (r *rig) createUntilCrash(t *testing.T, rng *rand.Rand, fsys *vfs.Mem, run byte) (map[string]metadata.UUID, *vfs.Mem) {
	acked := map[string]metadata.UUID{}
	for i := range 1 + rng.IntN(6) {
		name := fmt.Sprintf("t%d-%d", run, i)
		r.create(t, 1+rng.Int32N(3), name)
		acked[name] = r.Image().Topic(name).ID
	}
	under := make(chan struct{})
	go func() { // a request of which nobody knows the fate
		defer close(under)
		_, _ = r.Do(context.Background(), protocol.Principal{}, createRequest(2, fmt.Sprintf("u%d", run)))
	}()
	clone := fsys.CrashClone(rng, rng.IntN(101))
	<-under
	return acked, clone
}

// TestSnapshotsAndReplayAgree makes snapshots often: the image after a restart is the one before it.
func TestSnapshotsAndReplayAgree(t *testing.T) {
	fsys := memory(t)
	r := newRig(fsys, "/data", 1)
	r.static["metadata.log.max.record.bytes.between.snapshots"] = "3000"
	must(t, r.open())
	r.register(t)
	for i := range 60 {
		r.create(t, 2, fmt.Sprintf("t%02d", i))
		if i%3 == 0 {
			d := kmsg.NewPtrDeleteTopicsRequest()
			d.TopicNames = []string{fmt.Sprintf("t%02d", i)}
			r.do(t, d)
		}
	}
	before := slices.Collect(r.Image().Records())
	r.kill(t)
	snapshots := 0
	entries, err := fsys.ReadDir("/data/" + LogID.String())
	must(t, err)
	for _, e := range entries {
		if path.Ext(e.Name()) == ".checkpoint" {
			snapshots++
		}
	}
	if snapshots != 2 {
		t.Errorf("%d snapshots are kept", snapshots)
	}
	again := newRig(fsys, "/data", 2)
	must(t, again.open())
	for deadline := time.Now().Add(5 * time.Second); again.Image().Offset() < r.Image().Offset() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if after := slices.Collect(again.Image().Records()); !reflect.DeepEqual(before, after) {
		t.Errorf("%d records before, %d after the restart", len(before), len(after))
	}
	again.kill(t)
}

func TestFailedDiskEndsTheController(t *testing.T) {
	faulty := vfs.NewFaulty(memory(t))
	r := startRig(t, faulty, "/data", 1)
	offset := r.Image().Offset()
	faulty.Inject(vfs.FailMatching(func(op vfs.Op) bool { return op.Kind == vfs.OpSync }, syscall.EIO))
	_, err := r.Do(context.Background(), protocol.Principal{}, createRequest(1, "lost"))
	if !errors.Is(err, ErrStopped) && !errors.Is(err, ErrNotController) {
		t.Error(err)
	}
	if err := <-r.failure; !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if r.Image().Topic("lost") != nil || r.Image().Offset() != offset {
		t.Error("an uncommitted change is visible")
	}
	if _, err := r.Do(context.Background(), protocol.Principal{}, createRequest(1, "x")); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
	r.life.Stop()
	if err := r.Node.Stop(context.Background()); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	_ = r.store.Close()
}

// TestOversizedRequestIsRefused: alone, and the others go on.
func TestOversizedRequestIsRefused(t *testing.T) {
	r := startRig(t, memory(t), "/data", 1)
	huge := createRequest(1, "huge")
	value := strings.Repeat("x", bytesPerOp)
	huge.Topics[0].Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "follower.replication.throttled.replicas", Value: &value}}
	if _, err := r.Do(context.Background(), protocol.Principal{}, huge); err == nil {
		resp := r.do(t, huge).(*kmsg.CreateTopicsResponse)
		if resp.Topics[0].ErrorCode == 0 {
			t.Error("it was accepted")
		}
	} else if !errors.Is(err, kerr.PolicyViolation) {
		t.Error(err)
	}
	r.create(t, 1, "small")
	if r.Image().Topic("huge") != nil {
		t.Error("it was created")
	}
	r.kill(t)
}

// TestUnreadableLogIsReported: a record that this version does not know stops the broker from following, it is not
// skipped.
func TestUnreadableLogIsReported(t *testing.T) {
	fsys := memory(t)
	r := startRig(t, fsys, "/data", 1)
	b, err := raftlog.Batch([]batch.Record{{Value: []byte("no record")}})
	must(t, err)
	_, err = r.raft.Propose(context.Background(), r.lead.Load().Epoch, b)
	must(t, err)
	if err := <-r.failure; !errors.Is(err, metadata.ErrMalformed) {
		t.Error(err)
	}
	r.kill(t)
	again := newRig(fsys, "/data", 2)
	must(t, again.open())
	if err := <-again.failure; !errors.Is(err, metadata.ErrMalformed) {
		t.Error(err)
	}
	again.kill(t)
}

// TestAbandonedRequestsAreNotDecided: who has gone gets nothing done that was not begun.
func TestAbandonedRequestsAreNotDecided(t *testing.T) {
	r := startRig(t, memory(t), "/data", 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Do(ctx, protocol.Principal{}, createRequest(1, "x")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.create(t, 1, "y")
	if r.Image().Topic("x") != nil {
		t.Error("it was decided")
	}
	r.kill(t)
}

// A node that is busy applying what others made answers heartbeats meanwhile, or its brokers would be taken for dead.
func TestHeartbeatsDoNotWaitForTheImage(t *testing.T) {
	r := newRig(memory(t), "/data", 1)
	applying, done := make(chan struct{}), make(chan struct{})
	r.onImage = func(_, now *metadata.Image, d metadata.Delta) {
		if slices.Contains(d.Topics, "slow") {
			close(applying)
			<-done
		}
	}
	must(t, r.open())
	r.register(t)
	defer r.kill(t)
	created := make(chan struct{})
	go func() {
		defer close(created)
		_, _ = r.Do(context.Background(), protocol.Principal{}, createRequest(1, "slow"))
	}()
	<-applying
	beat := kmsg.NewPtrBrokerHeartbeatRequest()
	beat.BrokerID, beat.BrokerEpoch, beat.CurrentMetadataOffset = 1, r.life.BrokerEpoch(), r.Image().Offset()
	if resp := r.do(t, beat).(*kmsg.BrokerHeartbeatResponse); resp.ErrorCode != 0 || resp.IsFenced {
		t.Errorf("%+v", resp)
	}
	close(done)
	<-created
}
