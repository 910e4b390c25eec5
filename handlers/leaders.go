package handlers

import "grete/cluster/metadata"

// nodeEndpoint is a broker as Produce and Fetch name the current leader's (KIP-951).
type nodeEndpoint struct {
	id   int32
	host string
	port int32
	rack *string
}

// nodeEndpoints has every broker once.
type nodeEndpoints []nodeEndpoint

func (n *nodeEndpoints) add(e *nodeEndpoint) {
	if e == nil {
		return
	}
	for i := range *n {
		if (*n)[i].id == e.id {
			return
		}
	}
	*n = append(*n, *e)
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

// endpoint is where broker id listens under a listener's name; nil while it cannot be reached.
func (b *Broker) endpoint(id int32, listener string) *nodeEndpoint {
	broker := b.Image().Broker(id)
	if broker == nil || broker.Fenced {
		return nil
	}
	for _, e := range broker.Endpoints {
		if e.Listener != listener {
			continue
		}
		n := &nodeEndpoint{id: id, host: e.Host, port: int32(e.Port)}
		if broker.Rack != "" {
			n.rack = &broker.Rack
		}
		return n
	}
	return nil
}
