package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
	"grete/internal/sched"
)

// fetcher fetches partitions from one leader, over one connection and one fetch session, on one goroutine.
type fetcher struct {
	o      Options
	key    fetcherKey
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{} // holds one: partitions have changed, or a pause is over

	mu       sched.Mutex
	parts    map[partitionKey]*followedPartition
	unasked  bool   // partitions were added that the call under way does not ask for
	hurry    func() // gives up the call under way, nil when there is none
	hurried  time.Time
	hurrying bool // a timer to hurry is set

	// The goroutine's own.
	peer     Peer
	session  fetchSession
	failures int // of calls, one after the other
}

// followedPartition is a partition of a fetcher, under one leadership.
type followedPartition struct {
	*Partition
	epoch    int32
	failures int
	notUntil time.Time
	lag      atomic.Int64 // how far its end is behind the leader's high watermark, as of the last answer
}

// unknownLag: nothing was fetched yet in this leadership.
const unknownLag = -1

// Pauses after failures double from the first to replica.fetch.backoff.ms: a leader that has not heard of its
// leadership yet will have in a moment, one that is dead is replaced before long.
const firstBackoff = 20 * time.Millisecond

func (f *fetcher) backoff(failures int) time.Duration {
	longest := time.Duration(f.o.Replication.Fetch.BackoffMs) * time.Millisecond
	return min(firstBackoff<<min(failures, 16), longest)
}

// A call that waits at the leader while partitions were added is given up after hurryAfter, but not more often than
// every hurryEvery: waiting out replica.fetch.wait.max.ms would keep writes to a new leader that long from being
// acknowledged.
const (
	hurryAfter = 2 * time.Millisecond
	hurryEvery = 100 * time.Millisecond
)

// tellAfter failures of a partition its failing is worth a line: until then leader and follower have not heard of the
// same metadata yet, and after an election all partitions of a broker say so. A follower that has found no room for its
// records so often leaves the ISR.
const tellAfter = 3

func newFetcher(o Options, key fetcherKey) *fetcher {
	f := &fetcher{o: o, key: key, wake: make(chan struct{}, 1), parts: map[partitionKey]*followedPartition{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// add has p fetched as a follower of epoch; one that is fetched so already goes on undisturbed.
func (f *fetcher) add(p *Partition, epoch int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := partitionKey{p.TopicID, p.Index}
	if old := f.parts[key]; old != nil && old.epoch == epoch {
		return
	}
	f.parts[key] = &followedPartition{Partition: p, epoch: epoch}
	f.parts[key].lag.Store(unknownLag)
	f.unasked = true
	f.planHurry()
	poke(f.wake)
}

// remove reports whether no partition is left.
func (f *fetcher) remove(p *Partition) (empty bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.parts, partitionKey{p.TopicID, p.Index})
	return len(f.parts) == 0
}

// planHurry sets the timer; f.mu is held.
func (f *fetcher) planHurry() {
	if f.hurry == nil || f.hurrying {
		return
	}
	f.hurrying = true
	wait := max(hurryAfter, hurryEvery-f.o.Clock.Now().Sub(f.hurried))
	f.o.Clock.AfterFunc(wait, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hurrying = false
		if f.unasked && f.hurry != nil {
			f.hurried = f.o.Clock.Now()
			f.hurry()
		}
	})
}

// run is the fetcher's goroutine.
func (f *fetcher) run() {
	defer f.disconnect()
	for f.ctx.Err() == nil {
		parts, wait := f.due()
		if len(parts) == 0 {
			f.sleep(wait)
			continue
		}
		if err := f.round(parts); err != nil {
			f.failed(err)
			continue
		}
		f.failures = 0
	}
}

// due are the partitions to fetch now; without any, wait is how long until there is one, 0 for ever.
func (f *fetcher) due() (parts map[partitionKey]*followedPartition, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.o.Clock.Now()
	parts = make(map[partitionKey]*followedPartition, len(f.parts))
	for key, p := range f.parts {
		left := max(p.notUntil.Sub(now), p.throttledFor())
		if left <= 0 {
			parts[key] = p
		} else if wait == 0 || left < wait {
			wait = left
		}
	}
	f.unasked = false
	return parts, wait
}

func (f *fetcher) sleep(d time.Duration) {
	if d > 0 {
		timer := f.o.Clock.AfterFunc(d, func() { poke(f.wake) })
		defer timer.Stop()
	}
	await(f.ctx, f.wake)
}

var errHurried = errors.New("partitions were added")

// failed gives up the connection, and waits before the next unless the call was given up on purpose.
func (f *fetcher) failed(err error) {
	f.disconnect()
	if f.ctx.Err() != nil || errors.Is(err, errHurried) {
		return
	}
	if f.failures == 0 {
		f.o.Log.Info().Err(err).Int32("leader", f.key.leader).Int("fetcher", f.key.number).Msg("fetching from the leader fails")
	}
	_ = clock.Pause(f.ctx, f.o.Clock, f.backoff(f.failures))
	f.failures++
}

func (f *fetcher) disconnect() {
	if f.peer != nil {
		_ = f.peer.Close()
		f.peer = nil
	}
	f.session.lost()
}

// round is one fetch of parts.
func (f *fetcher) round(parts map[partitionKey]*followedPartition) error {
	wanted := f.positions(parts)
	req := f.session.request(f.o, wanted)
	f.shorten(req, wanted)
	answer, err := f.call(req, true)
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.FetchResponse)
	switch kerr.TypedErrorForCode(resp.ErrorCode) {
	case nil:
		f.session.accepted(resp.SessionID)
		return f.take(parts, resp)
	case kerr.FetchSessionIDNotFound, kerr.InvalidFetchSessionEpoch, kerr.FetchSessionTopicIDError:
		f.session.lost()
		return nil
	}
	return fmt.Errorf("fetch: %w", kerr.ErrorForCode(resp.ErrorCode))
}

