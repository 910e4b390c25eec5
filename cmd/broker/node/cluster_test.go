package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/ports"
	"grete/internal/vfs"
	"grete/protocol"
)

// nodes are the brokers of a cluster in this process, by id from 1.
type nodes struct {
	t       *testing.T
	disks   []*vfs.Mem
	options []Options
	running []*Node
	stopped []bool
	wires   []*wire
}

// wire is a node's network, which can be cut.
type wire struct {
	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

var errCut = errors.New("the wire is cut")

func (w *wire) hold(nc net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		nc.Close()
		return nil, errCut
	}
	w.conns[nc] = true
	return nc, nil
}

func (w *wire) dial(ctx context.Context, address string) (net.Conn, error) {
	return w.hold(new(net.Dialer).DialContext(ctx, "tcp", address))
}

// set cuts the wire or mends it.
func (w *wire) set(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
	for nc := range w.conns {
		nc.Close()
	}
	clear(w.conns)
}

// cuttable accepts nothing while its wire is down.
type cuttable struct {
	net.Listener
	wire *wire
}

func (l cuttable) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if nc, err = l.wire.hold(nc, nil); err == nil {
			return nc, nil
		}
	}
}

func (w *wire) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return cuttable{l, w}, err
}

// cuttablePort listens on its wire.
type cuttablePort struct {
	ports.Port
	wire *wire
}

func (p cuttablePort) Listen() (net.Listener, error) {
	l, err := p.Port.Listen()
	return cuttable{l, p.wire}, err
}

func (w *wire) bind(network, address string) (ports.Port, error) {
	p, err := ports.Bind(network, address)
	return cuttablePort{p, w}, err
}

// A port of firstPort to endPort is below those that the system gives to connections: a node's port must be free again
// after its restart.
const firstPort, endPort = 10000, 32000

// handedOut are the ports that a test of this process has.
var handedOut sync.Map

// freePorts are ports that nobody listens on, and that no other test gets. They are random: another test process looks
// for its own.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for len(out) < n {
		address := fmt.Sprint("127.0.0.1:", firstPort+rand.IntN(endPort-firstPort))
		if _, taken := handedOut.LoadOrStore(address, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			out = append(out, address)
		}
	}
	return out
}

// newNodes lays out count brokers that all vote, not started.
func newNodes(t *testing.T, count int, properties ...string) *nodes {
	t.Helper()
	c := emptyCluster(t)
	at := freePorts(t, count)
	var voters []string
	for i := range at {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, at[i]))
	}
	for i := range at {
		c.add(append([]string{
			"controller.quorum.voters=" + strings.Join(voters, ","), "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://" + at[i],
		}, properties...)...)
	}
	return c
}

// add lays out one more node, with the next id, and returns its index.
func (c *nodes) add(properties ...string) int {
	i := len(c.options)
	fs, w := vfs.NewMem(), &wire{conns: map[net.Conn]bool{}}
	c.disks, c.wires = append(c.disks, fs), append(c.wires, w)
	c.running, c.stopped = append(c.running, nil), append(c.stopped, false)
	o := options(c.t, fs, append([]string{
		fmt.Sprint("node.id=", i+1), "broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500",
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
	}, properties...)...)
	o.Listen, o.Bind, o.ListenPacket, o.Dial = w.listen, w.bind, net.ListenPacket, w.dial
	c.options = append(c.options, o)
	return i
}

func emptyCluster(t *testing.T) *nodes {
	c := &nodes{t: t}
	t.Cleanup(func() {
		for i := len(c.running) - 1; i >= 0; i-- { // who votes alone goes last
			c.stop(i)
		}
	})
	return c
}

