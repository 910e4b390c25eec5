package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster"
	"grete/cluster/controller"
	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/handlers"
	"grete/internal/uuid"
	"grete/logstore"
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

// voterIDs are those of controller.quorum.voters, else this node.
func (n *Node) voterIDs() []int32 {
	var ids []int32
	for _, v := range n.o.Config.Voters {
		ids = append(ids, v.ID)
	}
	if ids == nil {
		ids = []int32{n.o.Config.NodeID}
	}
	return ids
}

// controllerAddress is where a node's controller listener is.
func (n *Node) controllerAddress(id int32) (string, bool) {
	for _, v := range n.o.Config.Voters {
		if v.ID == id {
			return v.Address, true
		}
	}
	return "", false
}

// joinCluster serves the controller listeners and finds out which cluster the voters make.
func (n *Node) joinCluster(ctx context.Context) error {
	n.incarnation = uuid.New(n.random)
	n.quorum = &quorum{}
	n.quorum.Knowledge = cluster.NewKnowledge(n.o.Config.NodeID, n.voterIDs(), func(id int32) bool { return n.quorum.image().Broker(id) != nil })
	n.clusterID = n.o.Config.ClusterID
	if len(n.o.Config.Controllers) > 0 {
		n.serveControllers()
	}
	if err := n.startGossip(ctx); err != nil {
		return err
	}
	if n.clusterID != "" || len(n.voterIDs()) == 1 {
		return nil
	}
	known, err := n.clusterOnDisk()
	if err != nil {
		return err
	}
	n.clusterID, err = cluster.Form(ctx, cluster.FormOptions{
		NodeID: n.o.Config.NodeID, ClusterID: known, Voters: n.voterIDs(), Ask: n.askVoter, NewID: n.newClusterID,
		Clock: n.o.Clock, Log: n.o.Log,
	})
	return err
}

// clusterOnDisk is the id in the first directory that has one, "" when none has. Contradictions among directories are the store's to find.
func (n *Node) clusterOnDisk() (string, error) {
	for _, dir := range n.o.Config.LogDirs {
		m, err := logstore.ReadMetaProperties(n.o.FS, dir)
		switch {
		case err == nil:
			return m.ClusterID, nil
		case errors.Is(err, logstore.ErrCorrupt):
			return "", fmt.Errorf("%s: %w", dir, err)
		case !errors.Is(err, fs.ErrNotExist):
			n.o.Log.Warn().Err(err).Str("dir", dir).Msg("whose directory this is cannot be read")
		}
	}
	return "", nil
}

func (n *Node) newClusterID() string {
	return uuid.New(n.random).String()
}

// askVoter asks over a connection of its own: it happens a few times, at the start.
func (n *Node) askVoter(ctx context.Context, voter int32, req *protocol.FormRequest) (*protocol.FormResponse, error) {
	link := protocol.NewLink(func() (string, bool) { return n.controllerAddress(voter) }, n.clientOptions())
	defer link.Close()
	resp, err := link.Call(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.(*protocol.FormResponse), nil
}

// clientOptions are those of connections to other nodes.
func (n *Node) clientOptions() protocol.ClientOptions {
	return protocol.ClientOptions{
		ClientID: fmt.Sprintf("node-%d", n.o.Config.NodeID), MaxResponseBytes: int(n.o.Config.Int("socket.request.max.bytes")),
		Dial: n.o.Dial,
	}
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
