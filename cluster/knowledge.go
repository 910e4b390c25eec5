package cluster

import (
	"slices"
	"sync"
	"time"

	"grete/internal/clock"
	"grete/internal/uuid"
	"grete/protocol"
)

// promiseLasts is longer than a round of questions: whoever begins a cluster relies on answers of its last round alone.
const promiseLasts = 2 * askTimeout

// Knowledge is what a node answers to those that look for their cluster.
//
// Where gossip finds the seeds, two nodes may know different ones for a while, and each be the first of its own. So
// that they do not begin two clusters, a node that has consented to one set of seeds neither consents to another nor
// begins with another, as long as that consent may be relied on; and one that has begun consents to nothing.
type Knowledge struct {
	Expect int32 // gossip.expect, 0: none; not changed once the node answers

	nodeID      int32
	incarnation uuid.UUID
	seeds       func() []Seed
	clock       clock.Clock

	mu        sync.Mutex
	clusterID string
	begun     bool
	promised  []string
	until     time.Time
}

// NewKnowledge is that of a node that knows nothing yet but its seeds.
func NewKnowledge(nodeID int32, incarnation uuid.UUID, seeds func() []Seed, c clock.Clock) *Knowledge {
	return &Knowledge{nodeID: nodeID, incarnation: incarnation, seeds: seeds, clock: c}
}

// Set tells the cluster's id, once it is on this node's disk.
func (k *Knowledge) Set(clusterID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clusterID = clusterID
}

// ClusterID is what Set told.
func (k *Knowledge) ClusterID() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.clusterID
}

// Answer consents to a cluster of the same seeds while there is none.
func (k *Knowledge) Answer(req *protocol.FormRequest) *protocol.FormResponse {
	wanted, mine := slices.Sorted(slices.Values(req.Seeds)), Addresses(k.seeds())
	k.mu.Lock()
	defer k.mu.Unlock()
	return &protocol.FormResponse{
		NodeID: k.nodeID, Incarnation: k.incarnation, ClusterID: k.clusterID, Expect: k.Expect,
		Consent: k.clusterID == "" && !k.begun && slices.Equal(wanted, mine) && k.promise(wanted),
	}
}

// begin says whether this node may begin a cluster with these seeds.
func (k *Knowledge) begin(seeds []string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begun = k.begun || k.promise(seeds)
	return k.begun
}

// promise keeps to one set of seeds; k.mu is held.
func (k *Knowledge) promise(seeds []string) bool {
	now := k.clock.Now()
	if now.Before(k.until) && !slices.Equal(seeds, k.promised) {
		return false
	}
	k.promised, k.until = seeds, now.Add(promiseLasts)
	return true
}
