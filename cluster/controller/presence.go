package controller

import (
	"context"
	"time"

	"grete/internal/clock"
	"grete/internal/sched"
)

// presence is which brokers hold the connection that their heartbeats come in on. It takes no part in decisions about
// metadata: a broker that is present is not asked whether it lives, and one whose connection has ended is.
type presence struct {
	onEnd func(id int32)
	clock clock.Clock

	mu sched.Mutex
	by map[int32]*connection // of brokers that a heartbeat was accepted of, so no more than are registered
}

type connection struct {
	ctx    context.Context
	forget func() bool // stops the wait for its end
	at     time.Time   // of the last heartbeat
}

func newPresence(c clock.Clock, onEnd func(id int32)) *presence {
	return &presence{onEnd: onEnd, clock: c, by: map[int32]*connection{}}
}

// heard notes that a heartbeat of broker id came in on a connection whose context is ctx.
func (p *presence) heard(id int32, ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.by[id]
	if old != nil && old.ctx == ctx {
		old.at = p.clock.Now()
		return
	}
	if old != nil {
		old.forget()
	}
	c := &connection{ctx: ctx, at: p.clock.Now()}
	c.forget = context.AfterFunc(ctx, func() {
		if p.last(id, c) {
			p.onEnd(id)
		}
	})
	p.by[id] = c
}

// last says whether c is still the newest connection of the broker.
func (p *presence) last(id int32, c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[id] == c
}

// at is when the last heartbeat of a broker came, zero when none has.
func (p *presence) at(id int32) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.by[id]; c != nil {
		return c.at
	}
	return time.Time{}
}

// of says whether a broker was ever heard, and whether its connection stands.
func (p *presence) of(id int32) (heard, connected bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.by[id]
	return c != nil, c != nil && c.ctx.Err() == nil
}

// lost says whether the connection of a broker that was heard has ended.
func (p *presence) lost(id int32) bool {
	heard, connected := p.of(id)
	return heard && !connected
}

// close waits for nobody, and nobody is told any more.
func (p *presence) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.by {
		c.forget()
	}
	clear(p.by)
}
