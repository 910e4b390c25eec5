package replica

import (
	"cmp"
	"slices"

	"grete/cluster/metadata"
	"grete/internal/clock"
)

// NoPreferredReplica: a consumer reads where it is.
const NoPreferredReplica = int32(-1)

// preferred is the replica that a consumer should read from instead of this leader (KIP-392): one in its rack, unless
// the leader is in it, too. Only one in sync that has the offset counts: of several the one that has most, then the one
// that caught up last (RackAwareReplicaSelector, ReplicaManager.findPreferredReadReplica).
func (p *Partition) preferred(s *state, r ReadRequest) int32 {
	if !p.brokers.rackAware || r.Rack == "" || r.ReplicaID >= 0 || !s.leads(p.nodeID) || p.brokers.inRack(p.nodeID, r.Rack, r.Listener) {
		return NoPreferredReplica
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	nowMs := clock.Millis(p.clock)
	var best *follower
	for _, f := range p.followers {
		if !slices.Contains(s.isr, f.id) || f.end < r.Offset || f.logStart > r.Offset || !p.brokers.inRack(f.id, r.Rack, r.Listener) {
			continue
		}
		if best == nil || f.nearerThan(best, nowMs) {
			best = f
		}
	}
	if best == nil {
		return NoPreferredReplica
	}
	return best.id
}

// nearerThan orders as ReplicaView.comparator does.
func (f *follower) nearerThan(other *follower, nowMs int64) bool {
	return cmp.Or(
		cmp.Compare(f.end, other.end),
		cmp.Compare(nowMs-other.caughtUpMs, nowMs-f.caughtUpMs),
		cmp.Compare(f.id, other.id),
	) > 0
}

// inRack says whether broker id is alive in rack and can be reached at listener.
func (b *brokers) inRack(id int32, rack, listener string) bool {
	r := b.image().Broker(id)
	return r != nil && !r.Fenced && r.Rack == rack &&
		slices.ContainsFunc(r.Endpoints, func(e metadata.Endpoint) bool { return e.Listener == listener })
}
