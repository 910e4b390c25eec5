package replica

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/vfs"
	"grete/logstore"
	"grete/protocol/batch"
)

const node = int32(1)

// bench is a manager over a store, whose metadata the test writes.
type bench struct {
	t       testing.TB
	store   *logstore.Store
	manager *Manager
	image   *metadata.Image
	offset  int64
	events  []string // leadership, as told
}

func newBench(t testing.TB, fs vfs.FS) *bench {
	t.Helper()
	return newBenchWith(t, fs, func(*Options) {})
}

// newBenchWith lets the test change the options.
func newBenchWith(t testing.TB, fs vfs.FS, change func(*Options), moreDirs ...string) *bench {
	t.Helper()
	b := &bench{t: t, image: &metadata.Image{}}
	store, err := logstore.Open(context.Background(), logstore.Options{
		FS: fs, Clock: clock.System, Log: zerolog.Nop(), Dirs: append([]string{"/data"}, moreDirs...),
		OnDirOffline: func(dir string, err error) { b.manager.DirOffline(dir, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	b.store = store
	note := func(what string) func(*Partition, int32) {
		return func(p *Partition, epoch int32) {
			b.events = append(b.events, fmt.Sprintf("%s %s-%d %d", what, p.Topic, p.Index, epoch))
		}
	}
	o := Options{
		NodeID: node, Store: store, Clock: clock.System, Log: zerolog.Nop(),
		TopicConfig: NewConfigs(config.Layers{}, node).Of, OnLeader: note("lead"), OnResign: note("resign"),
	}
	change(&o)
	b.manager = NewManager(o)
	return b
}

func (b *bench) apply(records ...metadata.Record) {
	b.t.Helper()
	b.offset++
	im, delta, err := b.image.Apply(records, b.offset, 1)
	if err != nil {
		b.t.Fatal(err)
	}
	old := b.image
	b.image = im
	b.manager.Apply(old, im, delta)
}

func idOf(name string) (id metadata.UUID) {
	copy(id[:], name+"................")
	return id
}

func (b *bench) create(name string, partitions int, kv ...string) {
	b.t.Helper()
	records := []metadata.Record{&metadata.TopicRecord{Name: name, ID: idOf(name)}}
	for i := range partitions {
		records = append(records, &metadata.PartitionRecord{Index: int32(i), TopicID: idOf(name), Partition: metadata.Partition{
			Replicas: []int32{node}, ISR: []int32{node}, Leader: node,
		}})
	}
	b.apply(append(records, settings(name, kv...)...)...)
}

func settings(topic string, kv ...string) (out []metadata.Record) {
	for i := 0; i < len(kv); i += 2 {
		out = append(out, &metadata.ConfigRecord{Type: metadata.TopicResource, Name: topic, Config: kv[i], Value: &kv[i+1]})
	}
	return out
}

func (b *bench) partition(name string, index int32) *Partition {
	b.t.Helper()
	p, err := b.manager.Partition(name, index)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bench) lead(name string, leader int32) {
	b.t.Helper()
	c := metadata.NewPartitionChange(idOf(name), 0)
	c.Leader, c.ISR, c.Replicas = leader, []int32{leader}, []int32{node, 2}
	b.apply(c)
}

func raw(t testing.TB, value string) []byte {
	t.Helper()
	b, err := batch.Build(batch.BuildOptions{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1},
		[]batch.Record{{TimestampMs: time.Now().UnixMilli(), Value: []byte(value)}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func produce(t testing.TB, p *Partition, acks Ack) Appended {
	t.Helper()
	a, err := p.Produce(ProduceRequest{Records: raw(t, "v"), ProduceVersion: 9, Acks: acks})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestLeadershipIsTold(t *testing.T) {
	b := newBench(t, vfs.NewMem())
	b.create("t", 1)
	b.lead("t", node) // renewed
	b.lead("t", 2)
	b.lead("t", node)
	b.apply(&metadata.RemoveTopicRecord{ID: idOf("t")})
	want := []string{"lead t-0 0", "lead t-0 1", "resign t-0 2", "lead t-0 3", "resign t-0 3"}
	if !slices.Equal(b.events, want) {
		t.Errorf("told %v, want %v", b.events, want)
	}
	if b.store.Log(logstore.ID{Topic: "t"}) != nil {
		t.Error("the log of a deleted topic is still there")
	}
}

func TestLookup(t *testing.T) {
	b := newBench(t, vfs.NewMem())
	b.create("t", 2)
	b.apply(&metadata.TopicRecord{Name: "far", ID: idOf("far")}, &metadata.PartitionRecord{TopicID: idOf("far"), Partition: metadata.Partition{
		Replicas: []int32{2}, ISR: []int32{2}, Leader: 2,
	}})
	for _, c := range []struct {
		name  string
		index int32
		want  error
		byID  error
	}{
		{"t", 0, nil, nil},
		{"t", 1, nil, nil},
		{"t", 2, ErrUnknownTopicOrPartition, ErrUnknownTopicOrPartition},
		{"t", -1, ErrUnknownTopicOrPartition, ErrUnknownTopicOrPartition},
		{"far", 0, ErrNotLeader, ErrNotLeader},
		{"far", 1, ErrUnknownTopicOrPartition, ErrUnknownTopicOrPartition},
		{"none", 0, ErrUnknownTopicOrPartition, ErrUnknownTopicID},
	} {
		if _, err := b.manager.Partition(c.name, c.index); !errors.Is(err, c.want) {
			t.Errorf("%s-%d: %v, want %v", c.name, c.index, err, c.want)
		}
		if _, err := b.manager.PartitionByID(idOf(c.name), c.index); !errors.Is(err, c.byID) {
			t.Errorf("%s-%d by id: %v, want %v", c.name, c.index, err, c.byID)
		}
	}
}

// A topic that is deleted and created again between two images is another topic.
func TestRecreatedTopic(t *testing.T) {
	b := newBench(t, vfs.NewMem())
	b.create("t", 1)
	old := b.partition("t", 0)
	produce(t, old, AckAll)
	again := metadata.UUID{99}
	b.apply(&metadata.RemoveTopicRecord{ID: idOf("t")}, &metadata.TopicRecord{Name: "t", ID: again}, &metadata.PartitionRecord{
		TopicID: again, Partition: metadata.Partition{Replicas: []int32{node}, ISR: []int32{node}, Leader: node},
	})
	if _, err := old.Produce(ProduceRequest{Records: raw(t, "v"), ProduceVersion: 9}); !errors.Is(err, ErrUnknownTopicOrPartition) {
		t.Errorf("a write to the deleted topic's partition: %v", err)
	}
	p, err := b.manager.PartitionByID(again, 0)
	if err != nil {
		t.Fatal(err)
	}
	if a := produce(t, p, AckAll); a.BaseOffset != 0 {
		t.Errorf("the new topic starts at %d", a.BaseOffset)
	}
	if _, err := b.manager.PartitionByID(idOf("t"), 0); !errors.Is(err, ErrUnknownTopicID) {
		t.Errorf("the old id: %v", err)
	}
}

func TestConfigurationReachesPartitions(t *testing.T) {
	b := newBench(t, vfs.NewMem())
	b.create("t", 1)
	b.create("other", 1)
	p := b.partition("t", 0)
	if p.Config() != b.partition("other", 0).Config() {
		t.Error("topics without overrides have configurations of their own")
	}
	b.apply(settings("t", "max.message.bytes", "70")...)
	if _, err := p.Produce(ProduceRequest{Records: raw(t, strings.Repeat("x", 100)), ProduceVersion: 9}); err == nil {
		t.Error("a batch over the topic's new limit was taken")
	}
	limit := "60"
	b.apply(&metadata.ConfigRecord{Type: metadata.BrokerResource, Name: "", Config: "message.max.bytes", Value: &limit})
	if got := b.partition("other", 0).Config().Produce.MaxMessageBytes; got != 60 {
		t.Errorf("the cluster's default did not reach a topic without overrides: %d", got)
	}
	if got := p.Config().Produce.MaxMessageBytes; got != 70 {
		t.Errorf("the cluster's default came before the topic's own: %d", got)
	}
}

func TestStraysAreSetAside(t *testing.T) {
	b := newBench(t, vfs.NewMem())
	b.create("kept", 1)
	for name, id := range map[string]metadata.UUID{"stray": idOf("stray"), "foreign": {}, "__cluster_metadata": metadata.MetadataTopicID} {
		if _, err := b.store.Create(logstore.ID{Topic: name}, id, logstore.DefaultConfig()); err != nil {
			t.Fatal(err)
		}
	}
	b.manager.SetAsideStrays()
	for name, want := range map[string]bool{"kept": true, "stray": false, "foreign": true, "__cluster_metadata": true} {
		if got := b.store.Log(logstore.ID{Topic: name}) != nil; got != want {
			t.Errorf("%s is there: %v, want %v", name, got, want)
		}
	}
}

// A topic that was deleted and created again while this broker was down finds the log of the one before.
func TestLogOfAnotherTopicIsSetAside(t *testing.T) {
	b := newBench(t, vfs.NewMem())
	if _, err := b.store.Create(logstore.ID{Topic: "t"}, metadata.UUID{77}, logstore.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	b.create("t", 1)
	if a := produce(t, b.partition("t", 0), AckAll); a.BaseOffset != 0 {
		t.Errorf("%+v", a)
	}
}

// slowSync holds every fsync until it is let go, and counts them.
type slowSync struct {
	vfs.FS
	held  atomic.Bool
	gate  chan struct{}
	syncs atomic.Int64
	fail  atomic.Bool

	failWrites atomic.Bool
}

func (s *slowSync) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := s.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &slowFile{f, s}, nil
}

type slowFile struct {
	vfs.File
	fs *slowSync
}

func (f *slowFile) WriteAt(b []byte, at int64) (int, error) {
	if f.fs.failWrites.Load() {
		return 0, syscall.EIO
	}
	return f.File.WriteAt(b, at)
}

func (f *slowFile) Sync() error {
	if strings.HasSuffix(f.Name(), ".log") && f.fs.held.Load() {
		f.fs.syncs.Add(1)
		<-f.fs.gate
		if f.fs.fail.Load() {
			return syscall.EIO
		}
	}
	return f.File.Sync()
}

// With flush.messages=1 neither the high watermark nor an acknowledgement passes the fsync; appends go on, those that
// come while one fsync runs share the next, and other partitions do not wait.
func TestFlushHoldsAcknowledgements(t *testing.T) {
	disk := &slowSync{FS: vfs.NewMem(), gate: make(chan struct{})}
	b := newBench(t, disk)
	b.create("t", 1, "flush.messages", "1")
	b.create("other", 1)
	p := b.partition("t", 0)
	disk.held.Store(true)

	var acked sync.WaitGroup
	var early atomic.Bool
	early.Store(true)
	for i := range 20 {
		acks := []Ack{AckAll, AckLeader}[i%2]
		a := produce(t, p, acks)
		if a.BaseOffset != int64(i) {
			t.Fatalf("append %d went to %d", i, a.BaseOffset)
		}
		acked.Add(1)
		p.AwaitAck(a, acks, func(err error) {
			if err != nil || early.Load() {
				t.Errorf("acknowledged before the fsync, or failed: %v", err)
			}
			acked.Done()
		})
	}
	if hw := p.Log().HighWatermark(); hw != 0 {
		t.Errorf("the high watermark is at %d before the fsync", hw)
	}
	if res, err := p.Read(ReadRequest{CurrentLeaderEpoch: NoEpoch, LastFetchedEpoch: NoEpoch, ReplicaID: -1, MaxBytes: 1 << 20}); err != nil || res.Span != nil {
		t.Errorf("unflushed records can be read: %v", err)
	}
	if a := produce(t, b.partition("other", 0), AckAll); !b.partition("other", 0).Committed(a) {
		t.Error("another partition waits for this one's fsync")
	}
	early.Store(false)
	disk.held.Store(false)
	close(disk.gate)
	acked.Wait()
	if hw := p.Log().HighWatermark(); hw != 20 {
		t.Errorf("the high watermark is at %d after the fsync", hw)
	}
	if n := disk.syncs.Load(); n > 2 {
		t.Errorf("%d fsyncs for what two can cover", n)
	}
}

func TestFailedFlushTakesPartitionsOffline(t *testing.T) {
	disk := &slowSync{FS: vfs.NewMem(), gate: make(chan struct{})}
	b := newBench(t, disk)
	b.create("t", 1, "flush.messages", "1")
	b.create("same-dir", 1)
	p := b.partition("t", 0)
	disk.fail.Store(true)
	disk.held.Store(true)
	a := produce(t, p, AckAll)
	result := make(chan error, 1)
	p.AwaitAck(a, AckAll, func(err error) { result <- err })
	close(disk.gate)
	if err := <-result; !errors.Is(err, ErrOffline) {
		t.Errorf("acknowledged with %v", err)
	}
	for _, name := range []string{"t", "same-dir"} {
		deadline := time.Now().Add(5 * time.Second)
		for b.partition(name, 0).Offline() == nil && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if _, err := b.partition(name, 0).Produce(ProduceRequest{Records: raw(t, "v"), ProduceVersion: 9}); !errors.Is(err, ErrOffline) {
			t.Errorf("%s takes writes on a failed directory: %v", name, err)
		}
	}
	if c := b.manager.State(); c.OfflineReplicas != 2 || c.Partitions != 2 {
		t.Errorf("%+v", c)
	}
}

// A failed write takes the directory offline from within the append; nobody may wait for himself.
func TestFailedWriteTakesPartitionsOffline(t *testing.T) {
	disk := &slowSync{FS: vfs.NewMem()}
	b := newBench(t, disk)
	b.create("t", 1)
	b.create("same-dir", 1)
	disk.failWrites.Store(true)
	done := make(chan error, 1)
	go func() {
		_, err := b.partition("t", 0).Produce(ProduceRequest{Records: raw(t, "v"), ProduceVersion: 9})
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the failed write was acknowledged")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the append hangs")
	}
	disk.failWrites.Store(false)
	for _, name := range []string{"t", "same-dir"} {
		if _, err := b.partition(name, 0).Produce(ProduceRequest{Records: raw(t, "v"), ProduceVersion: 9}); !errors.Is(err, ErrOffline) {
			t.Errorf("%s takes writes on a failed directory: %v", name, err)
		}
	}
}

func TestCoordinatorLog(t *testing.T) {
	b := newBench(t, vfs.NewMem())
	b.create("t", 1)
	log := b.partition("t", 0).CoordinatorLog()
	for i := range 3 {
		end, err := log.Append(0, raw(t, fmt.Sprint(i)))
		if err != nil || end != int64(i+1) {
			t.Fatalf("append %d: end %d, %v", i, end, err)
		}
		called := false
		log.AwaitCommitted(0, end, func(err error) { called = err == nil })
		if !called {
			t.Error("committed, but not told")
		}
	}
	if log.HighWatermark() != 3 || log.EndOffset() != 3 || log.StartOffset() != 0 {
		t.Errorf("offsets %d %d %d", log.StartOffset(), log.HighWatermark(), log.EndOffset())
	}
	for _, maxBytes := range []int{0, 100, 1 << 20} {
		got, err := log.Read(1, maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		first, _, err := batch.Next(got)
		if err != nil || first.BaseOffset() != 1 {
			t.Errorf("%d bytes: %v", maxBytes, err)
		}
	}
	b.lead("t", node)
	if _, err := log.Append(0, raw(t, "v")); !errors.Is(err, ErrFencedLeaderEpoch) {
		t.Errorf("append at an old epoch: %v", err)
	}
	b.lead("t", 2)
	told := make(chan error, 1)
	log.AwaitCommitted(0, 99, func(err error) { told <- err })
	if err := <-told; !errors.Is(err, ErrNotLeader) {
		t.Errorf("awaiting on a partition led elsewhere: %v", err)
	}
}

// An idle partition must cost little here; the log's own share is logstore's business.
func TestIdlePartitionMemory(t *testing.T) {
	const count, limit = 10_000, 2048
	config := &TopicConfig{}
	partitions := make([]*Partition, count)
	before := heap()
	for i := range partitions {
		p := &Partition{Topic: "t", Index: int32(i), nodeID: node}
		if _, err := p.become(metadata.Partition{Leader: 2, Replicas: []int32{2}}, nil, config, nil); err != nil {
			t.Fatal(err)
		}
		partitions[i] = p
	}
	each := (heap() - before) / count
	runtime.KeepAlive(partitions)
	if each > limit {
		t.Errorf("%d bytes each, want at most %d", each, limit)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Watchers come and go while the partition moves.
func TestWatchRace(t *testing.T) {
	b := newBench(t, vfs.NewMem())
	b.create("t", 1)
	p := b.partition("t", 0)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				var w counter
				watches := make([]Watch, 3)
				for i := range watches {
					p.Watch(&watches[i], &w, i)
				}
				produce(t, p, AckAll)
				for i := range watches {
					watches[i].Unwatch()
					watches[i].Unwatch()
				}
				if w.n.Load() < 3 {
					t.Error("a watcher was not told of an append")
				}
			}
		})
	}
	all.Wait()
	if n := p.Waiting(); n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

type counter struct{ n atomic.Int64 }

func (c *counter) PartitionChanged(int) { c.n.Add(1) }
