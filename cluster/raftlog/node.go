// Package raftlog is the node of the metadata quorum: etcd's Raft driven over a logstore log in Kafka's formats. A log
// with one voter runs the same code as one with many, without a transport.
package raftlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// Transport carries Raft's messages to other nodes. Send encodes m before it returns and never blocks on the
// network; it may drop. What arrives is given to Node.Step. asker is the directory that m answers, zero when m answers
// nobody.
type Transport interface {
	Send(m *raftpb.Message, asker metadata.UUID)
}

// Options describe one node.
type Options struct {
	NodeID int32
	Voters []int32 // of a log that is new; an older log knows its own. None: the node waits until it is made a member
	// DirectoryID and Listeners are this node's own, for a log that begins with it.
	DirectoryID metadata.UUID
	Listeners   []metadata.Endpoint
	Log         Log
	FS          vfs.FS
	Dir         string // of the log: quorum-state and snapshots live in it
	Clock       clock.Clock
	Logger      zerolog.Logger
	Transport   Transport // nil: there are no other nodes
	ElectionMs  int       // controller.quorum.election.timeout.ms: a silent leader is replaced within it; default 1000

	// MessageBytes bounds a message to a follower, but for a batch larger than it; default 1 MiB.
	MessageBytes uint64

	// OnCommit is told the new high watermark, OnLeader who leads. They run on the node's goroutine and must not block.
	OnCommit func(end int64)
	OnLeader func(Leader)
	// OnSnapshot gives a snapshot that replaces the state machine: the leader no longer has the log before it.
	OnSnapshot func(Snapshot)
	// OnMembers is told the quorum's configuration when it has changed.
	OnMembers func(Members)
	// OnFailure is told once that a write or fsync has failed: the node has stepped down and stopped.
	OnFailure func(error)
}

// Leader says who leads the quorum.
type Leader struct {
	NodeID int32 // -1: nobody known
	Epoch  int32
	// Start is the offset from which this node, as leader, appends; -1 when another node leads. The state machine
	// must have applied everything below it before it decides anything.
	Start int64
}

const (
	ticksPerElection = 10
	inboxMessages    = 1024     // messages of other nodes waiting; more are dropped, as a network may
	uncommittedBytes = 64 << 20 // proposals beyond it are refused until some are committed
	inflightMessages = 256
	maxProposals     = 256 // taken into one round
)

// Node takes part in the quorum. All of Raft happens on one goroutine.
type Node struct {
	o       Options
	storage *storage
	raw     *raft.RawNode
	state   quorumState
	newest  *snapshot // nil: none
	reader  snapshotReader

	proposals chan proposal
	inbox     chan arrival
	calls     chan func()
	reports   chan report
	away      map[int32]bool // nodes that are gone, and have not been heard since
	gone      chan int32     // nodes whose machines refuse connections
	campaign  chan int32     // holds one: a leader that is gone, and is to be replaced now
	stop      chan struct{}
	done      chan struct{}
	stopOnce  sync.Once

	lead      Leader
	leadMs    int64 // when that became known
	announced int32 // the epoch in which this node has last announced itself leader
	committed atomic.Int64
	lost      atomic.Int64 // how far the log went before its end was lost; 0: nothing was
	confs     confHistory
	members   atomic.Pointer[Members]
	changes   []change // of the configuration, until they are committed
	contacts  map[int32]*contact
	failure   error // set before done is closed

	silentTicks int // since anybody was heard of
	arrivals    arrivals
	asker       arrival // the last message that Raft got: answers that it sends next are to it
}

type proposal struct {
	epoch int32
	batch batch.Batch
	reply chan<- proposed
}

type proposed struct {
	end int64
	err error
}

