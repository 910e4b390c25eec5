package raftlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"grete/cluster/metadata"
	"grete/internal/vfs"
)

// change has whoever leads make m a member, or remove it, and waits.
func (n *network) change(t *testing.T, m Member, remove bool) {
	t.Helper()
	c := Change{Set: &m}
	if remove {
		c = Change{Remove: &m.NodeID}
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		for _, node := range n.nodes {
			l := node.leader.Load()
			if l.NodeID != node.id || n.isolated[node.id] {
				continue
			}
			done, err := node.Reconfigure(l.Epoch, func(Quorum) (Change, error) { return c, nil })
			if err != nil {
				continue
			}
			if done == nil {
				return
			}
			select {
			case err := <-done:
				if err == nil {
					return
				}
			case <-time.After(time.Second):
			}
		}
	}
	t.Fatalf("%+v cannot be committed", m)
}

func learner(id int32) Member { return Member{NodeID: id, DirectoryID: directory(id)} }

func voter(id int32) Member { return Member{NodeID: id, DirectoryID: directory(id), Voter: true} }

func newDisk(t *testing.T) *vfs.Mem {
	fsys := vfs.NewMem()
	must(t, fsys.MkdirAll(dataDir, 0o755))
	must(t, fsys.SyncDir("/"))
	return fsys
}

// beginWith starts node 1 as the only voter of a new log.
func beginWith(t *testing.T, seed uint64) *network {
	n := &network{rng: rand.New(rand.NewPCG(seed, 5)), isolated: map[int32]bool{}, nodes: map[int32]*member{}, voters: []int32{1}}
	n.start(t, 1, newDisk(t))
	n.voters = nil
	return n
}

func (n *network) stopAll(t *testing.T) {
	for _, m := range n.nodes {
		n.stop(t, m)
	}
}

func (n *network) wantMembers(t *testing.T, want ...Member) {
	t.Helper()
	equal := func(m *member) bool { return slices.EqualFunc(m.Members(), want, Member.Equal) }
	for _, m := range n.nodes {
		for deadline := time.Now().Add(10 * time.Second); !equal(m); time.Sleep(2 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("node %d has %+v, want %+v", m.id, m.Members(), want)
			}
		}
	}
}

// One voter becomes three and three become others, one change after the other, under writes, lost messages and crashes:
// all nodes have one log and one configuration, and a restart never falls back to an older one, in which a node could
// elect itself alone.
func TestVotersChange(t *testing.T) {
	for seed := range uint64(3) {
		n, rng := beginWith(t, seed), rand.New(rand.NewPCG(seed, 8))
		var committed []string
		write := func() {
			text := fmt.Sprintf("v%d", len(committed))
			committed = append(committed, text)
			n.commit(t, slices.Repeat([]string{text}, 1+rng.IntN(30))...)
		}
		join := func(id int32) {
			n.start(t, id, newDisk(t))
			n.change(t, learner(id), false)
			write()
			n.change(t, voter(id), false)
		}
		write()
		join(2)
		n.lose(3)
		join(3)
		n.wantMembers(t, voter(1), voter(2), voter(3))
		for _, id := range []int32{1, 2, 3} {
			clone := n.nodes[id].fs.CrashClone(rng, rng.IntN(101))
			n.stop(t, n.nodes[id])
			write() // the other two do
			n.start(t, id, clone)
		}
		join(4)
		n.change(t, learner(1), false) // demoted, perhaps while it leads
		write()
		n.change(t, learner(1), true)
		n.stop(t, n.nodes[1])
		write()
		n.wantMembers(t, voter(2), voter(3), voter(4))
		var clones []*vfs.Mem
		for id := int32(2); id <= 4; id++ {
			clones = append(clones, n.nodes[id].fs.CrashClone(rng, 0))
		}
		n.stopAll(t)
		for i, fsys := range clones[:2] {
			n.start(t, int32(i+2), fsys)
		}
		write()
		n.wantMembers(t, voter(2), voter(3), voter(4))
		n.start(t, 4, clones[2])
		n.lose(0)
		write()
		n.awaitEqual(t)
		requireOrder(t, n.nodes[2].content(t, 0), committed)
		n.stopAll(t)
	}
}

// A node that was the only voter and has since been joined must not elect itself alone when it comes back, even with
// nothing but its disk.
func TestFirstVoterWaitsForTheOthers(t *testing.T) {
	n := beginWith(t, 1)
	n.commit(t, "alone")
	for id := int32(2); id <= 3; id++ {
		n.start(t, id, newDisk(t))
		n.change(t, learner(id), false)
		n.change(t, voter(id), false)
	}
	first := n.nodes[1]
	n.commit(t, "all")
	n.wantMembers(t, voter(1), voter(2), voter(3))
	clone := first.fs.CrashClone(rand.New(rand.NewPCG(1, 1)), 0)
	n.stopAll(t)
	back := n.start(t, 1, clone)
	time.Sleep(600 * time.Millisecond) // three elections
	if l := back.leader.Load(); l.NodeID != -1 {
		t.Errorf("it leads alone: %+v", l)
	}
	n.stopAll(t)
}

