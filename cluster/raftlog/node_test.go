package raftlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"go.etcd.io/raft/v3/raftpb"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/logstore"
	"grete/protocol/batch"
)

var logID = logstore.ID{Topic: "__cluster_metadata", Partition: 0}

const (
	testSegmentBytes = 64 << 10

	dataDir = "/data"
	logDir  = "/data/__cluster_metadata-0"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB, fsys vfs.FS, dir string, segmentBytes int32) *logstore.Store {
	t.Helper()
	s, err := logstore.Open(context.Background(), logstore.Options{
		FS: fsys, Clock: clock.System, Dirs: []string{dir}, Defaults: logConfig(segmentBytes),
	})
	must(t, err)
	return s
}

func logConfig(segmentBytes int32) logstore.Config {
	c := logstore.DefaultConfig()
	c.RetentionMs, c.Delete, c.SegmentBytes, c.FileDeleteDelayMs = -1, false, segmentBytes, 0
	return c
}

// rig is a node over a real store.
type rig struct {
	*Node
	store   *logstore.Store
	log     *logstore.Log
	commits chan int64
	leader  atomic.Pointer[Leader]
	failure chan error
}

func openRig(t testing.TB, fsys vfs.FS) (*rig, error) {
	t.Helper()
	r := &rig{store: openStore(t, fsys, dataDir, testSegmentBytes), commits: make(chan int64, 1024), failure: make(chan error, 1)}
	var err error
	r.log, err = r.store.Create(logID, metadata.MetadataTopicID, logConfig(testSegmentBytes))
	must(t, err)
	r.Node, err = Open(Options{
		NodeID: 0, Voters: []int32{0}, Log: r.log, FS: fsys, Dir: logDir, Clock: clock.System, Logger: zerolog.Nop(),
		OnCommit: func(end int64) {
			select {
			case r.commits <- end:
			default:
			}
		},
		OnLeader:  func(l Leader) { r.leader.Store(&l) },
		OnFailure: func(err error) { r.failure <- err },
	})
	return r, err
}

func startRig(t testing.TB, fsys vfs.FS) *rig {
	t.Helper()
	r, err := openRig(t, fsys)
	must(t, err)
	r.Start()
	r.await(t, func() bool { l := r.leader.Load(); return l != nil && l.Start >= 0 && r.CommittedEnd() > l.Start })
	return r
}

func (r *rig) await(t testing.TB, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatal("timed out")
		}
	}
}

func (r *rig) close(t testing.TB) {
	t.Helper()
	r.Stop()
	must(t, r.store.Close())
}

// values makes a batch of one record per value.
func values(t testing.TB, texts ...string) batch.Batch {
	t.Helper()
	var records []batch.Record
	for _, text := range texts {
		records = append(records, batch.Record{TimestampMs: 1, Value: []byte(text)})
	}
	b, err := Batch(records)
	must(t, err)
	return b
}

func (r *rig) propose(t testing.TB, texts ...string) int64 {
	t.Helper()
	end, err := r.Propose(context.Background(), r.leader.Load().Epoch, values(t, texts...))
	must(t, err)
	return end
}

func (r *rig) commit(t testing.TB, texts ...string) int64 {
	t.Helper()
	end := r.propose(t, texts...)
	r.await(t, func() bool { return r.CommittedEnd() >= end })
	return end
}

// texts are the values committed from offset on, with control batches as "control N".
func (r *rig) texts(t testing.TB, from int64) []string {
	t.Helper()
	var all []string
	for from < r.CommittedEnd() {
		raw, err := r.ReadCommitted(from, 1<<20)
		must(t, err)
		for len(raw) > 0 {
			b, rest, err := batch.Next(raw)
			must(t, err)
			if b.Control() {
				kind, _, err := controlRecord(b)
				must(t, err)
				all = append(all, fmt.Sprintf("control %d", kind))
			} else {
				for rec, err := range b.Records() {
					must(t, err)
					all = append(all, string(rec.Value))
				}
			}
			raw, from = rest, b.LastOffset()+1
		}
	}
	return all
}

