package node

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

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

// Gossip alone never changes a leader or an ISR: half of all packets are lost, and somebody tells everybody that everybody is dead.
func TestGossipChangesNothing(t *testing.T) {
	c := newNodes(t, 3)
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
