package replica

import (
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
	"grete/internal/loglimit"
	"grete/internal/metrics"
	"grete/internal/sched"
)

// isrChange is a set of in-sync replicas that a leader asks the controller for. It stays proposed, and counts for the
// high watermark, until metadata of a later partition epoch or a refusal that rules out that it was committed.
type isrChange struct {
	p                           *Partition
	leaderEpoch, partitionEpoch int32
	grows                       bool
	isr                         []kmsg.AlterPartitionRequestTopicPartitionNewEpochISR
}

// expand proposes f for the ISR when it has all that is committed and all that came before this leadership; p.mu is
// held.
func (p *Partition) expand(s *state, f *follower) *isrChange {
	if s.proposed != nil || slices.Contains(s.isr, f.id) || f.end < s.log.HighWatermark() || f.end < s.epochStart || !p.brokers.eligible(f) {
		return nil
	}
	return p.propose(s, append(slices.Clone(s.isr), f.id))
}

// shrink asks for an ISR without those that have not caught up for replica.lag.time.max.ms.
func (p *Partition) shrink() {
	p.mu.Lock()
	change := p.shrinkLocked()
	p.mu.Unlock()
	p.ask(change)
}

func (p *Partition) shrinkLocked() *isrChange {
	s := p.state.Load()
	if s.proposed != nil || !s.leads(p.nodeID) {
		return nil
	}
	end, now := s.log.EndOffset(), clock.Millis(p.clock)
	var left []int32
	for _, id := range s.isr {
		if f := p.follower(id); f == nil || f.caughtUp(end, now, p.brokers.lagMaxMs) {
			left = append(left, id)
		}
	}
	if len(left) == len(s.isr) {
		return nil
	}
	return p.propose(s, left)
}

// propose installs the proposal, so that nothing is committed without the replicas in it from now on; p.mu is held.
func (p *Partition) propose(s *state, isr []int32) *isrChange {
	next := *s
	next.proposed = isr
	p.state.Store(&next)
	change := &isrChange{p: p, leaderEpoch: s.leaderEpoch, partitionEpoch: s.partitionEpoch, grows: len(isr) > len(s.isr)}
	for _, id := range isr {
		member := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		member.BrokerID, member.BrokerEpoch = id, -1
		if f := p.follower(id); f != nil {
			member.BrokerEpoch = f.brokerEpoch
		}
		change.isr = append(change.isr, member)
	}
	return change
}

// ask hands a proposal to the alterer; nil is none. No lock is held.
func (p *Partition) ask(change *isrChange) {
	if change != nil {
		p.alterer.submit(change)
	}
}

// stands says whether c is still what the partition proposes.
func (c *isrChange) stands() bool {
	s := c.p.state.Load()
	return s.proposed != nil && s.leaderEpoch == c.leaderEpoch && s.partitionEpoch == c.partitionEpoch
}

// withdraw ends a proposal that was certainly not committed, or that changed nothing.
func (c *isrChange) withdraw() {
	p := c.p
	p.mu.Lock()
	moved := false
	if c.stands() {
		next := *p.state.Load()
		next.proposed = nil
		p.state.Store(&next)
		moved = p.advance(&next)
	}
	p.mu.Unlock()
	if moved {
		p.wake()
	}
}

// AlterISR has the controller decide about the request, and returns once this broker's image has what came of it.
type AlterISR func(ctx context.Context, req *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error)

// alterer takes proposals to the controller: one request at a time, with all that gathered meanwhile. It queues at most
// one proposal per partition.
type alterer struct {
	nodeID      int32
	brokerEpoch func() int64
	alter       AlterISR
	clock       clock.Clock
	log         zerolog.Logger
	undecided   *loglimit.Limit // lines about requests that failed as a whole
	changes     *metrics.Replicas

	mu     sched.Mutex
	queued map[*Partition]*isrChange
	wake   chan struct{} // holds one
	task   task
}

func newAlterer(o Options) *alterer {
	return &alterer{
		nodeID: o.NodeID, brokerEpoch: o.Replication.BrokerEpoch, alter: o.Replication.Alter, clock: o.Clock, log: o.Log, changes: o.Changes,
		undecided: loglimit.New(o.Clock, undecidedLogEvery), queued: map[*Partition]*isrChange{}, wake: make(chan struct{}, 1),
	}
}

func (a *alterer) start() { a.task.start(a.run) }
func (a *alterer) stop()  { a.task.stop() }

// retryAlterAfter is the pause after a request that failed as a whole (Kafka's AlterPartitionManager).
const retryAlterAfter = 50 * time.Millisecond