// start starts nodes, by index, side by side.
func (c *nodes) start(indexes ...int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(indexes))
	for at, i := range indexes {
		wg.Go(func() { c.running[i], errs[at] = Start(ctx, c.options[i]) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		c.t.Fatal(err)
	}
	for _, i := range indexes {
		c.stopped[i] = false
	}
}

func (c *nodes) stop(i int) {
	if c.running[i] == nil || c.stopped[i] {
		return
	}
	c.stopped[i] = true
	stopNode(c.t, c.running[i])
}

// leader is the index of the node that leads the quorum; one that is cut off does not count.
func (c *nodes) leader() int {
	c.t.Helper()
	found := -1
	c.eventually("a controller", func() bool {
		for i, n := range c.running {
			if n != nil && !c.stopped[i] && !c.wires[i].down && n.image().ControllerID() == n.o.Config.NodeID {
				found = i
				return true
			}
		}
		return false
	})
	return found
}

func (c *nodes) eventually(what string, f func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	c.t.Fatalf("no %s in time", what)
}

// create asks node i for a topic, once.
func (c *nodes) create(i int, name string, replicas int16) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.running[i].Addr("PLAINTEXT")), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, replicas
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 2500
	resp, err := cl.Broker(i+1).Request(context.Background(), req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
}

// Three processes with one list of voters are one cluster: the same id, one controller, every broker in service, and
// what one creates the others know when they answer.
func TestThreeNodesAreOneCluster(t *testing.T) {
	c := newNodes(t, 3)
	c.start(0, 1, 2)
	for i, n := range c.running {
		if n.ClusterID() != c.running[0].ClusterID() || n.ClusterID() == "" {
			t.Errorf("node %d is of cluster %q", i+1, n.ClusterID())
		}
	}
	for i := range c.running {
		name := fmt.Sprintf("t%d", i)
		if err := c.create(i, name, 3); err != nil {
			t.Fatalf("node %d creates: %v", i+1, err)
		}
		if topic := c.running[i].image().Topic(name); topic == nil || len(topic.Partitions[0].Replicas) != 3 {
			t.Errorf("node %d answered before it knew: %+v", i+1, topic)
		}
	}
	for i, n := range c.running {
		c.eventually("equal metadata", func() bool { return n.image().TopicCount() == 3 && n.hasOthers() })
		if i != c.leader() && n.image().ControllerID() != int32(c.leader()+1) {
			t.Errorf("node %d takes %d for the controller", i+1, n.image().ControllerID())
		}
		c.requireQuorum(i)
	}
}

// requireQuorum asks node i who votes.
func (c *nodes) requireQuorum(i int) {
	c.t.Helper()
	ask := func(partition int32) (*kmsg.DescribeQuorumResponse, kmsg.DescribeQuorumResponseTopicPartition) {
		req := kmsg.NewPtrDescribeQuorumRequest()
		topic := kmsg.NewDescribeQuorumRequestTopic()
		topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{Partition: partition}}
		req.Topics = append(req.Topics, topic)
		resp, err := req.RequestWith(context.Background(), client(c.t, c.running[i]))
		if err != nil || resp.ErrorCode != 0 {
			c.t.Fatalf("%+v, %v", resp, err)
		}
		return resp, resp.Topics[0].Partitions[0]
	}
	resp, p := ask(0)
	_, wrong := ask(1)
	if p.LeaderID != int32(c.leader()+1) || len(p.CurrentVoters) != 3 || len(p.Observers) > 0 || len(resp.Nodes) != 3 || wrong.ErrorCode != 3 {
		c.t.Errorf("%+v", resp)
	}
	for _, v := range p.CurrentVoters {
		if v.LogEndOffset <= 0 || v.LogEndOffset > p.HighWatermark+10 {
			c.t.Errorf("%+v at a high watermark of %d", v, p.HighWatermark)
		}
	}
}

