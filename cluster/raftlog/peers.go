package raftlog

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/sched"
	"grete/protocol"
)

// PeersOptions describe the network of a node.
type PeersOptions struct {
	NodeID      int32
	ClusterID   string
	DirectoryID metadata.UUID // of the metadata log
	// Directory is that of another node, as the quorum's configuration has it; zero: not known.
	Directory func(id int32) metadata.UUID
	// Address is where a node's controller listener is; false: it has none, and fetches its messages itself.
	Address func(id int32) (string, bool)
	Clock   clock.Clock
	Logger  zerolog.Logger
	Timeout time.Duration // controller.quorum.request.timeout.ms: for one request
	Client  protocol.ClientOptions
	// OnGone is told of a node whose machine refuses connections; it must not block.
	OnGone func(id int32)
}

const (
	queuedMessages   = 1024     // to one node; more are dropped, as a network may
	queuedBytes      = 64 << 20 // likewise
	frameBytes       = 4 << 20  // a frame takes no further message beyond it
	redialPause      = 5 * time.Millisecond
	minRedial        = 20 * time.Millisecond
	maxRedial        = 500 * time.Millisecond
	maxPollWait      = 5 * time.Second
	maxKnownPeers    = 1000 // nodes that messages are kept for; etcd's Raft is made for far fewer
	maxStrangers     = 500  // of these, before one that is unknown and not proven to be who it says is turned away
	pollRetriesAfter = 200 * time.Millisecond
	loggedOutage     = 3 * time.Second // shorter ones are not
)

// stopping is what a node answers that stops, and will not hear its messages: it is as gone as one whose machine
// refuses connections.
var stopping = kerr.BrokerNotAvailable.Code

// left says whether err is that nobody is there, or soon will be.
func left(err error) bool {
	return protocol.Refused(err) || errors.Is(err, kerr.BrokerNotAvailable)
}

// receiver is the node that Peers work for.
type receiver interface {
	Step(m *raftpb.Message, directory metadata.UUID)
	Report(id int32, snapshot, delivered bool)
	Gone(id int32)
}

// Peers is Transport over Kafka frames: a connection to each node, which carries what is queued as one request after
// the other, and one goroutine for each. A node without address, a broker without a controller listener, polls each
// voter.
type Peers struct {
	o    PeersOptions
	node atomic.Pointer[receiver]

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	term   atomic.Uint64 // the highest that this node has spoken in

	parts assembly

	mu     sched.Mutex
	peers  map[int32]*peer
	polls  map[int32]context.CancelFunc // of voters, by id
	closed bool
}

