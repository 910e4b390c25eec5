package sim

import (
	"sync"

	"grete/internal/history"
)

// owners is who owns what in a group, as its members were told. In one generation, or epoch, a partition has one owner;
// and whoever was its owner before commits nothing there any more (invariant 9). The epochs of a group of both
// protocols begin anew when it changes its type while it is empty: there only commits are held against each other, by
// history.Check.
type owners struct {
	w  *world
	mu sync.Mutex
	// of each partition: its owner by epoch, and the last claim
	byEpoch map[ownedAt]string
	last    map[ownedIn]claim

	handovers, commits int
}

type ownedIn struct {
	group string
	p     history.Partition
}

type ownedAt struct {
	ownedIn
	epoch int32
}

type claim struct {
	member string
	epoch  int32
	atNs   int64
}

func newOwners(w *world) *owners {
	return &owners{w: w, byEpoch: map[ownedAt]string{}, last: map[ownedIn]claim{}}
}

// claims notes that a member was told, now, that p is its own.
func (o *owners) claims(g *groupMember, p history.Partition) {
	o.mu.Lock()
	defer o.mu.Unlock()
	in := ownedIn{g.group, p}
	at := ownedAt{in, g.epoch}
	if other, ok := o.byEpoch[at]; ok && other != g.id && g.group != mixedGroup {
		o.w.found("9: %s and %s both own %v in epoch %d of %s", other, g.id, p, g.epoch, g.group)
	}
	o.byEpoch[at] = g.id
	last := o.last[in]
	if last.member != g.id {
		o.handovers++
	}
	if last.epoch < g.epoch || g.group == mixedGroup { // what is told late is not the last
		o.last[in] = claim{g.id, g.epoch, o.w.clients.nowNs()}
	}
}

// committed: a commit that began after somebody else had become the owner was refused.
func (o *owners) committed(g *groupMember, p history.Partition, beganNs int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.commits++
	if last := o.last[ownedIn{g.group, p}]; last.epoch > g.epoch && last.member != g.id && last.atNs < beganNs && g.group != mixedGroup {
		o.w.found("9: %s commits %v in epoch %d of %s, which %s owns since epoch %d", g.id, p, g.epoch, g.group, last.member, last.epoch)
	}
}