// undecidedLogEvery is the time between two lines about requests that failed as a whole.
const undecidedLogEvery = 10 * time.Second

func (a *alterer) submit(c *isrChange) {
	a.mu.Lock()
	a.queued[c.p] = c
	a.mu.Unlock()
	poke(a.wake)
}

func (a *alterer) take() []*isrChange {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []*isrChange
	for p, c := range a.queued {
		delete(a.queued, p)
		if c.stands() {
			out = append(out, c)
		}
	}
	return out
}

// again queues a proposal once more, unless there is a newer one.
func (a *alterer) again(c *isrChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.queued[c.p] == nil {
		a.queued[c.p] = c
	}
}

func (a *alterer) run(ctx context.Context) {
	for await(ctx, a.wake) {
		changes := a.take()
		if len(changes) == 0 || a.send(ctx, changes) {
			continue
		}
		_ = clock.Pause(ctx, a.clock, retryAlterAfter)
		poke(a.wake)
	}
}

// send reports whether nothing has to be tried again.
func (a *alterer) send(ctx context.Context, changes []*isrChange) bool {
	resp, err := a.alter(ctx, a.request(changes))
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		a.undecided.Write(&a.log, zerolog.InfoLevel, func(line *zerolog.Event) {
			line.Err(err).Int("partitions", len(changes)).Msg("the controller did not decide about in-sync replicas; asking again")
		})
		for _, c := range changes {
			a.again(c)
		}
		return false
	}
	decisions := decisionsOf(resp)
	done := true
	for _, c := range changes {
		d, answered := decisions[partitionKey{c.p.TopicID, c.p.Index}]
		if answered {
			a.count(c, d)
		}
		if !answered || !c.decided(d) {
			a.again(c)
			done = false
		}
	}
	return done
}

// count is AlterPartitionListener.
func (a *alterer) count(c *isrChange, d decision) {
	switch {
	case d.code != 0:
		a.changes.FailedISRUpdates.Add(1)
	case d.partitionEpoch == c.partitionEpoch: // it was so already
	case c.grows:
		a.changes.ISRExpands.Add(1)
	default:
		a.changes.ISRShrinks.Add(1)
	}
}

// decided reports whether d settles the proposal. One that was, or may have been, committed stands until newer metadata
// comes.
func (c *isrChange) decided(d decision) bool {
	switch kerr.TypedErrorForCode(d.code) {
	case nil:
		if d.partitionEpoch == c.partitionEpoch { // it is so already
			c.withdraw()
		}
	case kerr.OperationNotAttempted, kerr.IneligibleReplica:
		c.withdraw()
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.FencedLeaderEpoch, kerr.InvalidUpdateVersion, kerr.InvalidRequest, kerr.NewLeaderElected:
	default:
		return false
	}
	return true
}

func (a *alterer) request(changes []*isrChange) *kmsg.AlterPartitionRequest {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version = req.MaxVersion()
	req.BrokerID, req.BrokerEpoch = a.nodeID, a.brokerEpoch()
	at := map[partitionKey]int{} // places of topics, by id and partition 0
	for _, c := range changes {
		key := partitionKey{id: c.p.TopicID}
		i, ok := at[key]
		if !ok {
			i = len(req.Topics)
			at[key] = i
			t := kmsg.NewAlterPartitionRequestTopic()
			t.TopicID = c.p.TopicID
			req.Topics = append(req.Topics, t)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, c.entry(req.BrokerID, req.BrokerEpoch))
	}
	return req
}

func (c *isrChange) entry(self int32, epoch int64) kmsg.AlterPartitionRequestTopicPartition {
	e := kmsg.NewAlterPartitionRequestTopicPartition()
	e.Partition, e.LeaderEpoch, e.PartitionEpoch = c.p.Index, c.leaderEpoch, c.partitionEpoch
	e.NewEpochISR = slices.Clone(c.isr)
	for i := range e.NewEpochISR {
		if e.NewEpochISR[i].BrokerID == self {
			e.NewEpochISR[i].BrokerEpoch = epoch
		}
	}
	return e
}

// decision is what the controller says about one partition.
type decision struct {
	code           int16
	partitionEpoch int32
}

func decisionsOf(resp *kmsg.AlterPartitionResponse) map[partitionKey]decision {
	out := map[partitionKey]decision{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out[partitionKey{t.TopidID, p.Partition}] = decision{p.ErrorCode, p.PartitionEpoch}
		}
	}
	return out
}