// NewPeers makes the network of a node; messages wait until Attach.
func NewPeers(o PeersOptions) *Peers {
	p := &Peers{o: o, peers: map[int32]*peer{}, polls: map[int32]context.CancelFunc{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Attach names who gets the messages.
func (p *Peers) Attach(n *Node) {
	var r receiver = n
	p.node.Store(&r)
}

// Close ends all connections and waits for their goroutines.
func (p *Peers) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}

// Send is Transport's: it queues m, and drops it when too much is queued.
func (p *Peers) Send(m *raftpb.Message, asker metadata.UUID) {
	p.term.Store(max(p.term.Load(), m.GetTerm())) // only Raft's goroutine sends
	raw, err := proto.Marshal(m)
	if err != nil {
		p.o.Logger.Error().Err(err).Msg("a message of the quorum cannot be encoded")
		return
	}
	if to := p.peer(nodeID(m.GetTo())); to != nil {
		to.push(outgoing{raw: raw, snapshot: m.GetType() == raftpb.MsgSnap, asker: asker})
	}
}

// peer finds or makes a peer; a new one that can be dialled gets its goroutine. nil when there are too many.
func (p *Peers) peer(id int32) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.peers[id]
	if to == nil {
		if len(p.peers) == maxKnownPeers || p.closed {
			return nil
		}
		to = &peer{id: id, some: make(chan struct{}, 1)}
		p.peers[id] = to
	}
	if _, dialled := p.o.Address(id); dialled && !to.dialled && !p.closed {
		to.dialled = true
		p.wg.Go(func() { p.deliver(to) })
	}
	return to
}

// deliver is a peer's goroutine.
func (p *Peers) deliver(to *peer) {
	link := p.link(to.id)
	defer link.Close()
	redial := backoff{clock: p.o.Clock}
	for p.awaitMessages(to, link) {
		messages := to.take()
		req := &protocol.RaftRequest{To: to.id, MessageFrames: framesOf(messages)}
		if len(messages) > 0 {
			req.ToDirectoryID = messages[0].asker
		}
		err := p.exchange(link, req, p.o.Timeout)
		p.report(to, messages, err)
		if err == nil {
			redial.reset()
			continue
		}
		to.lost.note(p.o, to.id, err)
		if !left(err) && !errors.Is(err, context.Canceled) { // the connection broke: why?
			p.noteGone(to.id, p.redial(link))
		}
		redial.wait(p.ctx)
	}
}

func (p *Peers) link(id int32) *protocol.Link {
	return protocol.NewLink(func() (string, bool) { return p.o.Address(id) }, p.o.Client)
}

// awaitMessages dials again at once when the connection ends meanwhile: a process that was killed is then found to be
// gone before anybody misses it.
func (p *Peers) awaitMessages(to *peer, link *protocol.Link) bool {
	for {
		select {
		case <-to.some:
			return true
		case <-link.Lost():
			if err := p.redial(link); err != nil {
				p.noteGone(to.id, err)
				to.lost.note(p.o, to.id, err)
			}
		case <-p.ctx.Done():
			return false
		}
	}
}

// redial tries until the connection stands, is refused, or nobody answers. A process that has just been killed may
// accept for a moment more, and end that connection, too.
func (p *Peers) redial(link *protocol.Link) (err error) {
	ctx, cancel := clock.WithTimeout(p.ctx, p.o.Clock, p.o.Timeout)
	defer cancel()
	for pause := redialPause; pause <= maxRedial; pause *= 2 {
		err = link.Redial(ctx)
		if err == nil || protocol.Refused(err) || clock.Pause(ctx, p.o.Clock, pause) != nil {
			return err
		}
	}
	return err
}

// noteGone tells who wants to know when err says that nobody listens at a node's address, or that the node stops.
func (p *Peers) noteGone(id int32, err error) {
	if !left(err) {
		return
	}
	if node := p.node.Load(); node != nil {
		(*node).Gone(id)
	}
	if p.o.OnGone != nil {
		p.o.OnGone(id)
	}
}

// exchange sends one request and hands over what comes back.
func (p *Peers) exchange(link *protocol.Link, req *protocol.RaftRequest, timeout time.Duration) error {
	req.ClusterID, req.From, req.FromDirectoryID = p.o.ClusterID, p.o.NodeID, p.o.DirectoryID
	if req.ToDirectoryID == metadata.ZeroUUID {
		req.ToDirectoryID = p.o.Directory(req.To)
	}
	ctx, cancel := clock.WithTimeout(p.ctx, p.o.Clock, timeout)
	defer cancel()
	resp, err := link.Call(ctx, req)
	if err != nil {
		return err
	}
	answer := resp.(*protocol.RaftResponse)
	if answer.ErrorCode == kerr.ClusterAuthorizationFailed.Code {
		link.Reset() // it did not believe our hello: perhaps it does the next
	}
	if answer.ErrorCode != 0 {
		return kerr.ErrorForCode(answer.ErrorCode)
	}
	if code := p.accept(req.To, p.o.Directory(req.To), true, answer.MessageFrames); code != 0 {
		return kerr.ErrorForCode(code)
	}
	return nil
}

// report tells Raft what it cannot see: that a node does not hear it, and what became of a snapshot.
func (p *Peers) report(to *peer, messages []outgoing, err error) {
	node := p.node.Load()
	if node == nil {
		return
	}
	if err != nil {
		to.abandon()
		(*node).Report(to.id, false, false)
		p.noteGone(to.id, err)
	} else {
		to.lost.over(p.o, to.id)
	}
	for _, m := range messages {
		if m.snapshot && (m.rest == 0 || err != nil) {
			(*node).Report(to.id, true, err == nil)
		}
	}
}

// Receive takes a request of another node. respond is called once, now or when messages for the sender have come. A
// sender that is not proven to be who it says can be no voter: only its answers to a leader are taken, and never a
// later term.
func (p *Peers) Receive(req *protocol.RaftRequest, proven bool, respond func(*protocol.RaftResponse)) {
	if code := p.check(req); code != 0 || p.ctx.Err() != nil {
		if code == 0 {
			code = stopping
		}
		respond(&protocol.RaftResponse{ErrorCode: code})
		return
	}
	if code := p.accept(req.From, req.FromDirectoryID, proven, req.MessageFrames); code != 0 || req.MaxWaitMs <= 0 {
		respond(&protocol.RaftResponse{ErrorCode: code})
		return
	}
	if !proven && p.crowded(req.From) {
		respond(&protocol.RaftResponse{ErrorCode: kerr.ThrottlingQuotaExceeded.Code})
		return
	}
	to := p.peer(req.From)
	if to == nil {
		respond(&protocol.RaftResponse{ErrorCode: kerr.ThrottlingQuotaExceeded.Code})
		return
	}
	if node := p.node.Load(); to.takeFetched() && node != nil {
		(*node).Report(req.From, true, true)
	}
	to.park(p.o.Clock, min(time.Duration(req.MaxWaitMs)*time.Millisecond, maxPollWait), respond)
}

// crowded: a stranger would take the place of a node that Raft has something for.
func (p *Peers) crowded(id int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peers[id] == nil && len(p.peers) >= maxStrangers
}

// check refuses nodes of other clusters, and what was meant for another node or for this one before its directory was
// emptied. Only of a node that fetches does it matter here which directory it has: others get nothing at an old one.
func (p *Peers) check(req *protocol.RaftRequest) int16 {
	own, known := metadata.UUID(req.ToDirectoryID), p.o.Directory(req.From)
	switch {
	case req.ClusterID != p.o.ClusterID:
		return kerr.InconsistentClusterID.Code
	case req.To != p.o.NodeID || req.From == p.o.NodeID || req.From < 0:
		return kerr.InvalidRequest.Code
	case own != metadata.ZeroUUID && own != p.o.DirectoryID:
		return kerr.InvalidVoterKey.Code
	case req.MaxWaitMs > 0 && known != metadata.ZeroUUID && known != req.FromDirectoryID:
		return kerr.InvalidVoterKey.Code
	}
	return 0
}

// accept gives messages of a node to Raft; none when one is not as Raft makes them, or answers for a directory that the
// node is not a member with: a voter whose disk was lost must not be counted by what it once answered.
func (p *Peers) accept(from int32, directory metadata.UUID, proven bool, frames protocol.MessageFrames) (code int16) {
	if !proven && (frames.Continues != 0 || frames.Rest != 0) { // no answer is that long
		return kerr.ClusterAuthorizationFailed.Code
	}
	raw, ok := p.parts.add(from, frames)
	if !ok {
		return kerr.InvalidRequest.Code
	}
	known := p.o.Directory(from)
	foreign := known != metadata.ZeroUUID && known != directory
	messages := make([]*raftpb.Message, len(raw))
	for i := range raw {
		m := &raftpb.Message{}
		if proto.Unmarshal(raw[i], m) != nil || checkMessage(m, from, p.o.NodeID) != nil {
			return kerr.InvalidRequest.Code
		}
		if !proven && (!fromLearners[m.GetType()] || m.GetTerm() > p.term.Load()) {
			return kerr.ClusterAuthorizationFailed.Code
		}
		if foreign && answers[m.GetType()] {
			return kerr.InvalidVoterKey.Code
		}
		messages[i] = m
	}
	node := p.node.Load()
	if node == nil {
		return kerr.CoordinatorNotAvailable.Code
	}
	for _, m := range messages {
		(*node).Step(m, directory)
	}
	return 0
}

// Poll has this node, which the others cannot dial, fetch its messages from these voters, and from no others any more.
func (p *Peers) Poll(voters []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, cancel := range p.polls {
		if !slices.Contains(voters, id) {
			cancel()
			delete(p.polls, id)
		}
	}
	for _, id := range voters {
		if p.polls[id] != nil || p.closed {
			continue
		}
		ctx, cancel := context.WithCancel(p.ctx)
		p.polls[id] = cancel
		p.wg.Go(func() { p.poll(ctx, id) })
	}
}

func (p *Peers) poll(ctx context.Context, voter int32) {
	link := p.link(voter)
	defer link.Close()
	defer context.AfterFunc(ctx, link.Close)()
	var lost outage
	for ctx.Err() == nil {
		req := &protocol.RaftRequest{To: voter, MaxWaitMs: int32(maxPollWait / time.Millisecond)}
		if err := p.exchange(link, req, maxPollWait+p.o.Timeout); err != nil && ctx.Err() == nil {
			lost.note(p.o, voter, err)
			p.noteGone(voter, err)
			_ = clock.Pause(ctx, p.o.Clock, pollRetriesAfter)
			continue
		}
		lost.over(p.o, voter)
	}
}

// backoff doubles its pause until it is reset.
type backoff struct {
	clock clock.Clock
	next  time.Duration
}

func (b *backoff) reset() { b.next = 0 }

func (b *backoff) wait(ctx context.Context) {
	b.next = min(max(2*b.next, minRedial), maxRedial)
	_ = clock.Pause(ctx, b.clock, b.next)
}

// maxTerm and maxIndex are what a log in Kafka's format can hold.
const (
	maxTerm  = math.MaxInt32
	maxIndex = math.MaxInt64
)
