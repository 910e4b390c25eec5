// Package replica is this broker's side of its partitions: who leads them at which epoch, appends as leader, the
// in-sync replicas and the high watermark, fetching as a follower, reads under epochs and isolation, and the requests
// parked until one of these moves.
//
// Locks: Manager.mu → Partition.mu → logstore.Log; waiters.mu is a leaf. No callback runs under any of them.
package replica

import (
	"sync/atomic"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/metrics"
	"grete/internal/sched"
	"grete/logstore"
)

// Partition is one replica on this broker. An idle one is this struct, its state and its log: no goroutine, no timer.
type Partition struct {
	Topic   string
	TopicID metadata.UUID
	Index   int32

	nodeID    int32
	clock     clock.Clock
	brokers   *brokers
	alterer   *alterer
	assigner  *assigner
	stats     *metrics.TopicStats
	throttles *throttles
	lend      func(bytes int64) (back func())
	state     atomic.Pointer[state]
	wait      waiters
	// future is the copy that will take the log's place; changed under mu and Manager.applyMu, or by the mover.
	future atomic.Pointer[logstore.Log]

	// mu orders appends, truncations, changes of state and movement of the high watermark.
	mu        sched.Mutex
	flush     flushState
	followers []*follower      // while this broker leads
	cuts      int              // truncations since the start
	damage    *logstore.Damage // where the log has lost records; nil: nowhere
	lacks     int              // appends as a follower, one after the other, that found no space or no descriptor
}

// state is what readers see of a partition; it is replaced, never changed.
type state struct {
	leader                      int32
	leaderEpoch, partitionEpoch int32
	replicas, isr               []int32       // the image's
	directory                   metadata.UUID // that the image has for this replica
	proposed                    []int32       // ISR that was asked for, and may be committed or not; nil: none
	reassigning                 bool
	factor                      int   // replicas, without those that a reassignment adds
	epochStart                  int64 // log end when this broker's leadership began
	ledSince                    int32 // leader epoch since which this broker has led without an end; of a leader
	log                         *logstore.Log
	config                      *TopicConfig
	offline                     error // the log cannot be used
}

func (p *Partition) fail(err error) error {
	return &Error{Topic: p.Topic, Partition: p.Index, Err: err}
}

// Log is the partition's log; nil while its directory is offline.
func (p *Partition) Log() *logstore.Log { return p.state.Load().log }

// Config is the topic's effective configuration as this broker uses it.
func (p *Partition) Config() *TopicConfig { return p.state.Load().config }

// IsLeader says whether this broker leads.
func (p *Partition) IsLeader() bool { return p.state.Load().leader == p.nodeID }

// Leader is who leads, -1 when nobody does, and its epoch, as far as this broker knows.
func (p *Partition) Leader() (id, epoch int32) {
	s := p.state.Load()
	return s.leader, s.leaderEpoch
}

// LeaderEpoch is that of the leadership which this broker knows of.
func (p *Partition) LeaderEpoch() int32 { return p.state.Load().leaderEpoch }

// Offline is the error that keeps the log from being used, or nil.
func (p *Partition) Offline() error { return p.state.Load().offline }

// inSync is how many replicas are, where a shrinking of the ISR that nobody decides, for want of a controller, counts
// as done.
func (s *state) inSync() int {
	if s.proposed != nil {
		return min(len(s.isr), len(s.proposed))
	}
	return len(s.isr)
}

// minISR is min.insync.replicas capped at the number of replicas, as KRaft does.
func (s *state) minISR() int { return min(s.config.MinInsyncReplicas, len(s.replicas)) }

// NoEpoch is a leader epoch that a request leaves open.
const NoEpoch = int32(-1)

// check returns the state when the partition can serve a request that names epoch (NoEpoch: any), in Kafka's order
// of complaints (Partition.getLocalLog).
func (p *Partition) check(epoch int32, leaderOnly bool) (*state, error) {
	s := p.state.Load()
	switch {
	case s.offline != nil:
		return nil, p.fail(s.offline)
	case epoch != NoEpoch && epoch < s.leaderEpoch:
		return nil, p.fail(ErrFencedLeaderEpoch)
	case epoch != NoEpoch && epoch > s.leaderEpoch:
		return nil, p.fail(ErrUnknownLeaderEpoch)
	case leaderOnly && s.leader != p.nodeID:
		return nil, p.fail(ErrNotLeader)
	}
	return s, nil
}

