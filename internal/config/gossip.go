package config

import (
	"encoding/base64"
	"errors"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// GossipPort is where nodes gossip unless told otherwise.
const GossipPort = "7946"

// gossipListener is the name of the listener for gossip, which has no security protocol.
const gossipListener = "GOSSIP"

// Gossip is how a node finds others.
type Gossip struct {
	// Listen is where; nil: there is no gossip.
	Listen *Listener
	// Advertise is the host of advertised.listeners' GOSSIP, "" when it has none. The port is that of Listen.
	Advertise string
	// Implied: nobody asked for the listener. It is opened where that is possible.
	Implied bool
	// Unkeyed: there would be gossip, but without a key it is not for a node whose listeners are secured.
	Unkeyed bool
	Join    []string // host:port
	Key     []byte   // nil: nothing is encrypted
	Expect  int32    // gossip.expect
	Stretch int      // of gossip's times; a simulation's, no property sets it
}

// splitGossip takes GOSSIP://host:port out of a list of listeners; nil where there is none.
func splitGossip(items []string) (gossip *Listener, others []string, err error) {
	for _, item := range items {
		name, _, _ := strings.Cut(item, "://")
		if strings.ToUpper(name) != gossipListener {
			others = append(others, item)
			continue
		}
		l, err := parseListener(item)
		switch {
		case err != nil:
			return nil, nil, err
		case gossip != nil:
			return nil, nil, errors.New("each listener must have a different name, GOSSIP comes twice")
		}
		gossip = &l
	}
	return gossip, others, nil
}

// withController gives a node that was told by --listen where its clients are, and finds others by gossip, a controller
// listener on the next port.
func withController(st *static, items []string, isController bool) []string {
	if st.from["listeners"] != "--listen" || st.values["gossip.join"] == "" || !isController || len(items) != 1 {
		return items
	}
	l, err := parseListener(items[0])
	if err != nil || l.Port == 0 || l.Port == math.MaxUint16 {
		return items
	}
	l.Port++
	return append(items, "CONTROLLER://"+l.Address())
}

// loadGossip reads gossip.*. Seeds and listener default from the voters' hosts, where these differ: several nodes of
// one machine cannot share a port.
func (b *Broker) loadGossip(st *static, _ Sources) error {
	key, err := parseGossipKey(b.Text("gossip.key"))
	if err != nil {
		return &StartError{"gossip.key", "[hidden]", st.from["gossip.key"], err.Error()}
	}
	g := &b.Gossip
	g.Key, g.Expect = key, int32(b.Int("gossip.expect"))
	for _, seed := range b.List("gossip.join") {
		address := withGossipPort(seed)
		switch {
		case seed == "":
			return st.refuse("gossip.join", "an entry is empty")
		case address == "":
			return st.refuse("gossip.join", seed+" is not host:port")
		}
		g.Join = append(g.Join, address)
	}
	if hosts := b.voterHosts(); g.Join == nil && len(hosts) > 1 {
		for _, host := range hosts {
			g.Join = append(g.Join, net.JoinHostPort(host, GossipPort))
		}
	}
	switch {
	case g.Expect > 0 && len(g.Join) == 0:
		return st.refuse("gossip.expect", "needs gossip.join")
	case b.Finds() && st.from["node.id"] == fromEmbedded:
		return st.refuse("gossip.join", "needs node.id (--node-id), another on every node")
	case g.Expect > 0 && len(b.Voters)+len(b.BootstrapServers) > 0:
		return st.refuse("gossip.expect", "the nodes that begin a cluster are named already, in "+votersName+" or "+bootstrapName)
	case g.Listen == nil && len(g.Join) > 0:
		l := Listener{Name: gossipListener, Port: 7946}
		if len(b.Controllers) > 0 {
			l.Host = b.Controllers[0].Host
		}
		g.Listen, g.Implied = &l, b.Text("gossip.join") == ""
	}
	return nil
}

// Finds says whether gossip, and nothing else, tells where the others are.
func (b *Broker) Finds() bool {
	return len(b.Gossip.Join) > 0 && len(b.Voters)+len(b.BootstrapServers) == 0
}

// voterHosts are the hosts of controller.quorum.voters; none when two are the same.
func (b *Broker) voterHosts() []string {
	var hosts []string
	for _, v := range b.Voters {
		host, _, err := net.SplitHostPort(v.Address)
		if err != nil || slices.Contains(hosts, host) {
			return nil
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// withGossipPort completes host or host:port, where an IPv6 address without port may do without brackets; "" when it is
// neither.
func withGossipPort(seed string) string {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(seed, "["), "]"), GossipPort
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if host == "" || err != nil || number == 0 || strings.ContainsAny(host, "/ []") || strings.Contains(host, ":") && !isIPv6(host) {
		return ""
	}
	return net.JoinHostPort(host, port)
}

func isIPv6(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Is6()
}

// parseGossipKey reads base64 of an AES key; "" is none.
func parseGossipKey(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !slices.Contains([]int{16, 24, 32}, len(key)) {
		return nil, errors.New("must be base64 of 16, 24 or 32 bytes, as openssl rand -base64 32 makes them")
	}
	return key, nil
}
