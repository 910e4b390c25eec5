package raftlog

import (
	"time"

	"grete/internal/clock"
	"grete/internal/sched"
	"grete/protocol"
)

// peer is what waits for another node.
type peer struct {
	id      int32
	dialled bool          // has a goroutine; Peers.mu
	some    chan struct{} // holds one: there are messages
	lost    outage        // its goroutine's own

	mu     sched.Mutex
	queue  []outgoing
	bytes  int
	parked *poll // of a node that fetches
	// fetched: such a node has been given a whole snapshot, and what became of it is not known before it asks again.
	fetched bool
}

// poll is a request that waits for messages.
type poll struct {
	respond func(*protocol.RaftResponse)
	timer   clock.Timer
}

// push queues m or drops it, and answers who has asked for it.
func (p *peer) push(m outgoing) {
	p.mu.Lock()
	if len(p.queue) < queuedMessages && (p.bytes+len(m.raw) <= queuedBytes || len(p.queue) == 0) {
		p.queue = append(p.queue, m.parts()...)
		p.bytes += len(m.raw)
	}
	parked, ready := p.parked, []outgoing(nil)
	if parked != nil {
		p.parked, ready = nil, p.fetchLocked()
	}
	p.mu.Unlock()
	if parked == nil {
		p.poke()
		return
	}
	parked.timer.Stop()
	parked.respond(&protocol.RaftResponse{MessageFrames: framesOf(ready)})
}

// abandon forgets the rest of a message of which a part is lost.
func (p *peer) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) > 0 && p.queue[0].continues > 0 {
		p.bytes -= len(p.queue[0].raw)
		p.queue = p.queue[1:]
	}
}

func (p *peer) poke() {
	select {
	case p.some <- struct{}{}:
	default:
	}
}

// take returns the messages for one frame; it pokes again when there are more.
func (p *peer) take() []outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.takeLocked()
	if len(p.queue) > 0 {
		p.poke()
	}
	return taken
}

func (p *peer) takeLocked() []outgoing {
	n, bytes := frameLen(p.queue)
	taken := p.queue[:n:n]
	p.queue, p.bytes = p.queue[n:], p.bytes-bytes
	return taken
}

// fetchLocked is takeLocked for a node that fetches.
func (p *peer) fetchLocked() []outgoing {
	taken := p.takeLocked()
	for _, m := range taken {
		p.fetched = p.fetched || m.snapshot && m.rest == 0
	}
	return taken
}

// takeFetched says, once, that the node had been given a snapshot.
func (p *peer) takeFetched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	had := p.fetched
	p.fetched = false
	return had
}

// park answers now or when there is something, at the latest after wait. An older poll of the node is answered: nobody
// waits for it any more.
func (p *peer) park(c clock.Clock, wait time.Duration, respond func(*protocol.RaftResponse)) {
	p.mu.Lock()
	older := p.parked
	p.parked = nil
	ready := p.fetchLocked()
	if len(ready) == 0 {
		mine := &poll{respond: respond}
		mine.timer = c.AfterFunc(wait, func() { p.expire(mine) })
		p.parked = mine
	}
	p.mu.Unlock()
	if older != nil {
		older.timer.Stop()
		older.respond(&protocol.RaftResponse{})
	}
	if len(ready) > 0 {
		respond(&protocol.RaftResponse{MessageFrames: framesOf(ready)})
	}
}

func (p *peer) expire(which *poll) {
	p.mu.Lock()
	due := p.parked == which
	if due {
		p.parked = nil
	}
	p.mu.Unlock()
	if due {
		which.respond(&protocol.RaftResponse{})
	}
}

// outage logs the loss of a node and its return, once each: nodes that start or stop together miss each other for a
// moment, and that is no news.
type outage struct {
	since  time.Time // zero: the node is reached
	logged bool
}

func (o *outage) note(of PeersOptions, id int32, err error) {
	now := of.Clock.Now()
	if o.since.IsZero() {
		o.since = now
	}
	if !o.logged && now.Sub(o.since) >= loggedOutage {
		o.logged = true
		of.Logger.Warn().Err(err).Int32("node", id).Msg("a node of the metadata quorum cannot be reached")
	}
}

func (o *outage) over(of PeersOptions, id int32) {
	o.since = time.Time{}
	if o.logged {
		o.logged = false
		of.Logger.Info().Int32("node", id).Msg("a node of the metadata quorum is reached again")
	}
}