func TestSingleVoter(t *testing.T) {
	fsys := vfs.NewMem()
	r := startRig(t, fsys)
	if l := *r.leader.Load(); l != (Leader{NodeID: 0, Epoch: 1, Start: 1}) {
		t.Fatalf("%+v", l)
	}
	if end := r.commit(t, "a", "b", "c"); end != 5 {
		t.Fatalf("the batch of three ends at %d", end)
	}
	r.commit(t, "d")
	want := []string{"control 1002", "control 2", "a", "b", "c", "d"}
	if got := r.texts(t, 0); !slices.Equal(got, want) {
		t.Fatal(got)
	}
	if _, err := r.Propose(context.Background(), 7, values(t, "x")); !errors.Is(err, ErrNotLeader) {
		t.Fatal(err)
	}
	if r.log.LatestEpoch() != 1 || r.log.HighWatermark() != 6 {
		t.Fatal(r.log.LatestEpoch(), r.log.HighWatermark())
	}
	r.close(t)
	if _, err := r.Propose(context.Background(), 1, values(t, "x")); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}

	again := startRig(t, fsys)
	defer again.close(t)
	if l := *again.leader.Load(); l != (Leader{NodeID: 0, Epoch: 2, Start: 7}) {
		t.Fatalf("%+v", l)
	}
	again.commit(t, "e")
	if got := again.texts(t, 0); !slices.Equal(got, append(want, "control 1002", "control 2", "e")) {
		t.Fatal(got)
	}
}

func TestIdleSingleVoterDoesNothing(t *testing.T) {
	fsys := vfs.NewMem()
	faulty := vfs.NewFaulty(fsys)
	r := startRig(t, faulty)
	defer r.close(t)
	before := faulty.Count()
	time.Sleep(250 * time.Millisecond)
	if n := faulty.Count() - before; n != 0 {
		t.Errorf("%d file operations while idle", n)
	}
}

func TestProposalsShareFsyncs(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	r := startRig(t, faulty)
	defer r.close(t)
	r.commit(t, "first")
	var syncs atomic.Int64
	faulty.Inject(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			syncs.Add(1)
			time.Sleep(2 * time.Millisecond)
		}
		return nil
	})
	const writers, each = 16, 4
	done := make(chan error)
	for range writers {
		go func() {
			for range each {
				b, _ := Batch([]batch.Record{{Value: []byte("v")}})
				end, err := r.Propose(context.Background(), 1, b)
				if err != nil {
					done <- err
					return
				}
				for r.CommittedEnd() < end {
					time.Sleep(100 * time.Microsecond)
				}
			}
			done <- nil
		}()
	}
	for range writers {
		must(t, <-done)
	}
	if n := syncs.Load(); n > writers*each/2 {
		t.Errorf("%d fsyncs for %d proposals of %d writers", n, writers*each, writers)
	}
}

func TestSnapshotBoundsTheLog(t *testing.T) {
	fsys := vfs.NewMem()
	r := startRig(t, fsys)
	kept := strings.Repeat("x", 10_000)
	for round := range 4 {
		for range 10 {
			r.commit(t, kept)
		}
		end := r.CommittedEnd()
		must(t, r.WriteSnapshot(end, 1, oneValue(fmt.Sprintf("state %d", round))))
	}
	ids, err := listSnapshots(fsys, logDir)
	must(t, err)
	if len(ids) != 2 || r.log.StartOffset() != ids[0].end {
		t.Fatalf("snapshots %v, log start %d", ids, r.log.StartOffset())
	}
	r.commit(t, "after")
	r.close(t)

	again, err := openRig(t, fsys)
	must(t, err)
	s, ok := again.TakeSnapshot()
	if !ok || s.End != ids[1].end || s.Epoch != 1 || !bytes.Contains(s.Raw, []byte("state 3")) {
		t.Fatalf("%v %+v", ok, s.End)
	}
	again.Start()
	again.await(t, func() bool { return again.CommittedEnd() >= s.End+3 })
	if got := again.texts(t, s.End); !slices.Equal(got, []string{"after", "control 1002", "control 2"}) {
		t.Fatal(got)
	}
	again.close(t)
}

func oneValue(text string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { yield([]byte(text)) }
}

