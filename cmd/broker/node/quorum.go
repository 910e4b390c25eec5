package node

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster"
	"grete/cluster/controller"
	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/handlers"
	"grete/protocol"
)

// quorum is what this node serves to the other nodes of the metadata quorum: from the start what it knows of the
// cluster, the rest once its controller runs.
type quorum struct {
	*cluster.Knowledge
	peers      atomic.Pointer[raftlog.Peers]
	controller atomic.Pointer[controller.Node]
}

// Form is handlers.Quorum's.
func (q *quorum) Form(req *protocol.FormRequest) *protocol.FormResponse { return q.Answer(req) }

// Receive is handlers.Quorum's.
func (q *quorum) Receive(req *protocol.RaftRequest, proven bool, respond func(*protocol.RaftResponse)) {
	if peers := q.peers.Load(); peers != nil {
		peers.Receive(req, proven, respond)
		return
	}
	respond(&protocol.RaftResponse{ErrorCode: kerr.CoordinatorNotAvailable.Code})
}

// Join is handlers.Quorum's: whoever is asked passes it to the leader.
func (q *quorum) Join(ctx context.Context, req *protocol.JoinRequest) (*protocol.JoinResponse, error) {
	c := q.controller.Load()
	if c == nil {
		return nil, controller.ErrNotController
	}
	resp, err := c.Do(ctx, controllerPrincipal, req)
	if err != nil {
		return nil, err
	}
	return resp.(*protocol.JoinResponse), nil
}

// Decide is handlers.Quorum's.
func (q *quorum) Decide(ctx context.Context, p protocol.Principal, req kmsg.Request) (kmsg.Response, int64, error) {
	if c := q.controller.Load(); c != nil {
		return c.Decide(ctx, p, req)
	}
	return nil, 0, controller.ErrNotController
}

func (q *quorum) image() *metadata.Image {
	if c := q.controller.Load(); c != nil {
		return c.Image()
	}
	return &metadata.Image{}
}

// ask sends a request to a node's controller listener, over a connection of its own on which nobody introduces himself.
func (n *Node) ask(ctx context.Context, id int32, req kmsg.Request) (kmsg.Response, error) {
	address, ok := n.controllerAddress(id)
	if !ok {
		return nil, protocol.ErrNoAddress
	}
	return n.callOnce(ctx, address, n.clientOptions(n.o.Config.Quorum.Name), req)
}

// newIdentity makes this run's.
func (n *Node) newIdentity() {
	secret := make([]byte, cluster.NonceBytes)
	n.random(secret)
	n.incarnation = cluster.IncarnationOf(secret)
	n.identity = cluster.NewIdentity(cluster.IdentityOptions{
		NodeID: n.o.Config.NodeID, ClusterID: func() string { return n.quorum.ClusterID() }, Secret: secret, Key: n.o.Config.Gossip.Key, Random: n.random, Ask: n.ask, Clock: n.o.Clock,
	})
}

// peerOptions are those of connections to other nodes' listeners of that name on which this one says who it is.
func (n *Node) peerOptions(listener string) protocol.ClientOptions {
	o := n.clientOptions(listener)
	o.Greet = n.identity.Greet
	return o
}

// serveControllers answers other nodes from now on.
func (n *Node) serveControllers() {
	options := n.serverOptions(n.o.Config.Controllers)
	options.Metrics = nil // they count what clients do
	server := protocol.NewServer(&handlers.Broker{
		ForControllers: true, Quorum: n.quorum, Identity: n.identity, Controller: handlers.NewLocalController(n.quorum), Loggers: n.o.Loggers, NodeID: n.o.Config.NodeID, Image: n.quorum.image, Features: features(),
		Clock: n.o.Clock, Log: n.o.Log, Static: n.o.Config.Layers, CheckSecurity: n.checkDynamicSecurity, Authorizer: n.authorizer, Changes: n.changes(),
	}, options)
	var accepting sync.WaitGroup
	n.onStop("controller listeners", func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		accepting.Wait()
		return err
	})
	for _, l := range n.o.Config.Controllers {
		for _, socket := range n.sockets.listening[l.Name] {
			accepting.Go(func() { n.accept(server, l.Name, socket) })
		}
		n.o.Log.Info().Str("listener", l.Name).Str("address", n.Addr(l.Name)).Msg("listening for other nodes")
	}
}
