package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// ClusterOptions say how brokers that are controllers too, and all vote, are started as one cluster.
type ClusterOptions struct {
	Dir        string            // has a directory for each broker, named after its id
	Brokers    int               // 0: three; ids are 1, 2, …
	Properties map[string]string // of every broker, on top of the harness's own
	// Each has more for one broker, such as its rack.
	Each map[int32]map[string]string
	JVM  []string // as in Options
	// Start starts one broker: StartGrete or StartApache; nil is the target of this run.
	Start func(context.Context, Options) (*Broker, error)
	// Proxied has what brokers send each other go through Cluster.Links. Only our own brokers say who they are.
	Proxied bool
	// Machines, if not nil, have each broker run on one of its own; not with Proxied.
	Machines *Machines
	// Gossip has our brokers find each other, and notice who is gone, by gossip too.
	Gossip bool
	// Security, if not nil, is our brokers'.
	Security *Security
}

// Cluster is several brokers, some of which may be down.
type Cluster struct {
	Nodes  []*Node // by id, the first is 1
	Links  *Links  // nil unless proxied
	Access *Access // nil unless secured
}

// Node is a broker of a cluster, which keeps its directory and its ports from one start to the next.
type Node struct {
	*Broker // of the last start
	ID      int32
	opts    Options
	start   func(context.Context, Options) (*Broker, error)
}

// Dir is where the node has its partitions.
func (n *Node) Dir() string { return filepath.Join(n.opts.Dir, "data") }

// Addr is where clients find the node, whether it runs or not.
func (n *Node) Addr() string { return fmt.Sprintf("%s:%d", cmp.Or(n.opts.Host, loopback), n.opts.Port) }

// LogPath is where the node's output is, of all its starts.
func (n *Node) LogPath() string { return filepath.Join(n.opts.Dir, "broker.log") }

// Start starts the node, again if it has ended.
func (n *Node) Start(ctx context.Context) error {
	b, err := n.start(ctx, n.opts)
	if err == nil {
		n.Broker = b
	}
	return err
}

// Running says whether the node's process is there, if paused.
func (n *Node) Running() bool {
	if n.Broker == nil {
		return false
	}
	select {
	case <-n.Broker.Done():
		return false
	default:
		return true
	}
}

// Set changes a property for the next start.
func (n *Node) Set(key, value string) { n.opts.Properties[key] = value }

// StartCluster returns once every broker answers. What has been started when it fails is killed.
func StartCluster(ctx context.Context, o ClusterOptions) (*Cluster, error) {
	c, err := newCluster(o)
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}

const loopback = "127.0.0.1"

// host is where a broker is.
func (o *ClusterOptions) host(id int32) string {
	if o.Machines != nil {
		return o.Machines.Host(id)
	}
	return loopback
}

// portsOf are the ports of one broker: those it listens on, and those of the proxies before them.
type portsOf struct{ client, replication, control, replicationProxy, controlProxy, gossip int }

func newCluster(o ClusterOptions) (*Cluster, error) {
	if o.Brokers == 0 {
		o.Brokers = 3
	}
	if o.Start == nil {
		o.Start = StartTarget
	}
	ports, err := FreePorts(6 * o.Brokers)
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	var secured map[string]string
	if o.Security != nil {
		if c.Access, secured, err = o.Security.secure(o.Dir, o.Brokers); err != nil {
			return nil, err
		}
	}
	if o.Proxied {
		c.Links = newLinks(o.Security != nil)
	}
	at := make([]portsOf, o.Brokers)
	var voters, gossips []string
	for i := range at {
		p := ports[6*i : 6*i+6]
		at[i] = portsOf{p[0], p[1], p[2], p[3], p[4], p[5]}
		host := o.host(int32(i + 1))
		gossips = append(gossips, fmt.Sprintf("%s:%d", host, at[i].gossip))
		reached := at[i].control
		if o.Proxied {
			reached = at[i].controlProxy
		}
		voters = append(voters, fmt.Sprintf("%d@%s:%d", i+1, host, reached))
	}
	for i, p := range at {
		if err := c.add(o, int32(i+1), p, strings.Join(voters, ","), strings.Join(gossips, ","), secured); err != nil {
			c.Kill()
			return nil, err
		}
	}
	return c, nil
}

