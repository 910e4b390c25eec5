package raftlog

import (
	"sync"
	"time"

	"grete/internal/clock"
	"grete/protocol"
)

// peer is what waits for another node.
type peer struct {
	id      int32
	dialled bool          // has a goroutine; Peers.mu
	some    chan struct{} // holds one: there are messages
	lost    outage        // its goroutine's own

	mu     sync.Mutex
	queue  []outgoing
	bytes  int
	parked *poll // of a node that fetches
}

type outgoing struct {
	raw      []byte
	snapshot bool
}

// poll is a request that waits for messages.
type poll struct {
	respond func(*protocol.RaftResponse)
	timer   clock.Timer
}

func rawOf(messages []outgoing) [][]byte {
	raw := make([][]byte, len(messages))
	for i, m := range messages {
		raw[i] = m.raw
	}
	return raw
}

// push queues m or drops it, and answers who has asked for it.
func (p *peer) push(m outgoing) {
	p.mu.Lock()
	if len(p.queue) < queuedMessages && (p.bytes+len(m.raw) <= queuedBytes || len(p.queue) == 0) {
		p.queue = append(p.queue, m)
		p.bytes += len(m.raw)
	}
	parked, ready := p.parked, []outgoing(nil)
	if parked != nil {
		p.parked, ready = nil, p.takeLocked()
	}
	p.mu.Unlock()
	if parked == nil {
		p.poke()
		return
	}
	parked.timer.Stop()
	parked.respond(&protocol.RaftResponse{Messages: rawOf(ready)})
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
	n, bytes := 0, 0
	for n < len(p.queue) && (n == 0 || bytes+len(p.queue[n].raw) <= frameBytes) {
		bytes += len(p.queue[n].raw)
		n++
	}
	taken := p.queue[:n:n]
	p.queue, p.bytes = p.queue[n:], p.bytes-bytes
	return taken
}

// park answers now or when there is something, at the latest after wait. An older poll of the node is answered: nobody waits for it any more.
func (p *peer) park(c clock.Clock, wait time.Duration, respond func(*protocol.RaftResponse)) {
	p.mu.Lock()
	older := p.parked
	p.parked = nil
	ready := p.takeLocked()
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
		respond(&protocol.RaftResponse{Messages: rawOf(ready)})
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

// outage logs the loss of a node and its return, once each.
type outage struct{ lasting bool }

func (o *outage) note(of PeersOptions, id int32, err error) {
	if !o.lasting {
		o.lasting = true
		of.Logger.Warn().Err(err).Int32("node", id).Msg("a node of the metadata quorum cannot be reached")
	}
}

func (o *outage) over(of PeersOptions, id int32) {
	if o.lasting {
		o.lasting = false
		of.Logger.Info().Int32("node", id).Msg("a node of the metadata quorum is reached again")
	}
}
