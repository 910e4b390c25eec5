package controller

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/clock"
)

// Node follows the metadata log and, while it leads the quorum, is the active controller. Three goroutines: Raft's, the
// applier (log to images), the decider (requests to records).
type Node struct {
	o     Options
	raft  *raftlog.Node
	image atomic.Pointer[metadata.Image]

	ops     chan *op
	waiting *waitList // this node's decisions, until they are applied
	// arrivals are answers of another node, until this one has applied as much.
	arrivals *waitList
	commits  chan struct{} // the commit index has moved; holds one
	leaders  chan struct{} // leadership has changed, or an epoch's first record is applied; holds one
	lead     atomic.Pointer[term]
	presence *presence
	prober   *Prober
	office   atomic.Pointer[office]
	// predecessor is the last other node that led.
	predecessor atomic.Int32
	suspicions  chan int32
	verdicts    chan verdict
	// received is a leader's snapshot that the applier has to load.
	received atomic.Pointer[raftlog.Snapshot]

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	failed sync.Once
}

// Start loads the newest snapshot, which OnImage sees before Start returns, and runs the node. Only reading is done on
// the caller's goroutine: a node that is alone becomes leader, and the rest of the log arrives, shortly after.
func Start(ctx context.Context, o Options) (*Node, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	n := &Node{
		o: o, waiting: newWaitList(), arrivals: newWaitList(), ops: make(chan *op, queuedOps),
		commits: make(chan struct{}, 1), leaders: make(chan struct{}, 1),
		suspicions: make(chan int32, queuedSuspicions), verdicts: make(chan verdict),
	}
	n.presence = newPresence(o.Clock, n.Suspect)
	n.prober = &Prober{Clock: o.Clock, Dial: o.Probe, Image: n.Image}
	n.office.Store(&office{predecessor: -1})
	n.predecessor.Store(-1)
	n.lead.Store(newTerm(raftlog.Leader{NodeID: -1, Start: -1}))
	n.image.Store(&metadata.Image{})
	raft, err := raftlog.Open(raftlog.Options{
		NodeID: o.NodeID, Voters: o.Voters, DirectoryID: o.DirectoryID, Listeners: o.Listeners, OnMembers: o.OnMembers, Log: o.Log, FS: o.FS, Dir: o.Dir, Clock: o.Clock, Logger: o.Logger,
		Transport: o.Transport, ElectionMs: int(o.Config.Int("controller.quorum.election.timeout.ms")),
		OnCommit: func(int64) { poke(n.commits) }, OnLeader: n.onLeader,
		OnSnapshot: func(s raftlog.Snapshot) { n.received.Store(&s) }, OnFailure: n.fail,
	})
	if err != nil {
		return nil, err
	}
	n.raft = raft
	a, err := newApplier(n)
	if err != nil {
		return nil, err
	}
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	n.wg.Go(a.run)
	n.wg.Go(newDecider(n).run)
	raft.Start()
	return n, nil
}

// Image is the newest metadata that OnImage has seen.
func (n *Node) Image() *metadata.Image { return n.image.Load() }

// Raft is this node's part of the quorum, for its transport.
func (n *Node) Raft() *raftlog.Node { return n.raft }

// LeaderGone is closed when another node, or nobody, leads the quorum.
func (n *Node) LeaderGone() <-chan struct{} { return n.lead.Load().over }

// Leader is who leads the quorum, as far as this node knows.
func (n *Node) Leader() raftlog.Leader { return n.lead.Load().Leader }

// Resign has another voter lead the quorum, if this node leads and there is one. Call it before Stop.
func (n *Node) Resign(ctx context.Context) error {
	ctx, cancel := clock.WithTimeout(ctx, n.o.Clock, resignTimeout)
	defer cancel()
	err := n.raft.Resign(ctx)
	if errors.Is(err, raftlog.ErrStopped) {
		return nil
	}
	return err
}

// Stop ends the node and waits for its goroutines. Requests still waiting get ErrStopped.
func (n *Node) Stop(ctx context.Context) error {
	n.cancel()
	n.presence.close()
	stopped := make(chan struct{})
	go func() {
		n.wg.Wait()
		n.raft.Stop()
		close(stopped)
	}()
	select {
	case <-stopped:
		return n.raft.Failure()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// term is what this node knows of who leads, until it knows something else.
type term struct {
	raftlog.Leader
	over chan struct{} // closed when it knows something else
}

func newTerm(l raftlog.Leader) *term { return &term{l, make(chan struct{})} }

// resignTimeout bounds the change of leaders before a stop.
const resignTimeout = 2 * time.Second

// onLeader runs on Raft's goroutine.
func (n *Node) onLeader(l raftlog.Leader) {
	if l.NodeID >= 0 && l.NodeID != n.o.NodeID {
		n.predecessor.Store(l.NodeID)
	}
	close(n.lead.Swap(newTerm(l)).over)
	poke(n.leaders)
	poke(n.commits) // the image names the controller
}

// fail reports, once, why this node has stopped working; a failure that comes of being stopped is none.
func (n *Node) fail(err error) {
	if errors.Is(err, raftlog.ErrStopped) {
		return
	}
	n.failed.Do(func() {
		n.cancel()
		n.o.OnFailure(err)
	})
}

// poke sets a signal that one receiver takes up when it next can.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