func (c *Cluster) add(o ClusterOptions, id int32, at portsOf, voters, gossips string, secured map[string]string) error {
	host := o.host(id)
	p := map[string]string{
		"node.id": fmt.Sprint(id), "controller.quorum.voters": voters,
		"listeners":                      fmt.Sprintf("CLIENT://%[1]s:%[2]d,REPLICATION://%[1]s:%[3]d,CONTROLLER://%[1]s:%[4]d", host, at.client, at.replication, at.control),
		"listener.security.protocol.map": "CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name":     "REPLICATION",

		"offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2",
		"share.coordinator.state.topic.replication.factor": "3", "share.coordinator.state.topic.min.isr": "2",
	}
	if o.Proxied {
		p["advertised.listeners"] = fmt.Sprintf("CLIENT://127.0.0.1:%d,REPLICATION://127.0.0.1:%d", at.client, at.replicationProxy)
		err := errors.Join(c.Links.open(Replication, id, at.replicationProxy, fmt.Sprint("127.0.0.1:", at.replication)),
			c.Links.open(Control, id, at.controlProxy, fmt.Sprint("127.0.0.1:", at.control)))
		if err != nil {
			return err
		}
	}
	if o.Gossip {
		p["listeners"] += fmt.Sprintf(",GOSSIP://%s:%d", host, at.gossip)
		p["gossip.join"] = gossips
	}
	maps.Copy(p, secured)
	maps.Copy(p, o.Properties)
	maps.Copy(p, o.Each[id])
	opts := Options{Dir: filepath.Join(o.Dir, fmt.Sprint(id)), Port: at.client, Properties: p, JVM: o.JVM}
	if c.Access != nil {
		p["ssl.keystore.location"] = filepath.Join(c.Access.PKI, fmt.Sprintf("node-%d.pem", id))
		opts.TLS = c.Access.TLS
	}
	if c.Links != nil {
		opts.Started = func(pid int) { c.Links.brokers.started(id, pid) }
	}
	if o.Machines != nil {
		opts.Host, opts.Under = host, o.Machines.Under(id)
	}
	c.Nodes = append(c.Nodes, &Node{ID: id, start: o.Start, opts: opts})
	return nil
}

// Double is another process with a node's id and configuration, on ports and in a directory of its own. It is not one
// of Nodes.
func (c *Cluster) Double(id int32) (*Node, error) {
	n := c.Node(id)
	ports, err := FreePorts(3)
	if err != nil {
		return nil, err
	}
	p := maps.Clone(n.opts.Properties)
	p["listeners"] = fmt.Sprintf("CLIENT://127.0.0.1:%d,REPLICATION://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", ports[0], ports[1], ports[2])
	delete(p, "advertised.listeners")
	opts := n.opts
	opts.Dir, opts.Port, opts.Properties = n.opts.Dir+"-double", ports[0], p
	return &Node{ID: id, start: n.start, opts: opts}, nil
}

// Node finds a broker by its id.
func (c *Cluster) Node(id int32) *Node { return c.Nodes[id-1] }

// Addrs are all brokers', for clients to begin with.
func (c *Cluster) Addrs() (all []string) {
	for _, n := range c.Nodes {
		all = append(all, n.Addr())
	}
	return all
}

// Start starts, side by side, the brokers that do not run; of no ids: all of them.
func (c *Cluster) Start(ctx context.Context, ids ...int32) error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.Nodes))
	for i, n := range c.Nodes {
		if !n.Running() && (len(ids) == 0 || slices.Contains(ids, n.ID)) {
			wg.Go(func() { errs[i] = n.Start(ctx) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Kill is kill -9 of all that run, and the end of the links.
func (c *Cluster) Kill() {
	var wg sync.WaitGroup
	for _, n := range c.Nodes {
		if n.Running() {
			wg.Go(func() { _ = n.Kill() })
		}
	}
	wg.Wait()
	if c.Links != nil {
		c.Links.close()
	}
}

// Tails is the end of every broker's output, for a test that has failed.
func (c *Cluster) Tails() string {
	var b strings.Builder
	for _, n := range c.Nodes {
		fmt.Fprintf(&b, "--- end of %s\n%s\n", n.LogPath(), tail(n.LogPath()))
	}
	return b.String()
}

// tester is what ClusterFor needs of a testing.T.
type tester interface {
	Helper()
	Skip(...any)
	Fatal(...any)
	Logf(string, ...any)
	Cleanup(func())
	Failed() bool
}

// ClusterFor starts a cluster for a test, in a directory that goes with it; of a test that fails the brokers' output
// stays, and its end is shown.
func ClusterFor(t tester, ctx context.Context, o ClusterOptions) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "grete-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	o.Dir = dir
	c, err := newCluster(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
		if !t.Failed() {
			_ = os.RemoveAll(dir)
			return
		}
		t.Logf("%s", c.Tails())
		for _, n := range c.Nodes {
			_ = os.RemoveAll(n.Dir())
		}
	})
	SkipOrFail(t, c.Start(ctx))
	return c
}
