package node

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"grete/cluster"
	"grete/cluster/raftlog"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/protocol"
)

// startGossip finds other nodes from now on. A lone broker opens no socket for it.
func (n *Node) startGossip(ctx context.Context) error {
	g := n.o.Config.Gossip
	if g.Unkeyed {
		n.o.Log.Warn().Msg("no gossip: without gossip.key it believes everybody, and a listener of this node is secured")
	}
	if g.Listen == nil || n.o.ListenPacket == nil {
		return nil
	}
	listen := *g.Listen
	streams, packets, err := n.gossipSockets(listen)
	if err != nil && g.Implied {
		n.o.Log.Warn().Err(err).Msg("no gossip; a listener GOSSIP://host:port says where else it may be")
		return nil
	}
	if err != nil {
		return err
	}
	advertise, err := n.gossipAddress(ctx, listen, g.Join)
	if err == nil {
		n.membership, err = cluster.StartGossip(ctx, cluster.GossipOptions{
			Self: n.self(), Join: g.Join, Key: g.Key, Streams: streams, Packets: packets, Advertise: advertise, Dial: n.o.Dial, Clock: n.o.Clock, Log: n.o.Log,
			Stretch: g.Stretch,
			OnGone:  func(p cluster.Peer) { n.suspect(p.NodeID) },
		})
	}
	if err != nil {
		streams.Close()
		packets.Close()
		return fmt.Errorf("listener GOSSIP: %w", err)
	}
	n.onStop("gossip", n.membership.Close)
	n.o.Log.Info().Stringer("address", streams.Addr()).Stringer("advertised", advertise).Strs("join", g.Join).Bool("encrypted", g.Key != nil).Msg("gossiping")
	return nil
}

// seedPatience is how long a node waits for seeds that do not answer before it asks whoever was found.
const seedPatience = time.Second

func (n *Node) awaitSeeds(ctx context.Context) {
	if n.membership == nil {
		return
	}
	ctx, cancel := clock.WithTimeout(ctx, n.o.Clock, seedPatience)
	defer cancel()
	select {
	case <-n.membership.Asked():
	case <-ctx.Done():
	}
}

// gossipSockets binds TCP and UDP to one port.
func (n *Node) gossipSockets(l config.Listener) (net.Listener, net.PacketConn, error) {
	streams, err := n.o.Listen("tcp", l.Address())
	if err != nil {
		return nil, nil, fmt.Errorf("listener GOSSIP cannot listen on %s: %w", l.Address(), cause(err))
	}
	_, port, _ := net.SplitHostPort(streams.Addr().String())
	packets, err := n.o.ListenPacket("udp", net.JoinHostPort(l.Host, port))
	if err != nil {
		streams.Close()
		return nil, nil, fmt.Errorf("listener GOSSIP cannot receive packets on port %s: %w", port, cause(err))
	}
	return streams, packets, nil
}

// gossipAddress is where others reach this node's gossip: where it listens, or, when that is everywhere, the address
// that a route to a seed begins with.
func (n *Node) gossipAddress(ctx context.Context, l config.Listener, join []string) (net.IP, error) {
	if host := n.o.Config.Gossip.Advertise; host != "" {
		return lookup(ctx, host)
	}
	if ip := net.ParseIP(l.Host); l.Host != "" && !ip.IsUnspecified() {
		return lookup(ctx, l.Host)
	}
	for _, seed := range join {
		if nc, err := new(net.Dialer).DialContext(ctx, "udp", seed); err == nil { // sends nothing
			defer nc.Close()
			return nc.LocalAddr().(*net.UDPAddr).IP, nil
		}
	}
	for _, l := range slices.Concat(n.advertised(), n.o.Config.ControllersAdvertised(n.o.Config.Hostname)) {
		return lookup(ctx, l.Host)
	}
	return lookup(ctx, n.o.Config.Hostname)
}

// lookup is the first address of a host, an IPv4 one where there is any.
func lookup(ctx context.Context, host string) (net.IP, error) {
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for _, ip := range ips {
		if v4 := ip.To4(); v4 != nil {
			return v4, nil
		}
	}
	return ips[0], nil
}

// self is what this node tells the others of itself.
func (n *Node) self() cluster.Peer {
	p := cluster.Peer{NodeID: n.o.Config.NodeID, Incarnation: n.incarnation}
	if n.o.Config.IsBroker {
		p.Roles |= cluster.BrokerRole
	}
	if n.o.Config.IsController {
		p.Roles |= cluster.ControllerRole
	}
	p.ClusterID, _ = n.clusterOnDisk() // what cannot be read is told of by joinCluster
	p.Controller, _ = n.addressOf(raftlog.Member{Listeners: n.controllerEndpoints()})
	for _, l := range n.advertised() {
		if l.Name == n.o.Config.InterBroker {
			p.Broker = l.Address()
		}
	}
	return p
}

// formed tells the others which cluster this node is of, once that is on its disk.
func (n *Node) formed() {
	if n.membership != nil {
		n.membership.Formed(n.clusterID)
	}
}

