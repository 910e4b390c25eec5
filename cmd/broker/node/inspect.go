package node

import (
	"grete/cluster"
	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/cluster/replica"
	"grete/logstore"
)

// Inside is what a simulation looks at; nobody may change anything through it.
type Inside struct {
	Store    *logstore.Store
	Replicas *replica.Manager
	Image    *metadata.Image
	Epoch    int64          // of this broker's registration
	Suspect  func(id int32) // what gossip calls
	Quorum   raftlog.Leader // whom this node believes to lead the quorum
	Peers    []cluster.Peer // whom gossip sees; nil: there is none
}

// Inside shows the rooms of a broker that has started.
func (n *Node) Inside() Inside {
	in := Inside{n.store, n.replicas, n.image(), n.lifecycle.BrokerEpoch(), n.suspect, n.controller.Leader(), nil}
	if n.membership != nil {
		in.Peers = n.membership.Peers()
	}
	return in
}
