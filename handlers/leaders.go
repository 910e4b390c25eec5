package handlers

import (
	"slices"

	"grete/cluster/metadata"
)

// leaderNodes are the brokers that Produce and Fetch point a client to (KIP-951), each once.
type leaderNodes []node

// add adds n unless it is nil.
func (l *leaderNodes) add(n *node) {
	if n != nil && !slices.ContainsFunc(*l, func(o node) bool { return o.id == n.id }) {
		*l = append(*l, *n)
	}
}

// leaderOf is the leader of a partition as the metadata knows it, -1, -1 when unknown. The topic goes by id if it has one.
func (b *Broker) leaderOf(name string, id metadata.UUID, partition int32) (leaderID, leaderEpoch int32) {
	im := b.Image()
	t := im.TopicByID(id)
	if id == (metadata.UUID{}) {
		t = im.Topic(name)
	}
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return -1, -1
	}
	p := &t.Partitions[partition]
	return p.Leader, p.LeaderEpoch
}

// endpoint is where broker id can be reached by clients of listener, or nil.
func (b *Broker) endpoint(id int32, listener string) *node {
	n, ok := nodeOf(b.Image().Broker(id), listener)
	if !ok || n.fenced {
		return nil
	}
	return &n
}
