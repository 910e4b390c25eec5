package replica

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"

	"grete/internal/metrics"
	"grete/internal/sched"
)

// fetchers has, per leader, as many fetchers as num.replica.fetchers says, each with its partitions and one connection.
type fetchers struct {
	o Options

	mu      sched.Mutex
	started bool
	byKey   map[fetcherKey]*fetcher
	of      map[*Partition]*fetcher
	running sync.WaitGroup
}

type fetcherKey struct {
	leader int32
	number int
}

func newFetchers(o Options) *fetchers {
	return &fetchers{o: o, byKey: map[fetcherKey]*fetcher{}, of: map[*Partition]*fetcher{}}
}

func (x *fetchers) start() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.started = true
}

// stop ends all fetchers and waits for them.
func (x *fetchers) stop() {
	x.mu.Lock()
	x.started = false
	for _, f := range x.byKey {
		f.cancel()
	}
	clear(x.byKey)
	clear(x.of)
	x.mu.Unlock()
	x.running.Wait()
}

// follow makes p be fetched from the leader that its state names, or not at all.
func (x *fetchers) follow(p *Partition) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.started {
		return
	}
	leader, epoch, follows := p.following()
	key := fetcherKey{leader, numberOf(p, x.o.Replication.Fetch.Fetchers)}
	was := x.of[p]
	if was != nil && (!follows || was.key != key) {
		delete(x.of, p)
		if was.remove(p) {
			was.cancel()
			delete(x.byKey, was.key)
		}
	}
	if !follows {
		return
	}
	f := x.byKey[key]
	if f == nil {
		f = newFetcher(x.o, key)
		x.byKey[key] = f
		x.running.Go(f.run)
	}
	x.of[p] = f
	f.add(p, epoch)
}

// Lags shows how far each partition is that is fetched from a leader, under Kafka's name of the thread that would.
func (m *Manager) Lags(yield func(metrics.LagState)) {
	m.fetchers.mu.Lock()
	running := slices.Collect(maps.Values(m.fetchers.byKey))
	m.fetchers.mu.Unlock()
	for _, f := range running {
		f.lags(yield)
	}
}

func (f *fetcher) lags(yield func(metrics.LagState)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := fmt.Sprintf("ReplicaFetcherThread-%d-%d", f.key.number, f.key.leader)
	for _, p := range f.parts {
		yield(metrics.LagState{Fetcher: name, Topic: p.Topic, Partition: strconv.Itoa(int(p.Index)), Lag: max(p.lag.Load(), 0)})
	}
}

func numberOf(p *Partition, fetchers int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.Topic))
	return int((h.Sum32()*31 + uint32(p.Index)) % uint32(max(fetchers, 1)))
}
