package controller

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/clock"
)

// decider is the active controller while this node leads. pending is the image with everything decided, committed or
// not: decisions see their predecessors at once, answers wait for the commit.
type decider struct {
	n        *Node
	lead     raftlog.Leader
	pending  *metadata.Image // nil while not leading
	index    *partitionIndex // of pending
	touched  []string        // topics with decided records that are not appended yet
	written  int64           // the end of what this leadership has appended
	sessions *sessions
	expiry   clock.Timer
	expired  chan struct{}
	rounds   []*round
	alarm    clock.Timer // of the first round; nil: none is set
	due      chan struct{}
	hush     clock.Timer // of the first broker to be quiet; nil: none is set
	hushed   chan struct{}
	sweep    clock.Timer // of expired delegation tokens; nil: none is set
	swept    chan struct{}
	tokens   *tokens
	probes   probing
}

func newDecider(n *Node) *decider {
	return &decider{
		n: n, expired: make(chan struct{}, 1), rounds: newRounds(&n.o), due: make(chan struct{}, 1), hushed: make(chan struct{}, 1), swept: make(chan struct{}, 1), probes: probing{running: map[int32]int{}},
	}
}

func (d *decider) run() {
	defer d.retire(ErrStopped)
	for {
		ops := d.n.ops
		if !d.ready() {
			ops = nil
		}
		select {
		case <-d.n.ctx.Done():
			return
		case <-d.n.leaders:
			d.onLeader(d.n.lead.Load().Leader)
		case first := <-ops:
			d.serve(first)
		case <-d.expired:
			d.serveQueued() // a heartbeat may wait among them
			d.fenceExpired()
		case <-d.due:
			d.holdRounds()
		case <-d.hushed:
			d.suspectQuiet()
		case <-d.swept:
			d.removeExpiredTokens()
		case id := <-d.n.suspicions:
			d.suspect(id)
		case v := <-d.n.verdicts:
			d.conclude(v)
		}
	}
}

// ready says whether a request can be served or refused now. It has to wait while nobody leads, while this node leads
// but has not applied its predecessors' records, and while too many answers wait for their commit; the applier pokes
// leaders.
func (d *decider) ready() bool {
	l := d.n.lead.Load()
	return d.pending != nil && d.n.waiting.len() < queuedOps || l.NodeID != -1 && l.NodeID != d.n.o.NodeID
}

// onLeader takes office once the image has everything that was decided before, and leaves it when another leads.
func (d *decider) onLeader(l raftlog.Leader) {
	if l != d.lead {
		d.retire(ErrNotController)
		d.lead, d.written = l, 0
	}
	im := d.n.Image()
	if l.Start < 0 || d.pending != nil || im.Offset() < l.Start || im.Offset() < d.written-1 {
		return
	}
	d.pending, d.index = im, newPartitionIndex(im)
	d.tokens = newTokens(d.n.o.Config)
	d.sessions = newSessions(d.n.o.Config.Int("broker.session.timeout.ms"))
	for b := range im.Brokers() {
		if !b.Fenced {
			d.sessions.touch(b.ID, d.n.o.Clock.Now())
		}
		if b.InControlledShutdown {
			d.sessions.leave(b.ID)
		}
	}
	d.sessions.appended(im.Offset() + 1) // what the controller before took from brokers that stop
	d.n.office.Store(&office{d.n.o.Clock.Now(), d.n.predecessor.Load()})
	d.armExpiry()
	d.armQuiet()
	d.armTokens()
	if records := d.bootstrap(); len(records) > 0 {
		_ = d.propose(records) // refused: another leads now, which does the same
	}
	for b := range im.Brokers() {
		d.suspect(b.ID) // whatever made this node the controller may have hit a broker, too
	}
}

func (d *decider) retire(err error) {
	if d.pending == nil {
		return
	}
	d.pending, d.index, d.touched, d.sessions, d.tokens = nil, nil, nil, nil, nil
	for _, timer := range []*clock.Timer{&d.expiry, &d.alarm, &d.hush, &d.sweep} {
		if *timer != nil {
			(*timer).Stop()
			*timer = nil
		}
	}
	d.n.waiting.failAll(err)
}

