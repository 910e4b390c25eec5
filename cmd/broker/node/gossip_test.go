package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/rs/zerolog"

	"grete/internal/config"
	"grete/internal/vfs"
)

// gossiping gives nodes a listener for gossip each, and the first two as seeds; it returns the listeners.
func (c *nodes) gossiping(key []byte) (at []string) {
	at = freePorts(c.t, len(c.options))
	for i := range c.options {
		host, port, _ := net.SplitHostPort(at[i])
		var number uint16
		_, _ = fmt.Sscan(port, &number)
		c.options[i].Config.Gossip = config.Gossip{Listen: &config.Listener{Name: "GOSSIP", Host: host, Port: number}, Join: at[:2], Key: key}
	}
	return at
}

// half drops every other packet that is sent.
type half struct{ net.PacketConn }

func (h half) WriteTo(b []byte, to net.Addr) (int, error) {
	if rand.IntN(2) == 0 {
		return len(b), nil
	}
	return h.PacketConn.WriteTo(b, to)
}

// forgedDeath says that a node is dead, as nobody of ours has said.
func forgedDeath(id int, incarnation uint32) []byte {
	var b bytes.Buffer
	b.WriteByte(5)
	err := codec.NewEncoder(&b, &codec.MsgpackHandle{}).Encode(map[string]any{
		"Incarnation": incarnation, "Node": fmt.Sprint("node-", id), "From": "node-3",
	})
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

// Gossip alone never changes a leader or an ISR: half of all packets are lost, and somebody tells everybody that
// everybody is dead.
func TestGossipChangesNothing(t *testing.T) {
	c := newNodes(t, 3, "broker.silence.patience.ms=500") // it ends while the test lasts
	at := c.gossiping(nil)
	for i := range c.options {
		c.options[i].ListenPacket = func(network, address string) (net.PacketConn, error) {
			p, err := net.ListenPacket(network, address)
			return half{p}, err
		}
	}
	c.start(0, 1, 2)
	for i, n := range c.running {
		c.eventually(fmt.Sprintf("peers of node %d", i+1), func() bool {
			peers := n.membership.Peers()
			return len(peers) == 3 && peers[2].ClusterID == c.running[0].ClusterID() && peers[1].Controller != "" && peers[1].Broker == c.running[1].Addr("PLAINTEXT")
		})
	}
	for i := range 3 {
		if err := c.create(i, fmt.Sprint("t", i), 3); err != nil {
			t.Fatal(err)
		}
	}
	c.eventually("whole ISR", func() bool { return slices.Max(c.missing(0)) == 0 })
	before, believed := c.state(0), 0
	for round := range uint32(150) {
		for _, address := range at {
			nc, err := net.Dial("udp", address)
			if err != nil {
				t.Fatal(err)
			}
			for id := 1; id <= 3; id++ {
				_, _ = nc.Write(forgedDeath(id, 1000+round))
			}
			nc.Close()
		}
		time.Sleep(10 * time.Millisecond)
		if len(c.running[0].membership.Peers()) < 3 {
			believed++
		}
	}
	if believed == 0 {
		t.Error("gossip did not believe the forgery, so that nothing was tried")
	}
	if after := c.state(0); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// missing counts the replicas out of sync of every topic, as node i knows.
func (c *nodes) missing(i int) []int {
	var out []int
	for topic := range c.running[i].image().Topics() {
		for _, p := range topic.Partitions {
			out = append(out, len(p.Replicas)-len(p.ISR))
		}
	}
	return out
}

// state is what gossip must not change: brokers in service, leaders and their epochs, ISRs, the controller.
func (c *nodes) state(i int) string {
	im := c.running[i].image()
	out := fmt.Sprintln("controller", im.ControllerID())
	for b := range im.Brokers() {
		out += fmt.Sprintln("broker", b.ID, b.Epoch, b.Fenced)
	}
	for topic := range im.Topics() {
		for j, p := range topic.Partitions {
			out += fmt.Sprintln(topic.Name, j, p.Leader, p.LeaderEpoch, p.ISR, p.PartitionEpoch)
		}
	}
	return out
}

// A lone broker opens no socket for gossip.
func TestLoneBrokerDoesNotGossip(t *testing.T) {
	o := options(t, vfs.NewMem())
	opened := false
	o.ListenPacket = func(network, address string) (net.PacketConn, error) {
		opened = true
		return net.ListenPacket(network, address)
	}
	if n := start(t, o); opened || n.membership != nil {
		t.Error("it gossips")
	}
}

// newFinders lays out nodes that know two seeds of gossip and no voters; expect is told to those that are to begin.
func newFinders(t *testing.T, count, expect int, key string, more ...string) (*nodes, []string) {
	t.Helper()
	c := &nodes{t: t, running: make([]*Node, count), stopped: make([]bool, count)}
	at := freePorts(t, count)
	for i := range count {
		fs := vfs.NewMem()
		c.disks = append(c.disks, fs)
		w := &wire{conns: map[net.Conn]bool{}}
		c.wires = append(c.wires, w)
		properties := []string{
			fmt.Sprint("node.id=", i+1), "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,GOSSIP://" + at[i],
			"gossip.join=" + at[0] + "," + at[1], "gossip.key=" + key, "broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500",
		}
		if i < expect {
			properties = append(properties, fmt.Sprint("gossip.expect=", expect))
		}
		o := options(t, fs, append(properties, more...)...)
		o.Listen, o.Bind, o.ListenPacket, o.Dial = w.listen, w.bind, net.ListenPacket, w.dial
		c.options = append(c.options, o)
	}
	t.Cleanup(func() {
		for i := range c.running {
			c.stop(i)
		}
	})
	return c, at
}

// Three nodes that expect three find each other, agree on one cluster and vote; a fourth that comes later follows. All
// stop and start again on other controller ports, and are the same cluster.
func TestNodesFormByGossip(t *testing.T) {
	c, _ := newFinders(t, 4, 3, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	early := make(chan error, 1)
	go func() { // one that is there first, and expects nobody, begins nothing
		var err error
		c.running[3], err = Start(ctx, c.options[3])
		early <- err
	}()
	time.Sleep(300 * time.Millisecond)
	c.start(0, 1, 2)
	if err := <-early; err != nil {
		t.Fatal(err)
	}
	if err := c.create(3, "t", 4); err != nil {
		t.Fatal(err)
	}
	c.requireVoters(1, 2, 3)
	id := c.running[0].ClusterID()
	for i := range 4 {
		c.stop(i)
	}
	c.start(0, 1, 2, 3)
	for i, n := range c.running {
		if n.ClusterID() != id {
			t.Errorf("node %d is of %s, not of %s", i+1, n.ClusterID(), id)
		}
	}
	c.requireVoters(1, 2, 3)
	c.eventually("the topic", func() bool {
		topic := c.running[1].image().Topic("t")
		return topic != nil && len(topic.Partitions[0].ISR) == 4
	})
}

func (c *nodes) requireVoters(want ...int32) {
	c.t.Helper()
	c.eventually(fmt.Sprint("voters ", want), func() bool {
		var got []int32
		for _, m := range c.running[c.leader()].members().Voters() {
			got = append(got, m.NodeID)
		}
		return slices.Equal(got, want)
	})
}

// A second node of an id, a node of another cluster and one whose directory was emptied are refused, and say why in one
// line. The cluster does not notice.
func TestGossipRefusesNodes(t *testing.T) {
	c, at := newFinders(t, 3, 3, "")
	c.start(0, 1, 2)
	refused := func(what, want string, o Options) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		n, err := Start(ctx, o)
		if err == nil {
			stopNode(t, n)
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := freePorts(t, 2)
	finder := func(fs vfs.FS, id int, gossip, join string, more ...string) Options {
		return options(t, fs, append([]string{
			fmt.Sprint("node.id=", id), "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,GOSSIP://" + gossip, "gossip.join=" + join,
		}, more...)...)
	}
	refused("a second node 2", "has this one's node.id 2", finder(vfs.NewMem(), 2, other[0], at[0], "gossip.expect=3"))

	foreign := vfs.NewMem()
	stranger := start(t, finder(foreign, 9, other[0], other[0], "gossip.expect=1"))
	stopNode(t, stranger)
	refused("a node of another cluster", "belongs to "+c.running[0].ClusterID(), finder(foreign, 9, other[0], at[0]))

	c.stop(1)
	c.options[1].FS = vfs.NewMem()
	refused("a node without its directory", "the metadata quorum refuses this node", c.options[1])
	if peers := c.running[0].membership.Peers(); len(peers) != 2 || c.running[2].image().Broker(9) != nil {
		t.Errorf("%+v", peers)
	}
}

// logged is what a node says.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) require(t *testing.T, what string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.Contains(l.text.String(), what) {
		t.Errorf("%q is not said in %s", what, l.text.String())
	}
}

// count is how many lines have all of these words.
func (l *logged) count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// logs has node i log from its next start on.
func (c *nodes) logs(i int) *logged {
	l := &logged{}
	c.options[i].Log = zerolog.New(l)
	return l
}

// A node with another gossip.expect than the cluster's gets no vote: one that comes new is refused, one that has
// followed goes on to follow. One of those that began it, which is without its vote as if it had been stopped before it
// got it, gets it.
func TestOnlyThoseExpectedVote(t *testing.T) {
	c, _ := newFinders(t, 4, 3, "")
	log := c.logs(2)
	c.start(0, 1, 2)
	c.requireVoters(1, 2, 3)
	log.require(t, "this node votes in the metadata quorum from now on")

	c.options[3].Config.Gossip.Expect = 5
	c.refused(3, "gossip.expect differs: 5 here and 3 on node ", "which is of cluster "+c.running[0].ClusterID())
	c.options[3].Config.Gossip.Expect = 0
	c.start(3)
	c.stop(3)
	c.options[3].Config.Gossip.Expect = 5
	log = c.logs(3)
	c.start(3)
	log.require(t, "this node follows their cluster without a vote")
	c.requireVoters(1, 2, 3)

	third, _ := c.running[0].members().Find(3)
	if err := c.removeVoter(0, third); err != nil {
		t.Fatal(err)
	}
	c.requireVoters(1, 2)
	c.stop(2)
	c.start(2)
	c.requireVoters(1, 2, 3)
}

// A node whose key is not that of the others is told so, not how to begin a cluster.
func TestWrongKeyIsNamed(t *testing.T) {
	c, _ := newFinders(t, 3, 1, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)))
	c.start(0)
	c.options[2].Config.Gossip.Key = bytes.Repeat([]byte("x"), 32)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	n, err := Start(ctx, c.options[2])
	if err == nil {
		stopNode(t, n)
		t.Fatal("it has started")
	}
	for _, want := range []string{": it answers, but not with this node's gossip.key", ": no answer: connection refused"} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "gossip.expect") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The directory of a broker that was alone makes no part of another cluster, and says so.
func TestLoneDirectoryIsNamed(t *testing.T) {
	fs := vfs.NewMem()
	stopNode(t, start(t, options(t, fs, "node.id=1")))
	at := freePorts(t, 2)
	properties := []string{"node.id=1", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,GOSSIP://" + at[0], "gossip.join=" + at[1]}
	for _, expect := range []string{"0", "3", "1"} {
		log := &logged{}
		o := options(t, fs, append(properties, "gossip.expect="+expect)...)
		o.Log, o.ListenPacket = zerolog.New(log), net.ListenPacket
		n, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if expect != "1" {
			log.require(t, "this directory is of a cluster that is this node alone")
		} else if strings.Contains(log.text.String(), "alone") {
			t.Errorf("a cluster of one is as it was asked for: %s", log.text.String())
		}
		stopNode(t, n)
	}
}
