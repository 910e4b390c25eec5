package handlers

import (
	"slices"

	"grete/cluster/metadata"
	"grete/cluster/replica"
)

// leaderNodes are the brokers that Produce and Fetch point a client to (KIP-951), each once.
type leaderNodes []node

// add adds n unless it is nil.
func (l *leaderNodes) add(n *node) {
	if n != nil && !slices.ContainsFunc(*l, func(o node) bool { return o.id == n.id }) {
		*l = append(*l, *n)
	}
}

// leaderOf is who leads a partition, -1, -1 when unknown. A replica here hears of a new leader before the image does,
// and fails what waits for acknowledgements at that moment; without one (nil) the metadata tells, by the topic's id if
// it has one.
func (b *Broker) leaderOf(here *replica.Partition, name string, id metadata.UUID, index int32) (leaderID, leaderEpoch int32) {
	if here != nil {
		return here.Leader()
	}
	im := b.Image()
	t := im.TopicByID(id)
	if id == (metadata.UUID{}) {
		t = im.Topic(name)
	}
	if t == nil || index < 0 || int(index) >= len(t.Partitions) {
		return -1, -1
	}
	p := &t.Partitions[index]
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
