package raftlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/logstore"
	"grete/protocol/batch"
)

// network carries messages between the nodes of a test, losing some.
type network struct {
	mu       sync.Mutex
	rng      *rand.Rand
	lossPct  int
	isolated map[int32]bool
	nodes    map[int32]*member
	voters   []int32 // of a new log
	election int     // ms
	// overheard is told of what is sent, under mu; nil: nobody listens.
	overheard func(to *member, raw []byte)
	// snapshots is the file system of a node's snapshots and state; nil: its disk.
	snapshots func(disk vfs.FS) vfs.FS
}

// member is one node of a test cluster.
type member struct {
	*Node
	net      *network
	id       int32
	fs       *vfs.Mem
	disk     *vfs.Faulty // over fs
	failed   atomic.Bool // its disk, which the test wanted
	store    *logstore.Store
	log      *logstore.Log
	leader   atomic.Pointer[Leader]
	received atomic.Pointer[Snapshot]
}

func (m *member) Send(msg *raftpb.Message, asker metadata.UUID) {
	if to := nodeID(msg.GetTo()); answers[msg.GetType()] && asker != directory(to) {
		panic(fmt.Sprintf("an answer to %d is for directory %v", to, asker))
	}
	raw, err := proto.Marshal(msg)
	if err != nil {
		panic(err)
	}
	to := nodeID(msg.GetTo())
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	target := m.net.nodes[to]
	if target == nil || m.net.isolated[m.id] || m.net.isolated[to] || m.net.rng.IntN(100) < m.net.lossPct {
		return
	}
	target.step(raw)
	if m.net.overheard != nil {
		m.net.overheard(target, raw)
	}
}

// step delivers a message.
func (m *member) step(raw []byte) {
	copied := &raftpb.Message{}
	if err := proto.Unmarshal(raw, copied); err != nil {
		panic(err)
	}
	m.Step(copied, directory(nodeID(copied.GetFrom())))
}

func directory(id int32) metadata.UUID { return metadata.UUID{1: byte(id), 2: 1} }

func (n *network) lose(percent int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lossPct = percent
}

func (n *network) isolate(id int32, yes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isolated[id] = yes
}

func (n *network) start(t *testing.T, id int32, fsys *vfs.Mem) *member {
	t.Helper()
	m := &member{net: n, id: id, fs: fsys, disk: vfs.NewFaulty(fsys)}
	m.store = openStore(t, m.disk, dataDir, testSegmentBytes)
	files := vfs.FS(m.disk)
	if n.snapshots != nil {
		files = n.snapshots(files)
	}
	var err error
	m.log, err = m.store.Create(logID, metadata.MetadataTopicID, logConfig(testSegmentBytes))
	must(t, err)
	m.Node, err = Open(Options{
		NodeID: id, Voters: n.voters, DirectoryID: directory(id), Log: m.log, FS: files, Dir: logDir, Clock: clock.System, Logger: zerolog.Nop(),
		Transport: m, ElectionMs: n.election, MessageBytes: 400,
		OnLeader:   func(l Leader) { m.leader.Store(&l) },
		OnSnapshot: func(s Snapshot) { m.received.Store(&s) },
		OnFailure: func(err error) {
			if !m.failed.Load() {
				t.Errorf("node %d: %v", id, err)
			}
		},
	})
	must(t, err)
	m.leader.Store(&Leader{NodeID: -1, Start: -1})
	n.mu.Lock()
	n.nodes[id] = m
	n.mu.Unlock()
	m.Start()
	return m
}

func (n *network) stop(t *testing.T, m *member) {
	t.Helper()
	n.mu.Lock()
	delete(n.nodes, m.id)
	n.mu.Unlock()
	m.Stop()
	must(t, m.store.Close())
}

func startCluster(t *testing.T, seed uint64, lossPct int) *network {
	t.Helper()
	return startClusterWith(t, seed, lossPct, 200)
}

func startClusterWith(t *testing.T, seed uint64, lossPct, electionMs int) *network {
	t.Helper()
	n := newNetwork(seed, lossPct, electionMs)
	n.startAll(t)
	return n
}