func TestDamageIsRefused(t *testing.T) {
	base := vfs.NewMem()
	r := startRig(t, base)
	r.commit(t, "a", "b")
	must(t, r.WriteSnapshot(r.CommittedEnd(), 1, oneValue("state")))
	r.commit(t, "c")
	r.close(t)
	ids, _ := listSnapshots(base, logDir)
	snapshotFile, stateFile := path.Join(logDir, ids[0].fileName()), path.Join(logDir, quorumStateFile)
	for _, c := range []struct {
		name, file, says string
		damage           func(raw []byte) []byte
	}{
		{"vote bit flipped", stateFile, "vote file is damaged", func(raw []byte) []byte {
			return bytes.Replace(raw, []byte(`"leaderEpoch":1`), []byte(`"leaderEpoch":0`), 1)
		}},
		{"vote emptied", stateFile, "vote file is damaged", func([]byte) []byte { return nil }},
		{"vote gone", stateFile, "vote file is missing", nil},
		{"snapshot bit flipped", snapshotFile, "snapshot is damaged", func(raw []byte) []byte {
			raw[len(raw)/2] ^= 1
			return raw
		}},
		{"snapshot cut", snapshotFile, "snapshot is damaged", func(raw []byte) []byte { return raw[:len(raw)-1] }},
		{"snapshot without footer", snapshotFile, "snapshot is damaged", func(raw []byte) []byte {
			var batches [][]byte
			for rest := raw; len(rest) > 0; {
				b, after, _ := batch.Next(rest)
				batches, rest = append(batches, b), after
			}
			return bytes.Join(batches[:len(batches)-1], nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := base.CrashClone(rand.New(rand.NewPCG(1, 1)), 100)
			if c.damage == nil {
				must(t, fsys.Remove(c.file))
			} else {
				raw, err := vfs.ReadFile(fsys, c.file, math.MaxInt64)
				must(t, err)
				must(t, vfs.ReplaceFile(fsys, c.file, ".damaged", bytesOf(c.damage(raw))))
			}
			before := fileSizes(t, fsys)
			broken, err := openRig(t, fsys)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.file) {
				t.Fatalf("%v", err)
			}
			must(t, broken.store.Close())
			for name, size := range before {
				if now, ok := fileSizes(t, fsys)[name]; !ok || now != size {
					t.Errorf("%s had %d bytes, now %d (%v)", name, size, now, ok)
				}
			}
		})
	}
}

// fileSizes are the files that only this package writes.
func fileSizes(t *testing.T, fsys vfs.FS) map[string]int {
	t.Helper()
	sizes := map[string]int{}
	entries, err := fsys.ReadDir(logDir)
	must(t, err)
	for _, e := range entries {
		if e.Name() == quorumStateFile || strings.HasSuffix(e.Name(), snapshotSuffix) {
			raw, err := vfs.ReadFile(fsys, path.Join(logDir, e.Name()), math.MaxInt64)
			must(t, err)
			sizes[e.Name()] = len(raw)
		}
	}
	return sizes
}

func TestFailedFsyncStepsDown(t *testing.T) {
	for name, match := range map[string]func(vfs.Op) bool{
		"fsync": func(op vfs.Op) bool { return op.Kind == vfs.OpSync },
		"write": func(op vfs.Op) bool { return op.Kind == vfs.OpWrite },
	} {
		t.Run(name, func(t *testing.T) {
			faulty := vfs.NewFaulty(vfs.NewMem())
			r := startRig(t, faulty)
			committed := r.CommittedEnd()
			faulty.Inject(vfs.FailMatching(match, syscall.EIO))
			r.propose(t, "lost")
			if err := <-r.failure; !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
			r.Stop()
			if l := r.leader.Load(); l.NodeID != -1 || r.CommittedEnd() != committed || !errors.Is(r.Failure(), syscall.EIO) {
				t.Fatalf("%+v, committed %d, %v", l, r.CommittedEnd(), r.Failure())
			}
			if _, err := r.Propose(context.Background(), 1, values(t, "x")); !errors.Is(err, ErrStopped) {
				t.Fatal(err)
			}
			_ = r.store.Close()
		})
	}
}

// TestCrashes stops at random moments with crash clones of which nothing unsynced is sure to survive: what was
// committed is there, in order, and a new leader has a new epoch.
func TestCrashes(t *testing.T) {
	seeds := uint64(60)
	if os.Getenv("GRETE_LONG") == "1" {
		seeds *= 100
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 7))
		fsys, lastEpoch, acked := vfs.NewMem(), int32(0), []string(nil)
		must(t, fsys.MkdirAll(dataDir, 0o755)) // log.dirs exist before
		must(t, fsys.SyncDir("/"))
		for range 4 {
			r := startRig(t, fsys)
			epoch := r.leader.Load().Epoch
			if epoch <= lastEpoch {
				t.Fatalf("seed %d: epoch %d after %d", seed, epoch, lastEpoch)
			}
			lastEpoch = epoch
			requireAcked(t, seed, r, acked)
			for i := range rng.IntN(6) {
				text := fmt.Sprintf("v%d-%d", epoch, i)
				texts := slices.Repeat([]string{text}, 1+rng.IntN(3))
				if rng.IntN(4) == 0 {
					r.propose(t, "unacknowledged")
				}
				r.commit(t, texts...)
				acked = append(acked, texts...)
			}
			clone := fsys.CrashClone(rng, rng.IntN(101))
			r.close(t)
			fsys = clone
		}
	}
}

