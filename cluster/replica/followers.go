package replica

import (
	"slices"

	"grete/cluster/metadata"
	"grete/internal/clock"
)

// follower is what a leader knows of another replica, since its leadership began. Guarded by Partition.mu.
type follower struct {
	id          int32
	end         int64 // the offset it fetched last: it has everything below; -1: it has not fetched yet
	logStart    int64 // of its log, as its fetches say
	brokerEpoch int64 // as its fetches say, -1 unknown
	caughtUpMs  int64 // when it last had all that the leader had
	// fetchedMs and leaderEnd are the time of its last fetch and the leader's end then: who fetches from there next
	// was caught up at that time.
	fetchedMs, leaderEnd int64
}

// resetFollowers begins with what the image says of s, which follows old; a continued leadership keeps what it knows. A
// follower that has left the ISR was fenced, has no room, or lags: it has to catch up anew before the high watermark
// waits for it. p.mu is held.
func (p *Partition) resetFollowers(s, old *state, continued bool) {
	if !s.leads(p.nodeID) {
		p.followers = nil
		return
	}
	var next []*follower
	for _, id := range s.replicas {
		if id == p.nodeID {
			continue
		}
		f := p.follower(id)
		if f == nil || !continued {
			f = &follower{id: id, end: -1, logStart: -1, brokerEpoch: -1}
			if slices.Contains(s.isr, id) {
				f.caughtUpMs = clock.Millis(p.clock)
			}
		}
		if continued && slices.Contains(old.isr, id) && !slices.Contains(s.isr, id) {
			f.caughtUpMs = neverCaughtUp
		}
		next = append(next, f)
	}
	p.followers = next
}

// neverCaughtUp is long ago.
const neverCaughtUp = 0

func (p *Partition) follower(id int32) *follower {
	for _, f := range p.followers {
		if f.id == id {
			return f
		}
	}
	return nil
}

// caughtUp is Kafka's Replica.isCaughtUp.
func (f *follower) caughtUp(leaderEnd, nowMs, lagMaxMs int64) bool {
	return f.end == leaderEnd || nowMs-f.caughtUpMs <= lagMaxMs
}

// FollowerFetch is what a follower's fetch tells its leader.
type FollowerFetch struct {
	ReplicaID   int32
	BrokerEpoch int64 // -1 unknown
	Offset      int64 // it has everything below
	LogStart    int64 // where its log begins
	LeaderEpoch int32 // of the Read that served it
	LeaderEnd   int64 // of that Read
}

// Followed takes note of a fetch that was served: the follower's log agrees with this one below its offset. It moves
// the high watermark, and asks for the follower to join the in-sync replicas when it may. A fetch of another leadership
// says nothing.
func (p *Partition) Followed(fetch FollowerFetch) error {
	p.mu.Lock()
	s := p.state.Load()
	f := p.follower(fetch.ReplicaID)
	if f == nil || s.leaderEpoch != fetch.LeaderEpoch {
		p.mu.Unlock()
		return nil
	}
	if fetch.BrokerEpoch >= 0 && fetch.BrokerEpoch < p.brokers.epoch(f.id) { // KIP-903: a life that is over
		p.mu.Unlock()
		return p.fail(ErrNotLeader)
	}
	moved := f.logStart != fetch.LogStart
	f.fetched(fetch, clock.Millis(p.clock))
	moved = p.advance(s) || moved
	change := p.expand(s, f)
	p.mu.Unlock()
	if moved {
		p.wake()
	}
	p.ask(change)
	return nil
}

func (f *follower) fetched(fetch FollowerFetch, nowMs int64) {
	switch {
	case fetch.Offset >= fetch.LeaderEnd:
		f.caughtUpMs = max(f.caughtUpMs, nowMs)
	case f.end >= 0 && fetch.Offset >= f.leaderEnd:
		f.caughtUpMs = max(f.caughtUpMs, f.fetchedMs)
	}
	f.end, f.logStart, f.brokerEpoch = fetch.Offset, fetch.LogStart, fetch.BrokerEpoch
	f.fetchedMs, f.leaderEnd = nowMs, fetch.LeaderEnd
}

// advance moves the high watermark to what all in-sync replicas have, those that are asked to be included, and reports
// whether it moved; p.mu is held. A replica that has caught up is waited for even before: it will be in sync any moment
// (Partition.maybeIncrementLeaderHW). Below min.insync.replicas it stands still (KIP-966).
func (p *Partition) advance(s *state) bool {
	if !s.leads(p.nodeID) || len(s.isr) < s.minISR() {
		return false
	}
	logEnd := s.log.EndOffset()
	end := p.durableEnd(s.log)
	for _, f := range p.followers {
		if f.end < end && (s.mayBeInSync(f.id) || p.joining(f, logEnd)) {
			end = f.end
		}
	}
	if end <= s.log.HighWatermark() {
		return false
	}
	s.log.SetHighWatermark(end)
	return true
}

// mayBeInSync: of the committed ISR, or of the one that was asked for and may have been committed.
func (s *state) mayBeInSync(id int32) bool {
	return slices.Contains(s.isr, id) || slices.Contains(s.proposed, id)
}

func (p *Partition) joining(f *follower, logEnd int64) bool {
	return f.caughtUp(logEnd, clock.Millis(p.clock), p.brokers.lagMaxMs) && p.brokers.eligible(f)
}

// brokers answers what partitions ask about the other brokers of the cluster.
type brokers struct {
	image    func() *metadata.Image
	lagMaxMs int64 // replica.lag.time.max.ms
	// rackAware: replica.selector.class is Kafka's RackAwareReplicaSelector.
	rackAware bool
}

func (b *brokers) epoch(id int32) int64 {
	if r := b.image().Broker(id); r != nil {
		return r.Epoch
	}
	return -1
}

// alive: registered and not fenced.
func (b *brokers) alive(id int32) bool {
	r := b.image().Broker(id)
	return r != nil && !r.Fenced
}

// eligible says whether the follower's broker may be in an ISR, in the life that fetched last
// (Partition.isReplicaIsrEligible).
func (b *brokers) eligible(f *follower) bool {
	r := b.image().Broker(f.id)
	return r != nil && r.Active() && (f.brokerEpoch == -1 || f.brokerEpoch == r.Epoch)
}