// bootstrap are the first records of a new cluster.
func (d *decider) bootstrap() []metadata.Record {
	if d.pending.Feature(metadataVersionFeature) != 0 {
		return nil
	}
	var records []metadata.Record
	for _, f := range d.n.o.Features {
		if f.Default > 0 {
			records = append(records, &metadata.FeatureLevelRecord{Name: f.Name, Level: f.Default})
		}
		if f.Name == elrVersionFeature && f.Default > 0 {
			records = append(records, d.view(0).clusterWideMinISR()...)
		}
	}
	return append(records, d.n.o.Bootstrap...)
}

// serve decides first and whatever else waits, appends all their records, as few batches as may be, and leaves the
// answers to the applier.
func (d *decider) serve(first *op) {
	if d.pending == nil {
		first.reply <- outcome{err: ErrNotController}
		return
	}
	var made encoded
	var decided []waiter
	before := d.pending
	for o := first; o != nil; o = d.another(len(decided), made.bytes) {
		select {
		case <-o.gone:
			continue
		default:
		}
		values, response, err := d.decide(o, int64(len(made.values)))
		if err != nil {
			o.reply <- outcome{err: err}
			continue
		}
		if len(values.values) == 0 && d.settled(o.request) {
			o.reply <- outcome{response: response}
			continue
		}
		made.add(values)
		decided = append(decided, waiter{response: response, reply: o.reply})
	}
	err := d.append(before, made)
	for _, w := range decided {
		if err != nil {
			w.reply <- outcome{err: err}
			continue
		}
		w.end = d.pending.Offset() + 1
		d.n.waiting.add(w)
	}
	if d.pending != nil {
		d.armExpiry()
		d.armQuiet()
		d.armTokens()
		d.beginRounds()
	}
}

// settled says whether the answer to a heartbeat that changes nothing holds whatever becomes of the records under way.
// It need not wait for them: a broker that is busy applying what many partitions need is alive.
func (d *decider) settled(req kmsg.Request) bool {
	r, is := req.(*kmsg.BrokerHeartbeatRequest)
	if !is {
		return false
	}
	now, then := d.n.Image().Broker(r.BrokerID), d.pending.Broker(r.BrokerID)
	return now != nil && then != nil && now.Epoch == then.Epoch && stateOf(now) == stateOf(then)
}

// serveQueued serves the requests that wait, as far as they can be.
func (d *decider) serveQueued() {
	for range queuedOps {
		if !d.ready() {
			return
		}
		select {
		case o := <-d.n.ops:
			d.serve(o)
		default:
			return
		}
	}
}

// another takes a further waiting request into the batch while there is room.
func (d *decider) another(ops, bytes int) *op {
	if ops >= opsPerBatch || bytes >= bytesPerOp || d.n.waiting.len()+ops >= queuedOps {
		return nil
	}
	select {
	case o := <-d.n.ops:
		return o
	default:
		return nil
	}
}

// decide runs one request and lets pending have its records, which the log gets later.
func (d *decider) decide(o *op, ahead int64) (encoded, kmsg.Response, error) {
	v := d.view(ahead)
	v.principal = o.principal
	records, response, err := v.decide(o.request)
	if err != nil {
		return encoded{}, nil, err
	}
	made := encode(records)
	if made.bytes > bytesPerOp && len(made.cuts) == 0 {
		return encoded{}, nil, fmt.Errorf("a request that makes %d bytes of metadata: %w", made.bytes, kerr.PolicyViolation)
	}
	if err := d.advance(records); err != nil {
		d.n.o.Logger.Error().Err(err).Int16("key", o.request.Key()).Msg("a decision does not fit the metadata it was made on")
		return encoded{}, nil, err
	}
	return made, response, nil
}

// advance has pending and its index follow decided records.
func (d *decider) advance(records []metadata.Record) error {
	next, delta, err := d.pending.Apply(records, d.pending.Offset(), d.lead.Epoch)
	if err != nil {
		return err
	}
	d.index.follow(d.pending, next, delta.Topics)
	d.pending, d.touched = next, append(d.touched, delta.Topics...)
	return nil
}

// retreat makes pending what it was before the records that cannot be appended.
func (d *decider) retreat(before *metadata.Image) {
	d.index.follow(d.pending, before, d.touched)
	d.pending, d.touched = before, nil
}