// A learner that comes when the log is let go of gets a snapshot of before it was added.
func TestLearnerTakesASnapshotOfBeforeItsTime(t *testing.T) {
	n := beginWith(t, 2)
	leader := n.commit(t, "first")
	for i := range 3 {
		n.commit(t, slices.Repeat([]string{"x"}, 20)...)
		end := leader.CommittedEnd()
		must(t, leader.WriteSnapshot(end, leader.log.EpochAt(end-1), oneValue(fmt.Sprint("state ", i))))
	}
	late := n.start(t, 2, newDisk(t))
	n.change(t, learner(2), false)
	n.commit(t, "last")
	n.awaitEqual(t)
	if late.received.Load() == nil {
		t.Error("no snapshot was needed")
	}
	n.wantMembers(t, voter(1), learner(2))
	n.change(t, voter(2), false)
	n.wantMembers(t, voter(1), voter(2))
	q, err := leader.Quorum()
	must(t, err)
	now := time.Now().UnixMilli()
	for _, m := range q.Members {
		if m.End != leader.log.EndOffset() || m.HeardMs < now-2000 || m.CaughtUpMs < now-2000 || m.CaughtUpMs > now {
			t.Errorf("%+v at %d", m, now)
		}
	}
	n.stopAll(t)
}

func TestReconfigureRefuses(t *testing.T) {
	n := beginWith(t, 3)
	leader := n.commit(t, "first")
	epoch := leader.leader.Load().Epoch
	refusal := errors.New("no")
	if _, err := leader.Reconfigure(epoch, func(Quorum) (Change, error) { return Change{}, refusal }); err != refusal {
		t.Error(err)
	}
	if _, err := leader.Reconfigure(epoch-1, nil); !errors.Is(err, ErrNotLeader) {
		t.Error(err)
	}
	set := func(m Member) func(Quorum) (Change, error) {
		return func(Quorum) (Change, error) { return Change{Set: &m}, nil }
	}
	if done, err := leader.Reconfigure(epoch, set(voter(1))); done != nil || err != nil {
		t.Error("what is so already is a change", done, err)
	}
	done, err := leader.Reconfigure(epoch, set(voter(2))) // which does not answer: not committed
	must(t, err)
	if _, err := leader.Reconfigure(epoch, set(learner(3))); !errors.Is(err, ErrChangePending) && err != nil {
		t.Error(err)
	}
	select {
	case err := <-done: // by node 1 alone: the older configuration decides
		must(t, err)
	case <-time.After(10 * time.Second):
		t.Error("not committed")
	}
	n.stopAll(t)
}

func TestSteps(t *testing.T) {
	for _, tt := range []struct {
		from, to Members
		want     []string
	}{
		{nil, Members{voter(1), voter(2), learner(3)}, []string{"ConfChangeAddNode 1", "ConfChangeAddNode 2", "ConfChangeAddLearnerNode 3"}},
		{Members{voter(1)}, Members{voter(2)}, []string{"ConfChangeAddNode 2", "ConfChangeRemoveNode 1"}},
		{Members{voter(1), voter(2)}, Members{learner(1), voter(2)}, []string{"ConfChangeAddLearnerNode 1"}},
		{Members{voter(1)}, Members{{NodeID: 1, Voter: true}}, nil},
	} {
		var got []string
		for _, s := range tt.from.steps(tt.to) {
			got = append(got, fmt.Sprint(s.GetType(), " ", nodeID(s.GetNodeId())))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v → %v: %v", tt.from, tt.to, got)
		}
	}
}

func FuzzMembers(f *testing.F) {
	f.Add(Members{voter(1), {NodeID: 2, Listeners: []metadata.Endpoint{{Listener: "C", Host: "h", Port: 65535, SecurityProtocol: 1}}}}.encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		ms, err := decodeMembers(raw)
		if err != nil {
			return
		}
		again, err := decodeMembers(ms.encode())
		if err != nil || !reflect.DeepEqual(ms, again) {
			t.Fatalf("%+v, %v", again, err)
		}
		kind, index, term := raftpb.EntryConfChangeV2.Enum(), uint64(1), uint64(1)
		_ = checkChange(&raftpb.Entry{Type: kind, Index: &index, Term: &term, Data: raw})
	})
}

// A voter acknowledges a change before its vote file has the change before that. If it crashes then, it begins again
// with the changes of its log all but the last: with the vote file's configuration it would elect itself alone, while
// the others elect another.
func TestVoterRestartsAtMostOneChangeBehind(t *testing.T) {
	n := beginWith(t, 1)
	n.commit(t, "a")
	for _, id := range []int32{2, 3} {
		n.start(t, id, newDisk(t))
		n.change(t, learner(id), false)
		n.change(t, voter(id), false)
	}
	n.wantMembers(t, voter(1), voter(2), voter(3))
	disk := n.nodes[1].fs
	dir := n.nodes[1].o.Dir
	n.stopAll(t)
	state, _, err := loadQuorumState(disk, dir)
	must(t, err)
	state.setMembers(0, Members{voter(1)})
	must(t, state.save(disk, dir))
	n.start(t, 1, disk)
	defer n.stopAll(t)
	for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if l := n.nodes[1].leader.Load(); l != nil && l.NodeID == 1 {
			t.Fatalf("a voter of three leads alone in epoch %d", l.Epoch)
		}
	}
	if got, want := n.nodes[1].Members(), (Members{voter(1), voter(2), learner(3)}); !slices.EqualFunc(got, want, Member.Equal) {
		t.Errorf("it begins with %+v, want %+v", got, want)
	}
}