func newNetwork(seed uint64, lossPct, electionMs int) *network {
	return &network{rng: rand.New(rand.NewPCG(seed, 5)), lossPct: lossPct, isolated: map[int32]bool{}, nodes: map[int32]*member{}, election: electionMs, voters: []int32{1, 2, 3}}
}

func (n *network) startAll(t *testing.T) {
	t.Helper()
	for id := int32(1); id <= 3; id++ {
		fsys := vfs.NewMem()
		must(t, fsys.MkdirAll(dataDir, 0o755))
		must(t, fsys.SyncDir("/"))
		n.start(t, id, fsys)
	}
}

// commit has whoever leads append the values, trying until they are committed, and returns the leader.
func (n *network) commit(t *testing.T, texts ...string) *member {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for id := int32(1); id <= 5; id++ {
			m := n.nodes[id]
			if m == nil || n.isolated[id] || m.leader.Load().NodeID != id {
				continue
			}
			end, err := m.Propose(context.Background(), m.leader.Load().Epoch, values(t, texts...))
			if err != nil {
				continue
			}
			for i := 0; i < 400 && m.leader.Load().NodeID == id; i++ {
				if m.CommittedEnd() >= end {
					return m
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	t.Fatal("nothing can be committed")
	return nil
}

func (n *network) awaitEqual(t *testing.T) {
	t.Helper()
	equal := func() bool {
		first := int64(-1)
		for _, m := range n.nodes {
			if first < 0 {
				first = m.CommittedEnd()
			}
			if m.CommittedEnd() != first || m.log.EndOffset() != first {
				return false
			}
		}
		return true
	}
	for deadline := time.Now().Add(20 * time.Second); !equal(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the nodes do not agree")
		}
	}
}

// content is the committed log from offset on, byte by byte.
func (m *member) content(t *testing.T, from int64) []byte {
	t.Helper()
	var all []byte
	for from < m.CommittedEnd() {
		raw, err := m.ReadCommitted(from, 1<<20)
		must(t, err)
		all = append(all, raw...)
		from += recordsIn(t, raw)
	}
	return all
}

func recordsIn(t *testing.T, raw []byte) int64 {
	t.Helper()
	var n int64
	for len(raw) > 0 {
		b, rest, err := batch.Next(raw)
		must(t, err)
		n, raw = n+int64(b.LastOffsetDelta())+1, rest
	}
	return n
}

// TestThreeVoters: batches of many records, cut by messages of 400 bytes, survive lost messages, isolated and restarted
// leaders; logs are the same bytes everywhere, and nothing committed is lost or torn.
func TestThreeVoters(t *testing.T) {
	for seed := range uint64(3) {
		n, rng := startCluster(t, seed, 5), rand.New(rand.NewPCG(seed, 6))
		var committed []string
		write := func(count int) *member {
			text := fmt.Sprintf("v%d", len(committed))
			committed = append(committed, text)
			return n.commit(t, slices.Repeat([]string{text}, count)...)
		}
		write(1)
		for round := range 4 {
			leader := write(60)
			write(1 + rng.IntN(80))
			n.isolate(leader.id, true)
			_, err := leader.Propose(context.Background(), leader.leader.Load().Epoch, values(t, slices.Repeat([]string{"lost"}, 50)...))
			if err != nil && !errors.Is(err, ErrNotLeader) {
				t.Fatal(err)
			}
			write(30)
			if round%2 == 1 {
				clone := leader.fs.CrashClone(rng, 50)
				n.stop(t, leader)
				n.start(t, leader.id, clone)
			}
			n.isolate(leader.id, false)
			write(5)
		}
		n.lose(0)
		write(1)
		n.awaitEqual(t)
		content := n.nodes[1].content(t, 0)
		for id, m := range n.nodes {
			if !bytes.Equal(m.content(t, 0), content) {
				t.Errorf("seed %d: the log of node %d differs", seed, id)
			}
		}
		requireOrder(t, content, committed)
		for _, m := range n.nodes {
			n.stop(t, m)
		}
	}
}

// requireOrder: every committed batch is there whole, in order; what was proposed to the isolated leader may be.
func requireOrder(t *testing.T, content []byte, committed []string) {
	t.Helper()
	at := 0
	for len(content) > 0 {
		b, rest, err := batch.Next(content)
		must(t, err)
		content = rest
		if b.Control() {
			continue
		}
		for r, err := range b.Records() {
			must(t, err)
			if at < len(committed) && string(r.Value) == committed[at] {
				at++
			}
			break
		}
		if int(b.RecordCount()) != int(b.LastOffsetDelta())+1 {
			t.Fatalf("a torn batch at %d", b.BaseOffset())
		}
	}
	if at < len(committed) {
		t.Errorf("%q is not in the log", committed[at])
	}
}

// TestFollowerTakesASnapshot: a follower that was away while the log was let go of gets the snapshot, and goes on from
// it.
func TestFollowerTakesASnapshot(t *testing.T) {
	n := startCluster(t, 9, 0)
	leader := n.commit(t, "first")
	away := n.nodes[leader.id%3+1]
	n.isolate(away.id, true)
	for i := range 3 {
		leader = n.commit(t, slices.Repeat([]string{strings.Repeat("x", 200)}, 20)...)
		must(t, leader.WriteSnapshot(leader.CommittedEnd(), leader.log.EpochAt(leader.CommittedEnd()-1), oneValue(fmt.Sprintf("state %d", i))))
	}
	n.isolate(away.id, false)
	n.commit(t, "last")
	n.awaitEqual(t)
	s := away.received.Load()
	if s == nil || !bytes.Contains(s.Raw, []byte("state")) || away.log.StartOffset() != s.End {
		t.Fatalf("no snapshot was taken: %+v, log start %d", s, away.log.StartOffset())
	}
	if !bytes.Equal(away.content(t, s.End), leader.content(t, s.End)) {
		t.Error("the logs differ after the snapshot")
	}
	n.stop(t, away)
	if ids, err := listSnapshots(away.fs, logDir); err != nil || len(ids) != 1 || ids[0].end != s.End {
		t.Errorf("snapshots %v after the one at %d, %v", ids, s.End, err)
	}
	n.start(t, away.id, away.fs)
	n.commit(t, "after")
	n.awaitEqual(t)
	for _, m := range n.nodes {
		n.stop(t, m)
	}
}

// slowSnapshots holds reads of snapshots back until gate is closed, and says on asked that there is one.
type slowSnapshots struct {
	vfs.FS
	slow  *atomic.Bool
	asked chan<- string
	gate  <-chan struct{}
}

func (f slowSnapshots) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if f.slow.Load() && flag == os.O_RDONLY && strings.HasSuffix(name, snapshotSuffix) {
		select {
		case f.asked <- name:
		default:
		}
		<-f.gate
	}
	return f.FS.OpenFile(name, flag, perm)
}

// TestSlowSnapshotKeepsNobodyWaiting: while a leader's snapshot is read for a follower, the leader leads and commits;
// the follower gets it later. The read is waited for when the node stops.
func TestSlowSnapshotKeepsNobodyWaiting(t *testing.T) {
	slow, asked, gate := &atomic.Bool{}, make(chan string, 1), make(chan struct{})
	n := newNetwork(9, 0, 200)
	n.snapshots = func(disk vfs.FS) vfs.FS { return slowSnapshots{disk, slow, asked, gate} }
	n.startAll(t)
	leader := n.commit(t, "first")
	away := n.nodes[leader.id%3+1]
	n.isolate(away.id, true)
	for i := range 3 {
		leader = n.commit(t, slices.Repeat([]string{strings.Repeat("x", 200)}, 20)...)
		must(t, leader.WriteSnapshot(leader.CommittedEnd(), leader.log.EpochAt(leader.CommittedEnd()-1), oneValue(fmt.Sprintf("state %d", i))))
	}
	slow.Store(true)
	n.isolate(away.id, false)
	select {
	case <-asked:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody reads the snapshot")
	}
	for range 20 {
		n.commit(t, "meanwhile")
	}
	if away.received.Load() != nil {
		t.Fatal("the snapshot came before it was read")
	}
	slow.Store(false)
	close(gate)
	n.awaitEqual(t)
	if away.received.Load() == nil {
		t.Fatal("no snapshot was taken")
	}
	for _, m := range n.nodes {
		n.stop(t, m)
	}
}

// starved is a log that finds no descriptor for its reads while lacks is set.
type starved struct {
	Log
	lacks *atomic.Bool
}

func (s starved) Read(offset int64, o logstore.ReadOptions) (*logstore.Span, error) {
	if s.lacks.Load() {
		return nil, syscall.EMFILE
	}
	return s.Log.Read(offset, o)
}

// TestLackOfDescriptorsForReadsHeals: a leader that finds no descriptor to read its log with waits for one, and goes
// on.
func TestLackOfDescriptorsForReadsHeals(t *testing.T) {
	n := startCluster(t, 4, 0)
	m := n.commit(t, "a")
	behind := m.id%3 + 1
	n.isolate(behind, true)
	m = n.commit(t, "b")
	lacks := &atomic.Bool{}
	lacks.Store(true)
	m.Report(behind, false, false) // the next message to it begins with what only the log has
	must(t, m.call(func() { m.storage.log = starved{m.storage.log, lacks} }))
	proposed := make(chan struct{})
	go func() {
		_, _ = m.Propose(context.Background(), m.leader.Load().Epoch, values(t, "c"))
		close(proposed)
	}()
	time.Sleep(roomEvery / 2)
	n.isolate(behind, false)
	lacks.Store(false)
	<-proposed
	n.commit(t, "d")
	n.awaitEqual(t)
	for _, m := range n.nodes {
		n.stop(t, m)
	}
}

// starvedSnapshots are snapshots for whose reading there is no descriptor while lacks is set.
type starvedSnapshots struct {
	vfs.FS
	lacks *atomic.Bool
	asked chan<- string
}

func (f starvedSnapshots) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if f.lacks.Load() && flag == os.O_RDONLY && strings.HasSuffix(name, snapshotSuffix) {
		select {
		case f.asked <- name:
		default:
		}
		return nil, syscall.EMFILE
	}
	return f.FS.OpenFile(name, flag, perm)
}