// leadership is what a new state meant for this broker's leadership.
type leadership int

const (
	unchanged leadership = iota
	gained               // or renewed at another epoch
	lost
)

// become installs what the image says; parked requests have been told when it returns.
func (p *Partition) become(m metadata.Partition, log *logstore.Log, config *TopicConfig, offline error) (leadership, error) {
	p.mu.Lock()
	old := p.state.Load()
	s := &state{
		leader: m.Leader, leaderEpoch: m.LeaderEpoch, partitionEpoch: m.PartitionEpoch,
		replicas: m.Replicas, isr: m.ISR, directory: m.Directory(p.nodeID), log: log,
		reassigning: len(m.Adding)+len(m.Removing) > 0, factor: len(m.Replicas) - len(m.Adding), config: config, offline: offline,
	}
	change, err := s.succeed(old, p.nodeID)
	p.resetFollowers(s, old, change == unchanged && old != nil)
	p.state.Store(s)
	due := p.succeedFlush(s, change)
	p.advance(s)
	p.mu.Unlock()
	p.startFlush(due)
	if change == lost {
		p.failAcks(p.lostLeadership(s))
	}
	p.wake()
	return change, err
}

// succeedFlush ends what a leadership of before waited for. What a new leader has of others' records may count for as
// little as its own until it is durable. p.mu is held.
func (p *Partition) succeedFlush(s *state, change leadership) *flush {
	if change == unchanged && s.leads(p.nodeID) {
		return nil
	}
	p.flush.reset()
	if s.leads(p.nodeID) && s.owesFlush() {
		return p.flushDue(s.log, s.log.DurableOffset(), s.log.EndOffset())
	}
	return nil
}

// succeed compares s with the state before it (nil: none) and begins a new leadership in the log if there is one.
func (s *state) succeed(old *state, nodeID int32) (leadership, error) {
	led := old != nil && old.leads(nodeID)
	if s.ledSince = s.leaderEpoch; led {
		s.ledSince = old.ledSince
	}
	if led && s.leads(nodeID) && old.leaderEpoch == s.leaderEpoch {
		s.epochStart = old.epochStart
		if s.partitionEpoch == old.partitionEpoch {
			s.proposed = old.proposed
		}
		return unchanged, nil
	}
	if s.leads(nodeID) {
		s.epochStart = s.log.EndOffset()
		if s.log.LatestEpoch() >= s.leaderEpoch {
			return gained, nil
		}
		err := s.log.AssignEpoch(s.leaderEpoch)
		if err == nil {
			return gained, nil
		}
		s.offline = offlineError(err)
		if led {
			return lost, err
		}
		return unchanged, err
	}
	if led {
		return lost, nil
	}
	return unchanged, nil
}

// stillLeads says whether the leadership of epoch, or one that renewed it without an end between, goes on.
func (s *state) stillLeads(nodeID, epoch int32) bool { return s.leads(nodeID) && epoch >= s.ledSince }

func (s *state) leads(nodeID int32) bool { return s.leader == nodeID && s.offline == nil }

// markOffline makes every request on the partition fail with err from now on.
func (p *Partition) markOffline(err error) {
	p.mu.Lock()
	s := *p.state.Load()
	if s.offline == nil {
		s.offline = err
		p.state.Store(&s)
	}
	p.mu.Unlock()
	p.failAcks(p.fail(err))
	p.wake()
}

// remove detaches the partition, which is no longer on this broker: why is what requests on it fail with.
func (p *Partition) remove(why error) (wasLeader bool) {
	p.mu.Lock()
	s := *p.state.Load()
	wasLeader = s.leads(p.nodeID)
	s.leader, s.offline = -1, why
	p.state.Store(&s)
	p.mu.Unlock()
	p.failAcks(p.fail(why))
	p.wake()
	return wasLeader
}

// configure installs a new configuration.
func (p *Partition) configure(c *TopicConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := *p.state.Load()
	s.config = c
	p.state.Store(&s)
	if s.log != nil {
		s.log.Configure(c.Log)
	}
}

// wake releases acknowledgements that are due and tells watchers to look again.
func (p *Partition) wake() {
	p.releaseAcks()
	p.wait.wakeWatches()
}
