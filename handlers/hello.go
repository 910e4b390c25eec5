package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/protocol"
)

// Identity finds out who other nodes are (cluster.Identity).
type Identity interface {
	// Receive answers a Hello; without peer the connection is nobody's yet. ask: the node that it names may be asked,
	// which takes time.
	Receive(ctx context.Context, conn uint64, req *protocol.HelloRequest, ask bool) (*protocol.HelloResponse, *protocol.Peer)
	// Vouch says whether a Hello was this node's.
	Vouch(req *protocol.VouchRequest) *protocol.VouchResponse
}

// Hello takes in a connection of another node. On a listener for clients nobody is asked: what counts there is the
// secret of a broker's incarnation, which each of its requests is judged by. On a controller listener it is proven who
// dials, on a goroutine that ends with the answer: it may take another node's. The server bounds them as it bounds the
// requests in flight.
func Hello(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*protocol.HelloRequest)
	if b.ForControllers {
		go b.prove(ctx, r, req)
		return
	}
	resp, peer := b.Identity.Receive(ctx, r.Conn.ID, req, false)
	b.welcome(r, resp, peer)
}

func (b *Broker) prove(ctx context.Context, r *protocol.Request, req *protocol.HelloRequest) {
	defer b.contain(r)
	resp, peer := b.Identity.Receive(ctx, r.Conn.ID, req, true)
	b.welcome(r, resp, peer)
}

// welcome answers; from the answer on the connection is the peer's.
func (b *Broker) welcome(r *protocol.Request, resp *protocol.HelloResponse, peer *protocol.Peer) {
	switch resp.ErrorCode {
	case 0:
		if peer != nil {
			r.Conn.SetPeer(peer)
			b.trust(r.Conn, peer)
		}
	case kerr.InconsistentClusterID.Code, kerr.InvalidRequest.Code, kerr.ClusterAuthorizationFailed.Code:
		r.Conn.Refused("a hello that is not to be believed: " + kerr.ErrorForCode(resp.ErrorCode).Error())
	}
	r.Respond(resp)
}

// trust lets a node that is proven, or the registered run of a broker, use the memory that clients cannot take. A run
// that is registered after its hello is trusted from its first fetch on.
func (b *Broker) trust(c *protocol.Conn, p *protocol.Peer) {
	if p.Proven || isRun(b.Image(), p, p.NodeID) {
		c.Trust()
	}
}

// Vouch answers a node that was greeted.
func Vouch(b *Broker, _ context.Context, r *protocol.Request) {
	r.Respond(b.Identity.Vouch(r.Body.(*protocol.VouchRequest)))
}

// isRun says whether the connection is that of the registered run of a broker.
func isRun(im *metadata.Image, p *protocol.Peer, id int32) bool {
	if p == nil || p.NodeID != id {
		return false
	}
	registered := im.Broker(id)
	return registered != nil && registered.Incarnation == p.Incarnation
}

// checkFollower says whether a fetch as replica id may move what a leader knows of that replica. Kafka wants
// CLUSTER_ACTION of followers, and answers 29 without.
func (b *Broker) checkFollower(c *protocol.Conn, id int32) error {
	p := c.Peer()
	switch {
	case b.Identity == nil:
		return nil
	case isRun(b.Image(), p, id):
		c.Trust()
		return nil
	case p != nil && p.NodeID == id: // a run that is over, or that this broker has not heard of yet
		return replica.ErrNotLeader
	}
	return kerr.TopicAuthorizationFailed
}

// mayDecide says whether a request that is decided by the controller may come from a node. Of itself a node may speak
// only for itself: a registration for the run that says hello, and for what a broker does about its replicas the run
// that is registered. The requests of clients are passed on by the brokers and controllers of the cluster.
func mayDecide(im *metadata.Image, p *protocol.Peer, req kmsg.Request) bool {
	if p == nil {
		return false
	}
	switch req := req.(type) {
	case *kmsg.BrokerRegistrationRequest:
		return req.BrokerID == p.NodeID && req.IncarnationID == p.Incarnation
	case *kmsg.ControllerRegistrationRequest:
		return req.ControllerID == p.NodeID
	case *kmsg.BrokerHeartbeatRequest:
		return isRun(im, p, req.BrokerID)
	case *kmsg.AlterPartitionRequest:
		return isRun(im, p, req.BrokerID)
	case *kmsg.AllocateProducerIDsRequest:
		return isRun(im, p, req.BrokerID)
	case *kmsg.AssignReplicasToDirsRequest:
		return isRun(im, p, req.BrokerID)
	}
	return p.Proven || isRun(im, p, p.NodeID)
}
