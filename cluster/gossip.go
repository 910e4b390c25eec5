package cluster

import (
	"context"
	"fmt"
	"log"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/loglimit"
)

// Membership is who is there, as gossip has it: suggestions, which change no metadata (docs/adr/0008).
type Membership interface {
	// Peers are the nodes that are there, this one included, by id.
	Peers() []Peer
	// Doubtful are nodes that gossip keeps out: of this node's id, or of another cluster.
	Doubtful() []Peer
	// Unjoined are the seeds that have not let this node in when they were asked last.
	Unjoined() []Unjoined
	// Asked is closed once every seed was asked.
	Asked() <-chan struct{}
	// Formed tells the others which cluster this node belongs to; nodes of others are kept out from then on.
	Formed(clusterID string)
	// Close takes leave of the others, as far as ctx allows.
	Close(ctx context.Context) error
}

// GossipOptions describe a node that gossips.
type GossipOptions struct {
	Self Peer
	Join []string // host:port of nodes to begin with
	Key  []byte   // gossip.key; nil: nothing is encrypted
	// Streams and Packets are bound to the same port, and closed by Gossip.
	Streams   net.Listener
	Packets   net.PacketConn
	Advertise net.IP // where the others reach this node
	Dial      func(ctx context.Context, address string) (net.Conn, error)
	Clock     clock.Clock
	Log       zerolog.Logger
	// Stretch makes all of gossip's times that many times as long, for a simulation whose other times are; below 2 they
	// are as they are.
	Stretch int
	// OnGone is told of a node that gossip has given up; it must not block.
	OnGone func(Peer)
}

// Bounds of gossip.
const (
	maxPeers        = 1000 // nodes known, those given up within forgetAfter included; more are refused
	maxDoubtful     = 16   // nodes that are kept out and remembered
	maxStreams      = 64   // connections at a time; more are closed
	maxStreamBytes  = 1 << 20
	maxPacketBytes  = 64 << 10
	packetsPerTenth = 2000 // packets taken in a tenth of a second; more are dropped
)

const (
	// The pace of failure detection: a silent node is suspected after probeInterval and probeTimeout, and given up
	// within a second or two.
	probeInterval = 300 * time.Millisecond
	probeTimeout  = 150 * time.Millisecond
	forgetAfter   = time.Minute
	minRejoin     = 100 * time.Millisecond
	rejoinEvery   = 2 * time.Second // seeds that are not there are asked again
	answerLasts   = 30 * time.Second
	leaveTimeout  = 300 * time.Millisecond
	updateTimeout = time.Millisecond // it goes out in any case
)

// Gossip is Membership over memberlist, which tells time and draws chance by itself: what it says is advice. Under
// testing/synctest its time is the test's.
type Gossip struct {
	o         GossipOptions
	list      *memberlist.Memberlist
	transport *transport
	cancel    context.CancelFunc
	asked     chan struct{}
	wg        sync.WaitGroup

	mu       sync.Mutex
	self     Peer
	known    map[string]*known // by name
	doubtful []Peer
	unjoined map[string]Unjoined // by seed
	leaving  bool
}

// known is a node that was let in. memberlist changes its own nodes while others read them, so this is a copy.
type known struct {
	peer    Peer
	address string
	there   bool
	gone    time.Time // when it was given up
}

// StartGossip opens gossip and begins to ask the seeds. That none of them is there is no error: they are asked again
// until Close.
func StartGossip(ctx context.Context, o GossipOptions) (*Gossip, error) {
	if _, err := o.Self.encode(); err != nil {
		return nil, err
	}
	g := &Gossip{o: o, self: o.Self, known: map[string]*known{}, unjoined: map[string]Unjoined{}, asked: make(chan struct{})}
	g.transport = newTransport(&g.o)
	var err error
	if g.list, err = memberlist.Create(g.config()); err != nil {
		_ = g.transport.Shutdown()
		return nil, fmt.Errorf("gossip: %w", err)
	}
	ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	g.wg.Go(func() { g.rejoin(ctx) })
	return g, nil
}

func (g *Gossip) config() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name, c.Transport = g.o.Self.name(), g.transport
	c.SecretKey, c.GossipVerifyIncoming, c.GossipVerifyOutgoing = g.o.Key, true, true
	c.EnableCompression = false // nothing compressed is taken either
	c.ProbeInterval, c.ProbeTimeout = g.stretch(probeInterval), g.stretch(probeTimeout)
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = 3, 1 // 0.9 s to contradict: who is given up has to be within the patience for silence
	c.PushPullInterval = g.stretch(5 * time.Second)   // what all retransmissions have failed to bring
	c.GossipInterval, c.TCPTimeout = g.stretch(100*time.Millisecond), g.stretch(2*time.Second)
	c.DeadNodeReclaimTime = g.stretch(time.Second) // a node may come back at another address
	c.RequireNodeNames = false
	d := delegate{g}
	c.Delegate, c.Events, c.Alive, c.Conflict = d, d, d, d
	c.Logger = log.New(&listLog{g.o.Log, loglimit.New(g.o.Clock, logEvery)}, "", 0)
	return c
}

func (g *Gossip) stretch(d time.Duration) time.Duration {
	return d * time.Duration(max(g.o.Stretch, 1))
}

// join asks the seeds that are not there, each once; answered has when each has answered last, since one may be this
// node, by another name.
func (g *Gossip) join(answered map[string]time.Time) {
	for _, seed := range g.o.Join {
		if at, ok := answered[seed]; g.reached(seed) || ok && g.o.Clock.Now().Sub(at) < g.stretch(answerLasts) {
			g.noteSeed(seed, nil)
			continue
		}
		n, err := g.list.Join([]string{seed})
		if n > 0 {
			answered[seed] = g.o.Clock.Now()
		}
		g.noteSeed(seed, err)
	}
}

// reached says whether the node at an address is a member already.
func (g *Gossip) reached(address string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range g.known {
		if k.there && k.address == address {
			return true
		}
	}
	return false
}

func (g *Gossip) rejoin(ctx context.Context) {
	answered := map[string]time.Time{}
	g.join(answered)
	close(g.asked)
	for pause := g.stretch(minRejoin); clock.Pause(ctx, g.o.Clock, pause) == nil; pause = min(2*pause, g.stretch(rejoinEvery)) {
		g.join(answered)
		g.forget()
	}
}

// forget makes room for others once memberlist has let go of a node, too.
func (g *Gossip) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, k := range g.known {
		if !k.there && g.o.Clock.Now().Sub(k.gone) > g.stretch(forgetAfter) {
			delete(g.known, name)
		}
	}
}

// Peers is Membership's.
func (g *Gossip) Peers() []Peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Peer
	for _, k := range g.known {
		if k.there {
			out = append(out, k.peer)
		}
	}
	slices.SortFunc(out, byNodeID)
	return out
}

// Doubtful is Membership's.
func (g *Gossip) Doubtful() []Peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.doubtful)
}

// Asked is Membership's.
func (g *Gossip) Asked() <-chan struct{} { return g.asked }

// Formed is Membership's.
func (g *Gossip) Formed(clusterID string) {
	g.mu.Lock()
	g.self.ClusterID = clusterID
	g.mu.Unlock()
	_ = g.list.UpdateNode(updateTimeout)
}

// Close is Membership's.
func (g *Gossip) Close(context.Context) error {
	g.mu.Lock()
	g.leaving = true
	g.mu.Unlock()
	g.cancel()
	g.wg.Wait()
	_ = g.list.Leave(leaveTimeout)
	return g.list.Shutdown()
}
