package replica

import (
	"syscall"
	"testing"

	"grete/cluster/metadata"
	"grete/internal/vfs"
)

// onFullDisk is a follower with n records whose log's files can be made to lack space.
func onFullDisk(t *testing.T, n int) (*replicated, *Partition, *vfs.Faulty) {
	disk := vfs.NewFaulty(vfs.NewMem())
	r := newReplicatedOn(t, disk)
	r.manager.assigner.assign = nobodyAssigns
	p := r.following(n)
	r.isr(1, 2)
	r.told()
	return r, p, disk
}

// appendFails wants the leader's next record not to fit.
func (r *replicated) appendFails(p *Partition, times int) {
	r.t.Helper()
	for range times {
		end := p.Log().EndOffset()
		if err := p.replicate(p.LeaderEpoch(), fetched{offset: end, records: stamped(r.t, end, 0, 1)}); err == nil {
			r.t.Fatal("the disk is not full")
		}
		requireEnd(r.t, p, end)
	}
}

// A follower that finds no room for its records says so, and leaves the ISR; once it has room it is as it was.
func TestFullFollowerLeaves(t *testing.T) {
	r, p, disk := onFullDisk(t, 3)
	disk.Lack(".log", syscall.ENOSPC)
	r.appendFails(p, tellAfter-1)
	requireTold(t, r)
	r.appendFails(p, 1)
	requireTold(t, r, metadata.FullDir)
	r.appendFails(p, 1) // the controller has not heard it: again
	requireTold(t, r, metadata.FullDir)
	r.isr(2)
	r.appendFails(p, 1)
	requireTold(t, r)
	disk.Heal()
	r.append(p, 0, 2)
	r.isr(1, 2)
	requireTold(t, r)
	requireEnd(t, p, 5)
}

// The last replica in sync, and one that leads, tell nothing.
func TestFullReplicaThatCounts(t *testing.T) {
	r, p, disk := onFullDisk(t, 3)
	r.isr(1)
	disk.Lack(".log", syscall.ENOSPC)
	r.appendFails(p, tellAfter)
	requireTold(t, r)
	r.elect(1, 1, 2)
	r.manager.assigner.submit(p)
	requireTold(t, r)
}

// Room that comes and goes is no full disk.
func TestLackThatHeals(t *testing.T) {
	r, p, disk := onFullDisk(t, 3)
	for range tellAfter {
		disk.Lack(".log", syscall.ENOSPC)
		r.appendFails(p, tellAfter-1)
		disk.Heal()
		r.append(p, 0, 1)
	}
	requireTold(t, r)
}

// Who has left the ISR is not waited for, however short ago it was caught up.
func TestWhoHasLeftIsNotWaitedFor(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1, 2, 3)
	r.writes(p, 1)
	for _, id := range []int32{2, 3} {
		requireError(t, r.follows(p, id, 1), nil)
	}
	requireHW(t, p, 1)
	r.writes(p, 1)
	requireError(t, r.follows(p, 2, 2), nil)
	requireHW(t, p, 1)
	r.isr(1, 2)
	requireHW(t, p, 2)
	requireError(t, r.follows(p, 3, 2), nil) // it has caught up, and is to be in sync
	if got := r.proposals(); len(got) != 1 || !got[0].grows {
		t.Errorf("proposals %v", got)
	}
}