// The controller vanishes: another one takes over and answers within two seconds, fences it, and lets others lead what
// it led. When it comes back it follows, has missed nothing, and leads again what it led by preference once it is in
// sync.
func TestControllerIsCutOff(t *testing.T) {
	c := newNodes(t, 3, "leader.imbalance.check.interval.seconds=1")
	c.start(0, 1, 2)
	old := c.leader()
	other := (old + 1) % 3
	for i := range 6 {
		if err := c.create(other, fmt.Sprint("before", i), 3); err != nil {
			t.Fatal(err)
		}
	}
	c.wires[old].set(true)
	begin := time.Now()
	if err := c.create(other, "after", 2); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("the next topic took %v", took)
	}
	id := int32(old + 1)
	c.eventually("fencing", func() bool { return c.running[other].image().Broker(id).Fenced })
	for topic := range c.running[other].image().Topics() {
		if p := topic.Partitions[0]; p.Leader == id || p.Leader < 0 || slices.Contains(p.ISR, id) {
			t.Errorf("%s: leader %d, in sync %v", topic.Name, p.Leader, p.ISR)
		}
	}
	if err := c.createOn(old, "lost", 1); err == nil {
		t.Error("a node without a quorum made a topic")
	}
	c.wires[old].set(false)
	c.eventually("return", func() bool {
		im := c.running[old].image()
		return im.Topic("after") != nil && !im.Broker(id).Fenced && im.ControllerID() != id
	})
	c.eventually("leadership of preferred replicas", func() bool {
		for topic := range c.running[old].image().Topics() {
			if p := topic.Partitions[0]; p.Leader != p.Replicas[0] || len(p.ISR) != len(p.Replicas) {
				return false
			}
		}
		return true
	})
}

// createOn asks node i's controller client, since nobody reaches its listener.
func (c *nodes) createOn(i int, name string, replicas int16) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = req.MaxVersion() // it may be forwarded
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, replicas
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 1000
	_, err := c.running[i].controller.Do(context.Background(), protocol.Principal{Type: "User", Name: "ANONYMOUS"}, req)
	return err
}

// Without a quorum a change fails in its time, with an error that clients retry; reads go on. All nodes back: nothing
// is lost.
func TestQuorumIsLostAndAllRestart(t *testing.T) {
	c := newNodes(t, 3)
	c.start(0, 1, 2)
	if err := c.create(0, "kept", 3); err != nil {
		t.Fatal(err)
	}
	c.wires[1].set(true)
	c.wires[2].set(true)
	begin := time.Now()
	if err := c.create(0, "never", 1); err != kerr.RequestTimedOut {
		t.Errorf("without a quorum: %v", err)
	}
	if took := time.Since(begin); took > 6*time.Second {
		t.Errorf("refused after %v", took)
	}
	cl := client(t, c.running[0])
	if resp, err := kmsg.NewPtrMetadataRequest().RequestWith(context.Background(), cl); err != nil || len(resp.Topics) != 1 {
		t.Errorf("%+v, %v", resp, err)
	}
	cl.Close()
	c.wires[1].set(false)
	c.wires[2].set(false)
	cluster := c.running[0].ClusterID()
	for i := range c.running {
		c.stop(i)
	}
	c.start(0, 1, 2)
	for i, n := range c.running {
		if n.ClusterID() != cluster || n.image().Topic("kept") == nil {
			t.Errorf("node %d: cluster %s, topics %d", i+1, n.ClusterID(), n.image().TopicCount())
		}
	}
	if err := c.create(1, "more", 3); err != nil {
		t.Error(err)
	}
}

// A stop hands over before it lets go: nobody notices but by a new leader, in no time.
func TestStopHandsOver(t *testing.T) {
	c := newNodes(t, 3, "broker.session.timeout.ms=60000", "controller.quorum.election.timeout.ms=2500")
	c.start(0, 1, 2)
	old := c.leader()
	other := (old + 1) % 3
	for i := range 6 {
		if err := c.create(other, fmt.Sprint("t", i), 3); err != nil {
			t.Fatal(err)
		}
	}
	c.stop(old)
	begin := time.Now()
	if err := c.create(other, "next", 2); err != nil || time.Since(begin) > time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	for topic := range c.running[other].image().Topics() {
		if p := topic.Partitions[0]; p.Leader == int32(old+1) || p.Leader < 0 {
			t.Errorf("%s: leader %d", topic.Name, p.Leader)
		}
	}
}
