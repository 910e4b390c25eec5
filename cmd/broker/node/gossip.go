package node

import (
	"context"
	"fmt"
	"net"
	"slices"

	"grete/cluster"
	"grete/cluster/raftlog"
	"grete/internal/config"
)

// startGossip finds other nodes from now on. A lone broker opens no socket for it.
func (n *Node) startGossip(ctx context.Context) error {
	g := n.o.Config.Gossip
	if g.Listen == nil {
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
			OnGone: func(p cluster.Peer) { n.suspect(p.NodeID) },
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

// gossipAddress is where others reach this node's gossip: where it listens, or, when that is everywhere, the address that a route to a seed
// begins with.
func (n *Node) gossipAddress(ctx context.Context, l config.Listener, join []string) (net.IP, error) {
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
