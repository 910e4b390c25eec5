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
	"grete/internal/admin"
	"grete/internal/config"
	"grete/internal/metrics"
	"grete/internal/security/sasl"
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
	authorizer  *handlers.Authorizer // nil: everyone may do everything

	security      security
	plainUsers    sasl.Users                    // of sasl.plain.users.file
	logins        map[string]*protocol.Login    // by the listener of other nodes that it is for
	saslConfig    atomic.Pointer[config.Broker] // with what was changed while the node runs
	saslListeners map[string]*protocol.SASL     // those of this node
	saslRefused   string                        // the last refusal that configureSASL logged; its own
	scramSecret   []byte                        // see sasl.ScramServer
	tokens        *sasl.TokenCredentials        // of delegation tokens; nil: there are none
	bearers       map[string]*sasl.TokenRules   // by listener
	kerberos      kerberosState
	bootstrap     []metadata.Record
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
	limiter       connectionLimiter
	serving       sync.WaitGroup
	admin         []*admin.Server // those that run
	adminAddr     string
	pprofAddr     string
	progress      progress

	stops       []stop // what was started
	leaving     sync.Once
	failed      chan error
	abandon     context.CancelCauseFunc         // ends a start that cannot succeed any more
	offlineTo   atomic.Pointer[replica.Manager] // replicas, once they are to hear of failed directories
	offlineDirs atomic.Int32
	leaversTo   atomic.Pointer[controller.Lifecycle] // lifecycle, once it is to hear of brokers that stop
}

// stop undoes one step of Start.
type stop struct {
	what string
	run  func(context.Context) error
}

// step is a part of Start. Readiness says what is being done meanwhile.
type step struct {
	doing string
	run   func(context.Context) error
}

// Start runs a broker until Stop. Its errors are one line that says what is in the way.
func Start(ctx context.Context, o Options) (*Node, error) {
	o.fill()
	caller := ctx
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	n := &Node{o: o, abandon: abandon, metrics: metrics.New(o.Clock), authorizer: newAuthorizer(o), failed: make(chan error, 1), progress: progress{clock: o.Clock}}
	for _, s := range n.steps() {
		n.progress.doing(s.doing)
		if err := s.run(ctx); err != nil {
			if caller.Err() == nil && ctx.Err() != nil { // the step was waiting in vain
				err = context.Cause(ctx)
			}
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			if stopped := n.Stop(stopCtx); !errors.Is(stopped, err) { // else it says the same again
				err = errors.Join(err, stopped)
			}
			return nil, err
		}
	}
	n.progress.done()
	return n, nil
}

// steps are those of Start. The admin listener comes first, so that whoever watches the node sees what it waits for;
// clients are let in last. A controller alone has no logs but the metadata's, and no clients.
func (n *Node) steps() []step {
	broker := n.o.Config.IsBroker
	all := []struct {
		step
		wanted bool
	}{
		{step{"opening the admin listener", n.startAdmin}, true},
		{step{"opening the listener for profiles", n.startProfiles}, true},
		{step{"looking at the log directories", n.refuseForeign}, true},
		{step{"reading keys and certificates", n.openSecurity}, true},
		{step{"reading users", n.openSASL}, true},
		{step{"opening the listeners", n.openSockets}, true},
		{step{"looking for the cluster", n.joinCluster}, true},
		{step{"opening the logs", n.openStore}, true},
		{step{"starting replicas", n.startReplicas}, broker},
		{step{"starting coordinators", n.startCoordinators}, broker},
		{step{"starting transactions", n.startTransactions}, broker},
		{step{"waiting for the metadata quorum", n.startController}, true},
		{step{"waiting for the controller to take this broker in", n.register}, broker},
		{step{"looking for users", n.warnNoUsers}, true},
		{step{"opening the listeners for clients", n.serve}, broker},
		{step{"starting", n.handOver}, true},
		{step{"starting", n.showState}, true},
	}
	var out []step
	for _, s := range all {
		if s.wanted {
			out = append(out, s.step)
		}
	}
	return out
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

// failQuorum is told that the metadata log failed: during the start nothing else would end the wait for its leader.
func (n *Node) failQuorum(err error) {
	n.abandon(err)
	n.fail(err)
}

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

// ProfilesAddr is where profiles alone are served, as host:port, "" when they are not.
func (n *Node) ProfilesAddr() string { return n.pprofAddr }

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
