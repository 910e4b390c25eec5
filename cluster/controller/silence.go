package controller

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"grete/internal/clock"
)

const (
	// silenceRounds of probes that nobody answers, one after the other, prove that a machine is silent; the last ends
	// when the patience does.
	silenceRounds = 4
	// maxSilenceRounds are made by one probe; a broker that is quiet still is suspected again.
	maxSilenceRounds = 12
	// suspectAgainAfter is how soon a broker is probed again that is quiet, and was not proven to be silent.
	suspectAgainAfter = 500 * time.Millisecond
	// witnessTimeout is for a witness to be asked, to probe, and to answer.
	witnessTimeout = 2 * probeTimeout
	// witnessesNeeded are the nodes, this one included, that at least must not reach a broker.
	witnessesNeeded = 2
)

// office is when this node became the active controller, and who was it before: that node it has heard until the end.
type office struct {
	since       time.Time
	predecessor int32
}

// silencePatience is broker.silence.patience.ms; 0: silence proves nothing.
func (n *Node) silencePatience() time.Duration {
	if n.o.Witness == nil || n.o.Probe == nil {
		return 0
	}
	return time.Duration(n.o.Config.Int("broker.silence.patience.ms")) * time.Millisecond
}

// lastHeard is when anything came from a broker to this node. Before its office only the leader of that time had reason
// to send it something.
func (n *Node) lastHeard(id int32) time.Time {
	at := n.presence.at(id)
	if raft := n.raft.Heard(id); raft.After(at) {
		at = raft
	}
	if o := n.office.Load(); at.IsZero() || id != o.predecessor && at.Before(o.since) {
		at = o.since
	}
	return at
}

// quietAt is when a broker that says nothing is probed for silence, so that the last round ends with the patience.
func (n *Node) quietAt(id int32) time.Time {
	patience := n.silencePatience()
	return n.lastHeard(id).Add(max(patience-silenceRounds*probeTimeout, patience/2))
}

func (n *Node) quiet(id int32) bool {
	return n.silencePatience() > 0 && !n.o.Clock.Now().Before(n.quietAt(id))
}

// untilQuiet is the time until then, at most d.
func (n *Node) untilQuiet(id int32, d time.Duration) time.Duration {
	if n.silencePatience() <= 0 {
		return d
	}
	return max(0, min(d, n.quietAt(id).Sub(n.o.Clock.Now())))
}

// unheard is how long nothing has come from a broker.
func (n *Node) unheard(id int32) time.Duration { return n.o.Clock.Now().Sub(n.lastHeard(id)) }

// overdue: nobody has heard the broker for longer than the patience, gossip included.
func (n *Node) overdue(id int32) bool {
	return n.unheard(id) >= n.silencePatience() && n.o.Unseen(id)
}

// armQuiet sets the alarm for the first broker to become quiet. It is set when a broker is unfenced and when it rings,
// as the alarm of sessions.
func (d *decider) armQuiet() {
	if d.pending == nil || d.hush != nil || d.n.silencePatience() <= 0 {
		return
	}
	var first time.Time
	now := d.n.o.Clock.Now()
	for b := range d.pending.Brokers() {
		if b.Fenced || b.ID == d.n.o.NodeID {
			continue
		}
		at := d.n.quietAt(b.ID)
		if !at.After(now) {
			at = now.Add(suspectAgainAfter)
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if !first.IsZero() {
		d.hush = d.n.o.Clock.AfterFunc(first.Sub(now), func() { poke(d.hushed) })
	}
}

// suspectQuiet has the brokers probed that have said nothing for long.
func (d *decider) suspectQuiet() {
	d.hush = nil
	if d.pending == nil {
		return
	}
	for b := range d.pending.Brokers() {
		if d.n.quiet(b.ID) {
			d.suspect(b.ID)
		}
	}
	d.armQuiet()
}

// silence: in each of several rounds neither this node nor a majority of the other brokers reached the broker, which
// was not heard for longer than the patience. The caller has not reached it once.
func (p *probe) silence() proof {
	id, inARow := p.broker.ID, 1
	for range maxSilenceRounds {
		if p.n.ctx.Err() != nil || !p.n.quiet(id) {
			return none
		}
		inARow++
		if !p.unreached() {
			inARow = 0
		}
		if inARow < silenceRounds {
			continue
		}
		if left := p.n.silencePatience() - p.n.unheard(id); left < probeTimeout { // no time for another round
			_ = clock.Pause(p.n.ctx, p.n.o.Clock, left)
		}
		if p.n.overdue(id) {
			return ofSilence
		}
	}
	return none
}

// unreached is one round: this node probes the broker, and every other broker in service is asked to.
func (p *probe) unreached() bool {
	ctx, cancel := clock.WithTimeout(p.n.ctx, p.n.o.Clock, witnessTimeout)
	defer cancel()
	var asking sync.WaitGroup
	var silences atomic.Int32
	own := false
	asking.Go(func() { _ = clock.Pause(ctx, p.n.o.Clock, probeTimeout) }) // rounds that end at once would prove little
	asking.Go(func() { own = p.n.prober.ask(ctx, p.broker.Endpoints) == silent })
	others := p.others()
	for _, id := range others {
		if id == p.n.o.NodeID {
			continue
		}
		asking.Go(func() {
			if nothing, err := p.n.o.Witness(ctx, id, p.broker); err == nil && nothing {
				silences.Add(1)
			}
		})
	}
	asking.Wait()
	return own && enough(int(silences.Load()), len(others), slices.Contains(others, p.n.o.NodeID))
}

// enough says whether the witnesses that do not reach a broker, beside this node which does not either, are a majority
// of the other brokers. here: this node is one of those. A broker that only one node does not reach is not silent.
func enough(witnesses, others int, here bool) bool {
	brokers := witnesses
	if here {
		brokers++
	}
	return brokers > others/2 && witnesses+1 >= witnessesNeeded
}

// others are the brokers in service but the one that is probed.
func (p *probe) others() []int32 {
	var ids []int32
	for b := range p.n.Image().Brokers() {
		if !b.Fenced && b.ID != p.broker.ID {
			ids = append(ids, b.ID)
		}
	}
	return ids
}
