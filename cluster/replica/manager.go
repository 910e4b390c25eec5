package replica

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rs/zerolog"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/metrics"
	"grete/internal/quota"
	"grete/internal/sched"
	"grete/logstore"
)

// Options make a Manager.
type Options struct {
	NodeID int32
	Store  *logstore.Store
	Clock  clock.Clock
	Log    zerolog.Logger
	// TopicConfig resolves a topic's effective configuration under im. It should return one pointer for all topics
	// that have the same configuration.
	TopicConfig func(im *metadata.Image, topic string) *TopicConfig
	Topics      *metrics.Topics   // counts the traffic; nil: it is not counted
	Changes     *metrics.Replicas // counts changes of in-sync replicas; nil: they are not counted
	// OnLeader is called after this broker has become leader at epoch, OnResign after it has ceased to be (also by
	// deletion). Both run in Apply's order, on its goroutine. Nil: nobody wants to know.
	OnLeader func(p *Partition, epoch int32)
	OnResign func(p *Partition, epoch int32)
	// Throttles are the bounds of replication under an image; nil: there are none.
	Throttles func(im *metadata.Image) Throttles
	// RackAware sends consumers to a replica in their rack (KIP-392).
	RackAware bool
	// Lend waits for the memory that compressing a large batch anew takes; nil: nothing is counted.
	Lend func(bytes int64) (back func())
	// Replication is what partitions with several replicas need; they wait for Start.
	Replication Replication
}

// Manager has the partitions that this broker replicates, as the last applied image says.
type Manager struct {
	o     Options
	image atomic.Pointer[metadata.Image]

	brokers   brokers
	alterer   *alterer
	assigner  *assigner
	fetchers  *fetchers
	mover     mover
	throttles throttles
	shrinker  shrinker

	draining atomic.Bool

	applyMu   sched.Mutex            // one Apply at a time
	preferred map[logstore.ID]string // directories to make logs in; applyMu
	retry     retries                // applyMu

	mu     sched.RWMutex
	byName map[string]*topic
	byID   map[metadata.UUID]*topic
}

// topic holds a topic's partitions by index, nil where this broker has no replica. Replaced, never changed.
type topic struct {
	name       string
	id         metadata.UUID
	partitions []*Partition
}

// NewManager has no partitions until Apply.
func NewManager(o Options) *Manager {
	if o.Changes == nil {
		o.Changes = &metrics.Replicas{}
	}
	m := &Manager{o: o, byName: map[string]*topic{}, byID: map[metadata.UUID]*topic{}}
	m.image.Store(&metadata.Image{})
	m.brokers = brokers{image: m.image.Load, lagMaxMs: o.Replication.LagTimeMaxMs, rackAware: o.RackAware}
	m.alterer = newAlterer(o)
	m.assigner = newAssigner(o)
	m.fetchers = newFetchers(o)
	m.throttles = throttles{leader: quota.NewRate(o.Clock), follower: quota.NewRate(o.Clock)}
	m.mover = mover{m: m, rate: quota.NewRate(o.Clock), wake: make(chan struct{}, 1)}
	return m
}

// Start begins to replicate: to fetch as a follower, and to ask the controller for changes of in-sync replicas. The
// broker must be registered: its epoch goes into every fetch.
func (m *Manager) Start() {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	m.alterer.start()
	m.assigner.start()
	m.mover.start()
	m.shrinker.start(m)
	m.fetchers.start()
	for p := range m.Partitions() {
		m.fetchers.follow(p)
		m.assigner.submit(p)
	}
}

// Stop ends what Start began, and waits for it.
func (m *Manager) Stop() {
	m.fetchers.stop()
	m.mover.stop()
	m.shrinker.stop()
	m.assigner.stop()
	m.alterer.stop()
}

// Partition finds a partition by its topic's name. ErrNotLeader: it exists, on other brokers.
func (m *Manager) Partition(name string, index int32) (*Partition, error) {
	m.mu.RLock()
	t := m.byName[name]
	m.mu.RUnlock()
	if p := t.partition(index); p != nil {
		return p, nil
	}
	return nil, &Error{Topic: name, Partition: index, Err: absent(m.image.Load().Topic(name), index)}
}