// shorten has the leader answer when the next partition is due that is not asked for: its pause is shorter than the
// leader may wait.
func (f *fetcher) shorten(req *kmsg.FetchRequest, wanted map[partitionKey]position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.o.Clock.Now()
	for key, p := range f.parts {
		if _, asked := wanted[key]; !asked {
			left := max(p.notUntil.Sub(now), 0)
			req.MaxWaitMillis = min(req.MaxWaitMillis, int32(left.Milliseconds())+1)
		}
	}
}

// positions is where the fetch of each partition begins. One that follows no more is left out: it will be removed or
// added anew. One that owes a flush is asked for after it; should the flush fail, the leader is told nothing of the
// partition until another succeeds.
func (f *fetcher) positions(parts map[partitionKey]*followedPartition) map[partitionKey]position {
	out := make(map[partitionKey]position, len(parts))
	owing := map[partitionKey]*followedPartition{}
	for key, p := range parts {
		switch at, err := p.position(p.epoch); {
		case err == nil:
			out[key] = at
		case errors.Is(err, errNotDurable):
			owing[key] = p
		default:
			f.delay(p, err)
		}
	}
	flushAll(owing)
	for key, p := range owing {
		at, err := p.position(p.epoch)
		if err != nil {
			f.delay(p, err)
			continue
		}
		out[key] = at
	}
	return out
}

// flushAll returns when the flushes of all partitions have ended.
func flushAll(parts map[partitionKey]*followedPartition) {
	var flushes sync.WaitGroup
	for _, p := range parts {
		if log := p.Log(); log != nil {
			flushes.Add(1)
			log.FlushAsync(log.EndOffset(), func(error) { flushes.Done() }) // position tells whether it succeeded
		}
	}
	flushes.Wait()
}

// call sends req, on a new connection when there is none. mayHurry: it may wait at the leader.
func (f *fetcher) call(req kmsg.Request, mayHurry bool) (kmsg.Response, error) {
	ctx, cancel := clock.WithTimeout(f.ctx, f.o.Clock, time.Duration(f.o.Replication.Fetch.SocketTimeoutMs)*time.Millisecond)
	defer cancel()
	if f.peer == nil {
		peer, err := f.o.Replication.Dial(ctx, f.key.leader)
		if err != nil {
			return nil, err
		}
		f.peer = peer
	}
	if !mayHurry {
		return f.peer.Call(ctx, req)
	}
	ctx, hurry := context.WithCancelCause(ctx)
	defer hurry(nil)
	f.setHurry(func() { hurry(errHurried) })
	defer f.setHurry(nil)
	resp, err := f.peer.Call(ctx, req)
	if err != nil && errors.Is(context.Cause(ctx), errHurried) {
		err = errHurried
	}
	return resp, err
}

// setHurry makes the call under way one that can be given up; what was added since its request was made counts.
func (f *fetcher) setHurry(hurry func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hurry = hurry
	if hurry != nil && f.unasked {
		f.planHurry()
	}
}

// delay keeps a partition from being fetched for a while.
func (f *fetcher) delay(p *followedPartition, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.failures == tellAfter {
		f.o.Log.Info().Err(err).Str("topic", p.Topic).Int32("partition", p.Index).Int32("leader", f.key.leader).Msg("fetching the partition fails")
	}
	p.notUntil = f.o.Clock.Now().Add(f.backoff(p.failures))
	p.failures++
}