// found are the controllers that gossip sees, by id: of many, those that are to begin a cluster.
func (n *Node) found() []cluster.Seed {
	if n.membership == nil {
		return nil
	}
	var out []cluster.Seed
	for _, p := range n.membership.Peers() {
		if p.Roles&cluster.ControllerRole != 0 && p.Controller != "" {
			out = append(out, cluster.Seed{NodeID: p.NodeID, Address: p.Controller})
		}
	}
	if expect := int(n.o.Config.Gossip.Expect); expect > 0 && len(out) > expect && n.quorum.ClusterID() == "" {
		out = out[:expect]
	}
	return out
}

// foundAt is where a node says by gossip that its controller listener is, "" when it does not, or when whoever forges
// gossip could say so: a voter is known by its address (docs/adr/0009).
func (n *Node) foundAt(id int32) string {
	if n.membership == nil || n.o.Config.Gossip.Key == nil {
		return ""
	}
	for _, p := range n.membership.Peers() {
		if p.NodeID == id && p.ClusterID == n.clusterID {
			return p.Controller
		}
	}
	return ""
}

// unseen says whether gossip sees no node of this id; where there is no gossip nobody is seen.
func (n *Node) unseen(id int32) bool {
	return n.membership == nil || !slices.ContainsFunc(n.membership.Peers(), func(p cluster.Peer) bool { return p.NodeID == id })
}

// unjoined are the seeds of gossip that have not let this node in.
func (n *Node) unjoined() []cluster.Unjoined {
	if n.membership == nil {
		return nil
	}
	return n.membership.Unjoined()
}

// expected says whether this node is one of those that begin the cluster and vote: of the lowest ids, while there are
// voters to come, and with the gossip.expect of the voters.
func (n *Node) expected(ctx context.Context) (bool, error) {
	expect := int(n.o.Config.Gossip.Expect)
	seeds := n.found()
	place := slices.IndexFunc(seeds, func(s cluster.Seed) bool { return s.NodeID == n.o.Config.NodeID })
	if place < 0 || place >= expect || len(n.members().Voters()) >= expect {
		return false, nil
	}
	return n.agreed(ctx)
}

// agreed asks the voters how many they expect, until one has answered. A node that expects another number has no part
// in the beginning of their cluster: that it votes could cost the quorum.
func (n *Node) agreed(ctx context.Context) (bool, error) {
	mine := n.o.Config.Gossip.Expect
	pace := newPace(n.o.Clock)
	for {
		theirs := n.askExpect(ctx)
		same := slices.Contains(theirs, mine) && !slices.ContainsFunc(theirs, func(e int32) bool { return e != 0 && e != mine })
		if len(theirs) > 0 && !same {
			n.o.Log.Warn().Int32("here", mine).Ints32("voters", theirs).Msg("gossip.expect differs from the voters': this node follows their cluster without a vote")
		}
		if len(theirs) > 0 {
			return same, nil
		}
		n.waits(ctx, pace, "asking the voters of the metadata quorum for their gossip.expect", errUnanswered)
		if err := clock.Pause(ctx, n.o.Clock, joinEvery); err != nil {
			return false, fmt.Errorf("no voter of the metadata quorum answers: %w", err)
		}
	}
}

// askExpect is the gossip.expect of the voters that answer.
func (n *Node) askExpect(ctx context.Context) (expects []int32) {
	ctx, cancel := clock.WithTimeout(ctx, n.o.Clock, joinTimeout)
	defer cancel()
	for _, m := range n.members().Voters() {
		address, known := n.controllerAddress(m.NodeID)
		if !known {
			continue
		}
		answer, err := n.askSeed(ctx, address, &protocol.FormRequest{NodeID: n.o.Config.NodeID})
		if err == nil && answer.NodeID == m.NodeID && answer.ClusterID == n.clusterID {
			expects = append(expects, answer.Expect)
		}
	}
	return expects
}

// checkDoubtful asks the nodes that gossip keeps out: one of this node's id that lives, or of another cluster where
// nobody is of this one, is in the way. What gossip alone says of them counts for nothing.
func (n *Node) checkDoubtful(ctx context.Context, clusterID string) error {
	if n.membership == nil {
		return nil
	}
	ctx, cancel := clock.WithTimeout(ctx, n.o.Clock, time.Second)
	defer cancel()
	for _, p := range n.membership.Doubtful() {
		answer, err := n.askSeed(ctx, p.Controller, &protocol.FormRequest{NodeID: n.o.Config.NodeID})
		switch {
		case err != nil || answer.Incarnation == n.incarnation:
		case answer.NodeID == n.o.Config.NodeID:
			return fmt.Errorf("%w: the node at %s has this one's node.id %d", cluster.ErrWrongNode, p.Controller, answer.NodeID)
		case answer.ClusterID != "" && answer.ClusterID != clusterID && len(n.membership.Peers()) == 1:
			return fmt.Errorf("%w: node %d at %s belongs to %s, this node's data to %s", cluster.ErrOtherCluster, answer.NodeID, p.Controller, answer.ClusterID, clusterID)
		}
	}
	return nil
}
