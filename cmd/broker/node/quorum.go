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

// quorum is what this node serves to the other nodes of the metadata quorum: from the start what it knows of the cluster, the rest
// once its controller runs.
type quorum struct {
	*cluster.Knowledge
	peers      atomic.Pointer[raftlog.Peers]
	controller atomic.Pointer[controller.Node]
}

// Form is handlers.Quorum's.
func (q *quorum) Form(req *protocol.FormRequest) *protocol.FormResponse { return q.Answer(req) }

// Receive is handlers.Quorum's.
func (q *quorum) Receive(req *protocol.RaftRequest, respond func(*protocol.RaftResponse)) {
	if peers := q.peers.Load(); peers != nil {
		peers.Receive(req, respond)
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

// serveControllers answers other nodes from now on.
func (n *Node) serveControllers() {
	options := n.serverOptions()
	options.Metrics = nil // they count what clients do
	server := protocol.NewServer(&handlers.Broker{
		ForControllers: true, Quorum: n.quorum, NodeID: n.o.Config.NodeID, Image: n.quorum.image, Features: features(),
		Clock: n.o.Clock, Log: n.o.Log, Static: n.o.Config.Layers,
	}, options)
	var accepting sync.WaitGroup
	n.onStop("controller listeners", func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		accepting.Wait()
		return err
	})
	for _, l := range n.o.Config.Controllers {
		for _, socket := range n.sockets.byName[l.Name] {
			accepting.Go(func() { n.accept(server, l.Name, socket) })
		}
		n.o.Log.Info().Str("listener", l.Name).Str("address", n.Addr(l.Name)).Msg("listening for other nodes")
	}
}