// Open loads the node's state, checking it; it does not run until Start.
func Open(o Options) (*Node, error) {
	if o.ElectionMs <= 0 {
		o.ElectionMs = 1000
	}
	if o.MessageBytes == 0 {
		o.MessageBytes = 1 << 20
	}
	n := &Node{
		o: o, lead: Leader{NodeID: -1, Start: -1}, contacts: map[int32]*contact{},
		proposals: make(chan proposal), inbox: make(chan arrival, inboxMessages), calls: make(chan func()),
		reports: make(chan report), gone: make(chan int32), away: map[int32]bool{}, campaign: make(chan int32, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if err := n.load(); err != nil {
		return nil, err
	}
	raw, err := raft.NewRawNode(&raft.Config{
		ID: raftID(o.NodeID), ElectionTick: ticksPerElection, HeartbeatTick: 1,
		Storage: n.storage, Applied: uint64(n.loadedCommit()),
		MaxSizePerMsg: o.MessageBytes, MaxCommittedSizePerReady: o.MessageBytes,
		MaxUncommittedEntriesSize: uncommittedBytes, MaxInflightMsgs: inflightMessages,
		CheckQuorum: true, PreVote: true, DisableProposalForwarding: true, StepDownOnRemoval: true, Logger: raftLogger{o.Logger},
	})
	if err != nil {
		return nil, err
	}
	n.raw = raw
	n.committed.Store(n.loadedCommit())
	return n, nil
}

// raftID: Raft numbers nodes from 1, Kafka from 0.
func raftID(nodeID int32) uint64 { return uint64(nodeID) + 1 }
func nodeID(raftID uint64) int32 { return int32(raftID) - 1 }

// Start runs the node; the only voter of a log campaigns at once.
func (n *Node) Start() { go n.run() }

// Stop ends the node and waits for it.
func (n *Node) Stop() {
	n.stopOnce.Do(func() { close(n.stop) })
	<-n.done
	n.reader.running.Wait()
}

// Failure is what made a node stop that was not told to, else nil. Valid once stopped.
func (n *Node) Failure() error {
	select {
	case <-n.done:
		return n.failure
	default:
		return nil
	}
}

// CommittedEnd is the high watermark: everything below it is committed.
func (n *Node) CommittedEnd() int64 { return n.committed.Load() }

// ReadCommitted copies whole committed batches from offset, at least one; nil when there is none yet.
func (n *Node) ReadCommitted(offset int64, maxBytes int) ([]byte, error) {
	end := n.CommittedEnd()
	if offset >= end {
		return nil, nil
	}
	return readBatches(n.o.Log, offset, maxBytes, end)
}

// Propose appends b as leader of epoch and returns the offset after it, before it is durable or committed; OnCommit
// tells that. ErrNotLeader: nothing was appended. b belongs to the node from then on.
func (n *Node) Propose(ctx context.Context, epoch int32, b batch.Batch) (end int64, err error) {
	reply := make(chan proposed, 1)
	select {
	case n.proposals <- proposal{epoch, b, reply}:
		return n.proposed(reply)
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-n.done:
		return 0, ErrStopped
	}
}

// proposed waits for the answer to a proposal that was taken; there is none when the node has failed over it.
func (n *Node) proposed(reply <-chan proposed) (end int64, err error) {
	select {
	case p := <-reply:
		return p.end, p.err
	case <-n.done:
	}
	select {
	case p := <-reply:
		return p.end, p.err
	default:
		return 0, ErrStopped
	}
}

// Step takes a message of another node and of that directory of it. It is dropped when too many wait.
func (n *Node) Step(m *raftpb.Message, directory metadata.UUID) {
	n.arrivals.note(nodeID(m.GetFrom()), n.o.Clock.Now())
	select {
	case n.inbox <- arrival{m, directory}:
	default:
	}
}

// call runs f on the node's goroutine.
func (n *Node) call(f func()) error { return n.callWithin(context.Background(), f) }

// callWithin is call for a caller who waits no longer than ctx for f to begin: a node without room takes no calls.
func (n *Node) callWithin(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	select {
	case n.calls <- func() { f(); close(ran) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-n.done:
		return ErrStopped
	}
	select {
	case <-ran:
		return nil
	case <-n.done: // it has failed over f, unless that was the last thing it did
	}
	select {
	case <-ran:
		return nil
	default:
		return ErrStopped
	}
}

func (n *Node) run() {
	defer close(n.done)
	defer n.recoverReadFailure()
	n.storage.patiently = n.persist
	if err := n.loop(); err != nil && !errors.Is(err, errStopping) {
		n.fail(err)
	}
}

// recoverReadFailure: Raft panics when it cannot read its log. That is a failed disk, not a fault of the program.
func (n *Node) recoverReadFailure() {
	if n.storage.failure == nil {
		return
	}
	if r := recover(); r != nil && !errors.Is(n.storage.failure, errStopping) {
		n.fail(n.storage.failure)
	}
}

func (n *Node) loop() error {
	if end := n.committed.Load(); end > n.snapshotEnd() {
		n.advanceCommitted(end)
	}
	if n.alone() {
		if err := n.raw.Campaign(); err != nil {
			return err
		}
	}
	ticker := &ticker{clock: n.o.Clock, every: n.tick()}
	defer ticker.stop()
	for {
		if err := n.settle(); err != nil {
			return err
		}
		select {
		case p := <-n.proposals:
			n.proposeAll(p)
		case a := <-n.inbox:
			n.step(a)
		case r := <-n.reports:
			n.take(r)
		case id := <-n.gone:
			n.leaderGone(id)
		case id := <-n.campaign:
			n.campaignEarly(id)
		case f := <-n.calls:
			f()
		case <-ticker.c(!n.alone()):
			n.raw.Tick()
			n.reader.tick()
			n.forgetSilentLeader()
		case <-n.stop:
			return nil
		}
	}
}

func (n *Node) step(a arrival) {
	m := a.message
	if err := whole(m); err != nil || !n.plausible(m) {
		return
	}
	n.asker = a
	_ = n.raw.Step(m) // a message of a removed or unknown node is no fault of ours
	n.silentTicks = 0
	delete(n.away, nodeID(m.GetFrom()))
	n.heard(m)
}

// tick: Raft waits for a random time from ticksPerElection to twice that many ticks.
func (n *Node) tick() time.Duration {
	return time.Duration(n.o.ElectionMs) * time.Millisecond / (2 * ticksPerElection)
}

// settle does all that Raft asks for.
func (n *Node) settle() error {
	for n.raw.HasReady() {
		if err := n.announce(); err != nil {
			return err
		}
		if err := n.ready(n.raw.Ready()); err != nil {
			return err
		}
	}
	return nil
}

// alone says whether this node is the only member: then time plays no part, and an idle node does nothing at all.
func (n *Node) alone() bool {
	c := n.confs.latest()
	return len(c) == 1 && c[0].Voter && c[0].NodeID == n.o.NodeID
}

// proposeAll takes all proposals that wait: they share one write and one fsync.
func (n *Node) proposeAll(p proposal) {
	end := n.o.Log.EndOffset()
	for taken := 1; ; taken++ {
		end = n.propose(p, end)
		if taken == maxProposals {
			return
		}
		select {
		case p = <-n.proposals:
		default:
			return
		}
	}
}

// propose appends p at end and returns the offset after it. Every Ready has been handled before, so that what Raft has
// appended is what the log holds, and what this round has proposed.
func (n *Node) propose(p proposal, end int64) int64 {
	if n.lead.NodeID != n.o.NodeID || n.lead.Epoch != p.epoch {
		p.reply <- proposed{err: ErrNotLeader}
		return end
	}
	if err := n.stepProposal(p.batch); err != nil {
		p.reply <- proposed{err: errors.Join(ErrNotLeader, err)}
		return end
	}
	end += int64(p.batch.LastOffsetDelta()) + 1
	p.reply <- proposed{end: end}
	return end
}

// stepProposal appends a batch's entries together.
func (n *Node) stepProposal(b batch.Batch) error {
	id := raftID(n.o.NodeID)
	entries := make([]*raftpb.Entry, b.LastOffsetDelta()+1)
	for i := range entries {
		entries[i] = &raftpb.Entry{Type: raftpb.EntryNormal.Enum()}
	}
	entries[0].Data = b
	return n.raw.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &id, To: &id, Entries: entries})
}

// fail steps down: what is not committed stays unanswered, and nothing more is written.
func (n *Node) fail(err error) {
	n.failure = fmt.Errorf("the metadata log failed, stepping down: %w", err)
	n.o.Logger.Error().Err(err).Msg("the metadata log failed: this node steps down from the quorum until it is restarted")
	n.setLeader(Leader{NodeID: -1, Epoch: n.lead.Epoch, Start: -1})
	if n.o.OnFailure != nil {
		n.o.OnFailure(n.failure)
	}
}

func (n *Node) setLeader(l Leader) {
	if l == n.lead {
		return
	}
	n.lead, n.leadMs = l, clock.Millis(n.o.Clock)
	n.forgetFollowers()
	if n.o.OnLeader != nil {
		n.o.OnLeader(l)
	}
}

// ticker ticks only while it is wanted.
type ticker struct {
	clock clock.Clock
	every time.Duration
	t     clock.Ticker
}

func (t *ticker) c(wanted bool) <-chan time.Time {
	switch {
	case wanted && t.t == nil:
		t.t = t.clock.NewTicker(t.every)
	case !wanted:
		t.stop()
		return nil
	}
	return t.t.C()
}

func (t *ticker) stop() {
	if t.t != nil {
		t.t.Stop()
		t.t = nil
	}
}