// PartitionByID finds a partition by its topic's id. ErrUnknownTopicID: no topic has it.
func (m *Manager) PartitionByID(id metadata.UUID, index int32) (*Partition, error) {
	m.mu.RLock()
	t := m.byID[id]
	m.mu.RUnlock()
	if p := t.partition(index); p != nil {
		return p, nil
	}
	known := m.image.Load().TopicByID(id)
	if known == nil {
		return nil, &Error{Partition: index, Err: ErrUnknownTopicID}
	}
	return nil, &Error{Topic: known.Name, Partition: index, Err: absent(known, index)}
}

func (t *topic) partition(index int32) *Partition {
	if t == nil || index < 0 || int(index) >= len(t.partitions) {
		return nil
	}
	return t.partitions[index]
}

// absent says why a partition is not here.
func absent(t *metadata.Topic, index int32) error {
	if t == nil || index < 0 || int(index) >= len(t.Partitions) {
		return ErrUnknownTopicOrPartition
	}
	return ErrNotLeader
}

// Partitions iterates over this broker's partitions by topic name and index.
func (m *Manager) Partitions() iter.Seq[*Partition] {
	topics := m.topics()
	slices.SortFunc(topics, func(a, b *topic) int { return strings.Compare(a.name, b.name) })
	return func(yield func(*Partition) bool) {
		for _, t := range topics {
			for _, p := range t.partitions {
				if p != nil && !yield(p) {
					return
				}
			}
		}
	}
}

func (m *Manager) topics() []*topic {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.AppendSeq(make([]*topic, 0, len(m.byName)), maps.Values(m.byName))
}

// State looks at every partition, for Kafka's ReplicaManager gauges.
func (m *Manager) State() metrics.ReplicaState {
	var s metrics.ReplicaState
	for p := range m.Partitions() {
		s.Partitions++
		switch {
		case p.Offline() != nil:
			s.OfflineReplicas++
		case p.IsLeader():
			p.state.Load().count(&s)
		}
	}
	return s
}

// count adds a led partition.
func (s *state) count(to *metrics.ReplicaState) {
	to.Leaders++
	if s.reassigning {
		to.Reassigning++
	}
	inSync := s.inSync()
	if inSync < s.factor {
		to.UnderReplicated++
	}
	switch n := inSync - s.minISR(); {
	case n < 0:
		to.UnderMinISR++
	case n == 0:
		to.AtMinISR++
	}
}

// Drain tells every watcher to look again: from now on nobody shall wait for what may come, for the broker is stopping.
func (m *Manager) Drain() {
	m.draining.Store(true)
	m.stopRetrying()
	for p := range m.Partitions() {
		p.wake()
	}
}

// Draining says whether Drain was called.
func (m *Manager) Draining() bool { return m.draining.Load() }

// DirOffline makes the partitions of a failed log directory answer ErrOffline; it is logstore's OnDirOffline. It waits
// for an Apply under way, which would install the log as one that can be used.
func (m *Manager) DirOffline(dir string, reason error) {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	for p := range m.Partitions() {
		p.notIn(dir)
		log := p.Log()
		if log == nil || log.Dir() != dir {
			continue
		}
		led, epoch := p.IsLeader(), p.state.Load().leaderEpoch
		p.markOffline(offlineError(fmt.Errorf("%w: %w", errDirOffline, reason)))
		m.fetchers.follow(p)
		if led {
			m.resigned(p, epoch)
		}
	}
}

func (m *Manager) leads(p *Partition, epoch int32) {
	if m.o.OnLeader != nil {
		m.o.OnLeader(p, epoch)
	}
}

func (m *Manager) resigned(p *Partition, epoch int32) {
	if m.o.OnResign != nil {
		m.o.OnResign(p, epoch)
	}
}
