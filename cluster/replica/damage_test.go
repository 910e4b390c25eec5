package replica

import (
	"context"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/vfs"
	"grete/logstore"
	"grete/protocol/batch"
)

// told are the directories that the controller would be told of t-0.
func (r *replicated) told() (out []metadata.UUID) {
	for _, id := range r.manager.assigner.take() {
		out = append(out, id)
	}
	return out
}

func requireTold(t *testing.T, r *replicated, want ...metadata.UUID) {
	t.Helper()
	got := r.told()
	if len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
		t.Errorf("told %v, want %v", got, want)
	}
}

var ownDir = metadata.UUID{9: 9}

// withDirectory gives the bench's directory an id and has the controller listen.
func withDirectory(t *testing.T) *replicated {
	fs := vfs.NewMem()
	text := []byte("version=1\nnode.id=1\ncluster.id=c\ndirectory.id=" + ownDir.String() + "\n")
	if err := fs.MkdirAll("/data", 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := fs.OpenFile("/data/meta.properties", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(text, 0); err != nil {
		t.Fatal(err)
	}
	r := newReplicatedOn(t, fs)
	r.manager.assigner.assign = nobodyAssigns
	return r
}

// nobodyAssigns is a controller that must not be reached: the test takes what it would be told.
func nobodyAssigns(context.Context, *kmsg.AssignReplicasToDirsRequest) (*kmsg.AssignReplicasToDirsResponse, error) {
	panic("reached")
}

func (r *replicated) assigned(dir metadata.UUID) {
	c := metadata.NewPartitionChange(idOf("t"), 0)
	c.Directories = []metadata.UUID{dir, {}, {}}
	r.apply(c)
}

func (r *replicated) damaged(p *Partition, from, to int64) {
	r.manager.Damaged(logstore.Damage{Log: p.Log(), From: from, To: to, Err: batch.ErrCorrupt})
}

// A replica in another directory than the metadata says tells so, once that is known no more.
func TestDirectoriesAreTold(t *testing.T) {
	r := withDirectory(t)
	r.replicate(1, 1, 2)
	requireTold(t, r, ownDir)
	r.assigned(ownDir)
	requireTold(t, r)
	r.elect(2, 1, 2)
	requireTold(t, r)
	r.assigned(metadata.UnassignedDir)
	requireTold(t, r, ownDir)
}

// A damaged follower leaves the ISR first, with its log as it is; then it cuts what is lost, and is somewhere again.
func TestDamagedFollower(t *testing.T) {
	r := withDirectory(t)
	p := r.following(5)
	r.assigned(ownDir)
	r.isr(1, 2)
	requireTold(t, r)
	r.damaged(p, 2, 4)
	requireTold(t, r, metadata.LostDir)
	requireEnd(t, p, 5)
	r.damaged(p, 3, 4) // the scrubber tells again and again
	requireTold(t, r, metadata.LostDir)
	c := metadata.NewPartitionChange(idOf("t"), 0)
	c.Leader, c.ISR, c.Directories = 2, []int32{2}, []metadata.UUID{metadata.LostDir, {}, {}}
	r.apply(c)
	requireEnd(t, p, 2)
	requireTold(t, r, ownDir)
	r.assigned(ownDir)
	r.append(p, 1, 3)
	r.elect(2, 1, 2)
	requireEnd(t, p, 5)
	requireTold(t, r)
}

// A leader hands over before, if there is somebody; else it keeps all that it has.
func TestDamagedLeader(t *testing.T) {
	r := withDirectory(t)
	p := r.replicate(1, 1)
	r.assigned(ownDir)
	r.writes(p, 5)
	r.damaged(p, 2, 4)
	requireTold(t, r)
	requireEnd(t, p, 5)
	r.isr(1, 2) // from now on somebody has it all
	requireTold(t, r, metadata.LostDir)
	requireEnd(t, p, 5)
	r.elect(-1, 1)
	requireEnd(t, p, 5)
	requireTold(t, r) // alone again, it does not count as lost
	r.elect(2, 2)
	requireEnd(t, p, 2)
}

// Damage of a log that is another's by now is nobody's business.
func TestDamageOfAForgottenLog(t *testing.T) {
	r := withDirectory(t)
	p := r.following(5)
	old := p.Log()
	r.apply(&metadata.RemoveTopicRecord{ID: idOf("t")})
	r.manager.Damaged(logstore.Damage{Log: old, From: 2, To: 4})
	p = r.following(5)
	r.manager.Damaged(logstore.Damage{Log: old, From: 2, To: 4})
	requireEnd(t, p, 5)
}