func requireAcked(t *testing.T, seed uint64, r *rig, acked []string) {
	t.Helper()
	at := 0
	for _, text := range r.texts(t, 0) {
		if at < len(acked) && text == acked[at] {
			at++
		}
	}
	if at < len(acked) {
		t.Fatalf("seed %d: only %d of %d acknowledged records are there", seed, at, len(acked))
	}
}

func TestStartToLeader(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, vfs.OS, dir, 1<<20)
	defer store.Close()
	log, err := store.Create(logID, metadata.MetadataTopicID, logConfig(testSegmentBytes))
	must(t, err)
	led := make(chan struct{})
	begin := time.Now()
	n, err := Open(Options{
		NodeID: 1, Voters: []int32{1}, Log: log, FS: vfs.OS, Dir: path.Join(dir, "__cluster_metadata-0"), Clock: clock.System,
		Logger: zerolog.Nop(), OnCommit: func(int64) { close(led) },
	})
	must(t, err)
	n.Start()
	<-led
	took := time.Since(begin)
	n.Stop()
	t.Logf("from nothing to a committed first record: %v", took)
	if took > 2*time.Second {
		t.Error("too slow")
	}
}

func TestEntries(t *testing.T) {
	fsys := vfs.NewMem()
	r := startRig(t, fsys)
	defer r.close(t)
	r.commit(t, "a", "b", "c")
	r.commit(t, "d", "e")
	last, _ := r.storage.LastIndex()
	if last != 7 {
		t.Fatal(last)
	}
	for lo := uint64(1); lo <= last; lo++ {
		for hi := lo + 1; hi <= last+1; hi++ {
			for _, max := range []uint64{0, 1, 100, 200, 1 << 30} {
				entries, err := r.storage.Entries(lo, hi, max)
				must(t, err)
				for i, e := range entries {
					if e.GetIndex() != lo+uint64(i) || e.GetTerm() != 1 {
						t.Fatalf("[%d,%d) %d: entry %d is %v", lo, hi, max, i, e)
					}
				}
				if len(entries) == 0 || uint64(len(entries)) > hi-lo || max == 1<<30 && uint64(len(entries)) != hi-lo {
					t.Fatalf("[%d,%d) %d: %d entries", lo, hi, max, len(entries))
				}
			}
		}
	}
	entries, _ := r.storage.Entries(3, 5, 1<<30) // cut within the batch a b c, as a message may be
	m := &raftpb.Message{Type: raftpb.MsgApp.Enum(), Entries: entries}
	must(t, whole(m))
	if len(m.Entries) != 3 || m.Entries[2].GetIndex() != 5 || m.Entries[2].GetTerm() != 1 {
		t.Fatal(m.Entries)
	}
}

func TestConfigurationChangesSurvive(t *testing.T) {
	one, index := uint64(1), uint64(9)
	change := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: &index}}}
	data, err := proto.Marshal(change)
	must(t, err)
	e := &raftpb.Entry{Type: raftpb.EntryConfChangeV2.Enum(), Term: &one, Index: &index, Data: data}
	b, err := batchOf(e)
	must(t, err)
	b.SetBaseOffset(8)
	back, err := entriesOf(b, 9, 1)
	must(t, err)
	if len(back) != 1 || !proto.Equal(back[0], e) {
		t.Fatalf("%v became %v", e, back)
	}
}

func FuzzSnapshot(f *testing.F) {
	fsys := vfs.NewMem()
	must(f, fsys.MkdirAll(logDir, 0o755))
	must(f, writeSnapshot(fsys, logDir, snapshotID{5, 1}, Members{{NodeID: 1, Voter: true}}, 1, oneValue("value")))
	raw, err := vfs.ReadFile(fsys, path.Join(logDir, snapshotID{5, 1}.fileName()), math.MaxInt64)
	must(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := checkSnapshot(snapshotID{5, 1}, raw); err == nil && len(s.members) == 0 {
			t.Fatal("accepted without a configuration")
		}
	})
}

func FuzzQuorumState(f *testing.F) {
	f.Add(newQuorumState(Members{{NodeID: 1, Voter: true}, {NodeID: 2, DirectoryID: metadata.UUID{1, 2}, Voter: true, Listeners: []metadata.Endpoint{{Listener: "C", Host: "h", Port: 1}}}, {NodeID: 3}}).encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := decodeQuorumState(raw)
		if err == nil && !bytes.Equal(bytes.TrimSpace(raw), s.encode()) {
			t.Fatalf("%q was accepted", raw)
		}
	})
}

func bytesOf(raw []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}
}
