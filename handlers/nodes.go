package handlers

import (
	"slices"

	"grete/cluster/metadata"
)

// noLeader is the leader id of a partition that has none, and the controller id of a cluster without a controller.
const noLeader = -1

// node is a broker as clients of one listener see it.
type node struct {
	id         int32
	host       string
	port       int32
	rack       *string
	fenced     bool
	registered *metadata.Broker
}

// nodeOf is a registered broker at a listener, whether fenced or not; ok is false when it does not listen there.
func nodeOf(broker *metadata.Broker, listener string) (n node, ok bool) {
	if broker == nil {
		return node{}, false
	}
	i := slices.IndexFunc(broker.Endpoints, func(e metadata.Endpoint) bool { return e.Listener == listener })
	if i < 0 {
		return node{}, false
	}
	e := broker.Endpoints[i]
	n = node{id: broker.ID, host: e.Host, port: int32(e.Port), fenced: broker.Fenced, registered: broker}
	if broker.Rack != "" {
		n.rack = &broker.Rack
	}
	return n, true
}

// nodes lists the brokers at a listener by id.
func nodes(im *metadata.Image, listener string, withFenced bool) []node {
	var out []node
	for broker := range im.Brokers() {
		if n, ok := nodeOf(broker, listener); ok && (withFenced || !n.fenced) {
			out = append(out, n)
		}
	}
	return out
}

// controllerID names a broker that is alive: the quorum's leader if it is one, else the first. Clients send it what
// only a controller can do, and any broker takes that.
func controllerID(im *metadata.Image) int32 {
	id := im.ControllerID()
	if broker := im.Broker(id); broker != nil && !broker.Fenced {
		return id
	}
	for broker := range im.Brokers() {
		if !broker.Fenced {
			return broker.ID
		}
	}
	return noLeader
}

// replicaView is a partition's replicas as clients of one listener see them.
type replicaView struct {
	leader   int32 // noLeader when it cannot be reached at this listener
	hasNode  bool  // the leader is registered at all
	offline  []int32
	degraded bool // not every replica can be reached
}

func viewPartition(im *metadata.Image, p *metadata.Partition, listener string) replicaView {
	v := replicaView{leader: noLeader}
	leader := im.Broker(p.Leader)
	v.hasNode = leader != nil
	if _, ok := nodeOf(leader, listener); ok {
		v.leader = p.Leader
	}
	for _, id := range p.Replicas {
		broker := im.Broker(id)
		n, reachable := nodeOf(broker, listener)
		if !reachable || n.fenced {
			v.degraded = true
		}
		if !reachable || n.fenced || !broker.HasOnlineDir(p.Directory(id)) {
			v.offline = append(v.offline, id)
		}
	}
	return v
}
