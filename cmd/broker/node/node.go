package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"grete/cluster"
	"grete/cluster/controller"
	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/cluster/replica"
	"grete/coordinator/group"
	"grete/coordinator/txn"
	"grete/handlers"
	"grete/internal/metrics"
	"grete/logstore"
	"grete/protocol"
)

// Node is a running broker. Its parts were started in the order of the fields, and are stopped in reverse.
type Node struct {
	o           Options
	metrics     *metrics.Metrics
	clusterID   string
	metadataDir string // the log directory that has the metadata log
	begins      bool   // the quorum of a new cluster begins with this node
	hint        atomic.Pointer[raftlog.Members]
	logDefaults logstore.Config

	sockets       *sockets
	quorum        *quorum
	membership    cluster.Membership // nil: there is no gossip
	addressTurns  atomic.Uint32
	store         *logstore.Store
	replicas      *replica.Manager
	groups        *group.Service
	txns          *txn.Service
	markers       *handlers.Markers
	others        handlers.Others
	identity      *cluster.Identity
	incarnation   metadata.UUID // of this run
	entered       bool          // the image has this run's registration; the applier's own
	controller    *controller.Node
	lifecycle     *controller.Lifecycle
	registered    atomic.Bool // lifecycle is there
	topics        *handlers.CoordinatorTopics
	producers     *handlers.ProducerIDs
	fetchSessions *handlers.FetchSessions
	server        *protocol.Server
	serving       sync.WaitGroup
	adminAddr     string

	stops       []stop // what was started
	failed      chan error
	offlineTo   atomic.Pointer[replica.Manager] // replicas, once they are to hear of failed directories
	offlineDirs atomic.Int32
	leaversTo   atomic.Pointer[controller.Lifecycle] // lifecycle, once it is to hear of brokers that stop
}

// stop undoes one step of Start.
type stop struct {
	what string
	run  func(context.Context) error
}

// Start runs a broker until Stop. Its errors are one line that says what is in the way.
func Start(ctx context.Context, o Options) (*Node, error) {
	o.fill()
	n := &Node{o: o, metrics: metrics.New(o.Clock), failed: make(chan error, 1)}
	for _, step := range n.steps() {
		if err := step(ctx); err != nil {
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			return nil, errors.Join(err, n.Stop(stopCtx))
		}
	}
	return n, nil
}

// steps are those of Start: a controller alone has no logs but the metadata's, and no clients.
func (n *Node) steps() []func(context.Context) error {
	if !n.o.Config.IsBroker {
		return []func(context.Context) error{n.openSockets, n.joinCluster, n.openStore, n.startController, n.handOver, n.startAdmin}
	}
	return []func(context.Context) error{
		n.openSockets, n.joinCluster, n.openStore, n.startReplicas, n.startCoordinators, n.startTransactions, n.startController, n.register, n.serve, n.handOver, n.startAdmin,
	}
}

// onStop has run called by Stop, before what was started earlier.
func (n *Node) onStop(what string, run func(context.Context) error) {
	n.stops = append(n.stops, stop{what, run})
}

// Stop finishes the requests that were accepted, marks the logs as cleanly shut, and lets go of everything. What does
// not end within ctx is given up.
func (n *Node) Stop(ctx context.Context) error {
	var errs []error
	for len(n.stops) > 0 {
		last := n.stops[len(n.stops)-1]
		n.stops = n.stops[:len(n.stops)-1]
		if err := last.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", last.what, err))
		}
	}
	return errors.Join(errs...)
}

// Failed delivers the error after which the broker cannot go on.
func (n *Node) Failed() <-chan error { return n.failed }

func (n *Node) fail(err error) {
	select {
	case n.failed <- err:
	default:
	}
}

// ClusterID is the id in meta.properties.
func (n *Node) ClusterID() string { return n.clusterID }

// Addr is where a listener accepts, as host:port, "" when there is no such listener.
func (n *Node) Addr(listener string) string { return n.sockets.addr(listener) }

// AdminAddr is where metrics and health are served, as host:port, "" when they are not.
func (n *Node) AdminAddr() string { return n.adminAddr }

// random fills p from the entropy.
func (n *Node) random(p []byte) {
	if _, err := io.ReadFull(n.o.Entropy, p); err != nil {
		panic(err) // the kernel's generator does not fail
	}
}

// newRand is a generator of its own, seeded from the entropy.
func (n *Node) newRand() *rand.Rand {
	var seed [32]byte
	n.random(seed[:])
	return rand.New(rand.NewChaCha8(seed))
}