// TestLackOfDescriptorsForASnapshotHeals: a leader that finds no descriptor to read a snapshot with tries again; it
// does not fail.
func TestLackOfDescriptorsForASnapshotHeals(t *testing.T) {
	lacks, asked := &atomic.Bool{}, make(chan string)
	n := newNetwork(9, 0, 200)
	n.snapshots = func(disk vfs.FS) vfs.FS { return starvedSnapshots{disk, lacks, asked} }
	n.startAll(t)
	leader := n.commit(t, "first")
	away := n.nodes[leader.id%3+1]
	n.isolate(away.id, true)
	for i := range 3 {
		leader = n.commit(t, slices.Repeat([]string{strings.Repeat("x", 200)}, 20)...)
		must(t, leader.WriteSnapshot(leader.CommittedEnd(), leader.log.EpochAt(leader.CommittedEnd()-1), oneValue(fmt.Sprintf("state %d", i))))
	}
	lacks.Store(true)
	n.isolate(away.id, false)
	for range 2 {
		select {
		case <-asked:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody reads the snapshot again")
		}
	}
	lacks.Store(false)
	n.commit(t, "last")
	n.awaitEqual(t)
	if away.received.Load() == nil {
		t.Fatal("no snapshot was taken")
	}
	for _, m := range n.nodes {
		n.stop(t, m)
	}
}

// unreadable is a log on a disk that can be written to, and no more.
type unreadable struct{ Log }

func (unreadable) Read(int64, logstore.ReadOptions) (*logstore.Span, error) { return nil, syscall.EIO }

// TestUnreadableLogAnswersProposals: a leader that can no longer read its log ends, and so does whoever asks it
// meanwhile.
func TestUnreadableLogAnswersProposals(t *testing.T) {
	n := startCluster(t, 4, 0)
	m := n.commit(t, "a")
	behind := m.id%3 + 1
	n.isolate(behind, true)
	m = n.commit(t, "b")
	failed := make(chan error, 1)
	m.o.OnFailure = func(err error) { failed <- err }
	m.Report(behind, false, false) // the next message to it begins with what only the log has
	must(t, m.call(func() { m.storage.log = unreadable{m.storage.log} }))
	done := make(chan error, 1)
	go func() {
		_, err := m.Propose(context.Background(), m.leader.Load().Epoch, values(t, "c"))
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, ErrStopped) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a proposal is not answered")
	}
	if err := <-failed; !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := m.call(func() {}); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	for _, m := range n.nodes {
		n.stop(t, m)
	}
}
