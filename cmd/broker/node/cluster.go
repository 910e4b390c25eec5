package node

import (
	"context"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster/controller"
	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/protocol"
)

// startController opens the metadata log and joins its quorum.
func (n *Node) startController(ctx context.Context) error {
	cfg := n.o.Config
	log, err := n.store.Create(controller.LogID, metadata.MetadataTopicID, controller.LogConfig(n.logDefaults))
	if err != nil {
		return err
	}
	o := controller.Options{
		NodeID: cfg.NodeID, ClusterID: n.clusterID, Voters: n.firstVoters(), Log: log, FS: n.o.FS, Dir: metadataLogDir(log.Dir()),
		DirectoryID: n.directoryID(), Listeners: n.controllerEndpoints(), QuorumListener: n.quorumListener(), OnMembers: n.poll,
		Clock: n.o.Clock, Rand: n.newRand(), Logger: n.o.Log, Config: cfg.Layers,
		OnImage: n.applyImage, OnFailure: n.failQuorum, OnTimeout: func(int32) { n.metrics.Controller.TimedOutSessions.Add(1) }, Probe: n.probe, Unseen: n.unseen,
		Answering: n.answering, Bootstrap: n.bootstrap,
	}
	peers := n.connect(&o)
	n.controller, err = controller.Start(ctx, o)
	if err != nil {
		return err
	}
	n.quorum.controller.Store(n.controller)
	n.progress.because(n.quorumTrouble)
	n.onStop("controller", n.controller.Stop)
	if peers != nil {
		peers.Attach(n.controller.Raft())
		n.poll(n.members())
	}
	if err := n.enterQuorum(ctx); err != nil {
		return err
	}
	return n.registerController(ctx)
}

// firstVoters are those of a log that nobody has begun: of a directory of former times.
func (n *Node) firstVoters() []int32 {
	if n.begins {
		return []int32{n.o.Config.NodeID}
	}
	return []int32{}
}

// connect gives a node of a quorum of several its ways to the others; nil when it is alone.
func (n *Node) connect(o *controller.Options) *raftlog.Peers {
	if len(n.seeds()) == 0 && len(n.o.Config.Controllers) == 0 {
		return nil
	}
	peers := raftlog.NewPeers(raftlog.PeersOptions{
		NodeID: o.NodeID, ClusterID: n.clusterID, DirectoryID: o.DirectoryID, Address: n.controllerAddress, Directory: n.memberDirectory, Clock: n.o.Clock, Logger: n.o.Log,
		Timeout: millis(n.o.Config.Int("controller.quorum.request.timeout.ms")), Client: n.peerOptions(n.o.Config.Quorum.Name), OnGone: n.suspect,
	})
	links := controller.NewLinks(n.clusterID, n.controllerAddress, n.peerOptions(n.o.Config.Quorum.Name))
	n.onStop("connections to other nodes", func(context.Context) error { links.Close(); peers.Close(); return nil })
	o.Transport, o.Forward, o.Witness = peers, links, n.witnesses()
	n.quorum.peers.Store(peers)
	return peers
}

// suspect tells the controller, if it is here, that a node may be dead.
func (n *Node) suspect(id int32) {
	if c := n.quorum.controller.Load(); c != nil {
		c.Suspect(id)
	}
}

// witnesses is how this node, while it leads the quorum, asks other brokers to probe one.
func (n *Node) witnesses() func(ctx context.Context, witness int32, b *metadata.Broker) (bool, error) {
	links := protocol.NewLinks(n.brokerAddress, n.peerOptions(n.o.Config.InterBroker))
	n.onStop("connections to witnesses", func(context.Context) error { links.Close(); return nil })
	return func(ctx context.Context, witness int32, b *metadata.Broker) (bool, error) {
		req := &protocol.WitnessRequest{BrokerID: b.ID, BrokerEpoch: b.Epoch}
		resp, err := links.Call(ctx, witness, req)
		if err != nil && ctx.Err() == nil { // the connection may be of before an outage
			resp, err = links.Call(ctx, witness, req)
		}
		if err != nil {
			return false, err
		}
		answer := resp.(*protocol.WitnessResponse)
		return answer.Silent, kerr.ErrorForCode(answer.ErrorCode)
	}
}

// probe says whether somebody listens at an address.
func (n *Node) probe(ctx context.Context, address string) error {
	nc, err := n.o.Dial(ctx, address)
	if err != nil {
		return err
	}
	return nc.Close()
}

// answering asks who is where a member of the quorum is known to listen, as this node is configured and as the member
// has told.
func (n *Node) answering(ctx context.Context, m raftlog.Member) []controller.Answer {
	var addresses []string
	for _, v := range n.o.Config.Voters {
		if v.ID == m.NodeID {
			addresses = append(addresses, v.Address)
		}
	}
	if told, ok := n.addressOf(m); ok && !slices.Contains(addresses, told) {
		addresses = append(addresses, told)
	}
	answers := make([]controller.Answer, len(addresses))
	var asking sync.WaitGroup
	for i, address := range addresses {
		asking.Go(func() {
			answers[i] = controller.Answer{Address: address, NodeID: -1}
			resp, err := n.askSeed(ctx, address, &protocol.FormRequest{NodeID: n.o.Config.NodeID})
			if answers[i].Err = err; err == nil {
				answers[i].NodeID, answers[i].Incarnation = resp.NodeID, resp.Incarnation
			}
		})
	}
	asking.Wait()
	return answers
}

// handOver has a stop begin with giving away what others can take.
func (n *Node) handOver(context.Context) error {
	n.onStop("leadership", func(ctx context.Context) error { n.Leave(ctx); return nil })
	return nil
}

// Leave is the beginning of Stop, once: partitions go to other brokers, the quorum to another voter. A node that is
// alone has nobody to give to. This node goes on serving its part of the quorum until Stop, so that nodes that stop
// together leave one after the other, and each is heard.
func (n *Node) Leave(ctx context.Context) { n.leaving.Do(func() { n.leave(ctx) }) }

func (n *Node) leave(ctx context.Context) {
	if n.lifecycle != nil && n.hasOthers() {
		ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
		defer cancel()
		if err := n.lifecycle.Shutdown(ctx); err != nil {
			n.o.Log.Warn().Err(err).Msg("stopping without having handed over")
		}
	}
	if err := n.controller.Resign(ctx); err != nil {
		n.o.Log.Warn().Err(err).Msg("no other voter took over the quorum")
	}
}

// hasOthers says whether another broker is in service.
func (n *Node) hasOthers() bool {
	for b := range n.image().Brokers() {
		if b.ID != n.o.Config.NodeID && b.Active() {
			return true
		}
	}
	return false
}
