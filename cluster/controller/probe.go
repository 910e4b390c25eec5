package controller

import (
	"slices"
	"time"

	"grete/cluster/metadata"
	"grete/internal/clock"
)

// Bounds of probes.
const (
	maxProbes        = 16  // brokers that are probed at a time; others wait their turn
	queuedSuspicions = 256 // suspicions that wait for the decider; more are dropped, and the session fences
)

// probePauses are waited before the attempts of a probe. A process that has just been killed may accept for a moment
// more.
var probePauses = []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}

// refusalsNeeded makes sure of a broker that this controller has never heard: its listeners may be out of the
// controller's reach.
const refusalsNeeded = 3

// Suspect says that broker id may be dead: its connection was lost, or gossip does not see it any more. While this node
// leads, it probes the broker, and fences it when its machine says that nobody listens. A suspicion alone changes
// nothing.
func (n *Node) Suspect(id int32) {
	select {
	case n.suspicions <- id:
	default:
	}
}

// probing is the decider's knowledge of probes.
type probing struct {
	running map[int32]int // suspicions since the probe began, that one included
	waiting []int32       // no broker twice
}

// proof that a broker is dead.
type proof int

const (
	none      proof = iota
	ofRefusal       // its machine refuses connections
	ofSilence       // its machine answers nobody (silence.go)
)

// verdict is what a probe has found.
type verdict struct {
	id    int32
	epoch int64
	proof proof
}

// suspect begins a probe of a broker in service, or has it wait for its turn.
func (d *decider) suspect(id int32) {
	if d.pending == nil || d.n.o.Probe == nil || id == d.n.o.NodeID {
		return
	}
	b := d.pending.Broker(id)
	switch {
	case b == nil || b.Fenced:
		return
	case d.probes.running[id] > 0:
		d.probes.running[id]++
		return
	case len(d.probes.running) >= maxProbes:
		d.probes.wait(id)
		return
	}
	d.probes.running[id] = 1
	p := probe{n: d.n, broker: b}
	d.n.wg.Go(p.run)
}

func (p *probing) wait(id int32) {
	if !slices.Contains(p.waiting, id) {
		p.waiting = append(p.waiting, id)
	}
}

// conclude fences a broker that is dead, and begins the next probe: of the same broker when more came up against it
// meanwhile.
func (d *decider) conclude(v verdict) {
	again := d.probes.running[v.id] > 1 && v.proof == none
	delete(d.probes.running, v.id)
	if again {
		d.suspect(v.id)
	}
	if next := d.probes.waiting; len(next) > 0 {
		d.probes.waiting = next[1:]
		d.suspect(next[0])
	}
	if d.pending == nil || v.proof == none {
		return
	}
	b := d.pending.Broker(v.id)
	if b == nil || b.Epoch != v.epoch || b.Fenced || d.contradicted(v) {
		return
	}
	why := "fencing a broker that is dead: its machine refuses connections"
	if v.proof == ofSilence {
		why = "fencing a broker whose machine is silent: neither this node nor a majority of the other brokers reaches it"
	}
	d.n.o.Logger.Warn().Int32("broker", v.id).Stringer("unheard-for", d.n.unheard(v.id)).Msg(why)
	_ = d.propose(d.view(0).fence(b)) // refused: another controller does it
}

// contradicted: the broker was heard since.
func (d *decider) contradicted(v verdict) bool {
	if v.proof == ofSilence {
		return !d.n.overdue(v.id)
	}
	_, connected := d.n.presence.of(v.id)
	return connected
}

// probe asks a broker's machine whether the process is there.
type probe struct {
	n      *Node
	broker *metadata.Broker
}

func (p *probe) run() {
	v := verdict{p.broker.ID, p.broker.Epoch, p.proof()}
	select {
	case p.n.verdicts <- v:
	case <-p.n.ctx.Done():
	}
}

// proof asks a few times. A refusal counts while no connection of the broker stands, silence once it was not heard for
// long.
func (p *probe) proof() proof {
	refusals, said := 0, unsure
	for _, pause := range probePauses {
		if said == silent { // and it will be quiet soon
			pause = p.n.untilQuiet(p.broker.ID, pause)
		}
		if clock.Pause(p.n.ctx, p.n.o.Clock, pause) != nil {
			return none
		}
		heard, connected := p.n.presence.of(p.broker.ID)
		if connected && !p.n.quiet(p.broker.ID) {
			return none
		}
		switch said = p.n.prober.ask(p.n.ctx, p.broker.Endpoints); {
		case said == refused && !connected:
			if refusals++; heard || refusals == refusalsNeeded {
				return ofRefusal
			}
		case said == silent && p.n.quiet(p.broker.ID):
			return p.silence()
		}
	}
	return none
}
