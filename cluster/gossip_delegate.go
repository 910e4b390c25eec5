package cluster

import (
	"fmt"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls. It holds its own lock while it does, so nothing here calls it back.
type delegate struct{ g *Gossip }

// NodeMeta is memberlist.Delegate's: this node's description.
func (d delegate) NodeMeta(int) []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	meta, _ := d.g.self.encode() // StartGossip has tried; a cluster id has one length
	return meta
}

// NotifyMsg and the rest of memberlist.Delegate serve messages of users, of which there are none.
func (delegate) NotifyMsg([]byte)                {}
func (delegate) GetBroadcasts(_, _ int) [][]byte { return nil }
func (delegate) LocalState(bool) []byte          { return nil }
func (delegate) MergeRemoteState([]byte, bool)   {}

// NotifyAlive is memberlist.AliveDelegate's: an error keeps the node out.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	p, err := decodePeer(n.Name, n.Meta)
	if err != nil {
		return err
	}
	g := d.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.ClusterID != "" && g.self.ClusterID != "" && p.ClusterID != g.self.ClusterID {
		g.doubt(p)
		return fmt.Errorf("it belongs to cluster %s, this node to %s", p.ClusterID, g.self.ClusterID)
	}
	if g.known[n.Name] == nil {
		if len(g.known) >= maxPeers {
			return fmt.Errorf("%d nodes are known already", maxPeers)
		}
		g.known[n.Name] = &known{gone: g.o.Clock.Now()}
	}
	return nil
}

// NotifyConflict is memberlist.ConflictDelegate's: another address for a node that is there.
func (d delegate) NotifyConflict(_, other *memberlist.Node) {
	p, err := decodePeer(other.Name, other.Meta)
	if err != nil {
		return
	}
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	if p.NodeID == d.g.self.NodeID && p.Incarnation != d.g.self.Incarnation {
		d.g.doubt(p)
	}
}

// doubt remembers a node that is kept out; g.mu is held.
func (g *Gossip) doubt(p Peer) {
	for _, known := range g.doubtful {
		if known == p {
			return
		}
	}
	if len(g.doubtful) < maxDoubtful {
		g.doubtful = append(g.doubtful, p)
	}
}

// NotifyJoin is memberlist.EventDelegate's.
func (d delegate) NotifyJoin(n *memberlist.Node) { d.NotifyUpdate(n) }

// NotifyUpdate is memberlist.EventDelegate's: the node describes itself in another way.
func (d delegate) NotifyUpdate(n *memberlist.Node) {
	p, err := decodePeer(n.Name, n.Meta)
	if err != nil {
		return // NotifyAlive has let it in
	}
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	d.g.known[n.Name] = &known{peer: p, address: n.Address(), there: true}
}

// NotifyLeave is memberlist.EventDelegate's: a node that is gone, or has taken its leave.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	g := d.g
	g.mu.Lock()
	k := g.known[n.Name]
	leaving := g.leaving
	if k != nil {
		k.there, k.gone = false, g.o.Clock.Now()
	}
	g.mu.Unlock()
	if k != nil && !leaving && g.o.OnGone != nil {
		g.o.OnGone(k.peer)
	}
}
