package replica

import (
	"errors"
	"fmt"
	"slices"

	"grete/cluster/metadata"
	"grete/logstore"
)

// Apply makes this broker's replicas what im says; delta names what may differ from the image applied before.
// Coordinators hear of their leadership last: they may ask for any partition of im at once.
func (m *Manager) Apply(_, im *metadata.Image, delta metadata.Delta) {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	m.image.Store(im)
	m.createLogs(im, delta.Topics)
	m.applyTopics(im, delta.Topics, func() { m.applyConfigs(im, delta) })
	m.retrySoon()
}

// createLogs makes the logs of new partitions, many at once. What is left, because it cannot be made or is in the way
// of a topic of before, applyTopics sees to.
func (m *Manager) createLogs(im *metadata.Image, names []string) {
	var wanted []logstore.NewLog
	for _, name := range names {
		was, is := m.local(name), im.Topic(name)
		if is == nil || was != nil && was.id != is.ID {
			continue
		}
		config := m.o.TopicConfig(im, name)
		for i := range is.Partitions {
			if slices.Contains(is.Partitions[i].Replicas, m.o.NodeID) && was.partition(int32(i)) == nil && !m.inOfflineDir(is.Partitions[i].Directory(m.o.NodeID)) {
				id := logstore.ID{Topic: name, Partition: int32(i)}
				wanted = append(wanted, logstore.NewLog{ID: id, TopicID: is.ID, Config: config.Log, Dir: m.preferred[id]})
			}
		}
	}
	m.o.Store.CreateAll(wanted)
}

// applyTopics applies the topics of these names, does what else is due, and only then tells the coordinators.
func (m *Manager) applyTopics(im *metadata.Image, names []string, also func()) {
	var announcements []func()
	for _, name := range names {
		announcements = append(announcements, m.applyTopic(im, name)...)
	}
	also()
	for _, announce := range announcements {
		announce()
	}
}

// Image is the metadata that was applied last, or is being applied.
func (m *Manager) Image() *metadata.Image { return m.image.Load() }

func (m *Manager) local(name string) *topic {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.byName[name]
}

// applyTopic handles a topic that was created, deleted, deleted and created again, or changed.
// What it returns tells the coordinators.
func (m *Manager) applyTopic(im *metadata.Image, name string) (announcements []func()) {
	was, is := m.local(name), im.Topic(name)
	if was != nil && (is == nil || is.ID != was.id) {
		m.publish(was, nil)
		m.drop(was.partitions)
		m.forgetStats(name)
		was = nil
	}
	if is == nil {
		return nil
	}
	now := m.nextTopic(was, is)
	config := m.o.TopicConfig(im, name)
	changes := make([]leadership, len(now.partitions))
	for i, p := range now.partitions {
		if p != nil {
			changes[i] = m.applyPartition(p, is.Partitions[i], config)
		}
	}
	m.publish(was, now)
	if was != nil {
		m.drop(leaving(was, now))
	}
	for i, change := range changes {
		p := now.partitions[i]
		if change != unchanged {
			announcements = append(announcements, func() { m.announce(p, change) })
		}
		if p != nil {
			m.settle(p)
			m.fetchers.follow(p)
		}
	}
	return announcements
}

// nextTopic keeps the partitions that stay on this broker and adds new ones, not yet opened.
func (m *Manager) nextTopic(was *topic, is *metadata.Topic) *topic {
	now := &topic{name: is.Name, id: is.ID, partitions: make([]*Partition, len(is.Partitions))}
	if was != nil {
		now.name = was.name
	}
	stats := m.stats(now.name)
	for i := range is.Partitions {
		if !slices.Contains(is.Partitions[i].Replicas, m.o.NodeID) {
			continue
		}
		if p := was.partition(int32(i)); p != nil {
			now.partitions[i] = p
			continue
		}
		now.partitions[i] = &Partition{
			Topic: now.name, TopicID: is.ID, Index: int32(i), nodeID: m.o.NodeID, clock: m.o.Clock, stats: stats,
			brokers: &m.brokers, alterer: m.alterer, assigner: m.assigner, throttles: &m.throttles, lend: m.o.Lend,
		}
	}
	return now
}

// applyPartition opens the partition's log if need be and installs the new state. The change of leadership is
// announced later, when the partition can be found.
func (m *Manager) applyPartition(p *Partition, is metadata.Partition, config *TopicConfig) leadership {
	var log *logstore.Log
	var offline error
	old := p.state.Load()
	if old != nil {
		log, offline = old.log, old.offline
	}
	if old == nil || logstore.Heals(old.offline) {
		log, offline = m.open(p, is.Directory(m.o.NodeID), config)
	}
	change, err := p.become(is, log, config, offline)
	if old == nil {
		m.goOnMoving(p)
	}
	if err = errors.Join(offline, err); err != nil && (old == nil || old.offline == nil) {
		m.o.Log.Error().Err(err).Str("topic", p.Topic).Int32("partition", p.Index).Msg("the partition's log cannot be used")
	}
	if logstore.Heals(err) {
		m.retry.add(p.Topic)
	}
	return change
}

// open finds or makes the partition's log. One of the same name that belongs to a topic of before is set aside. dir is
// where the log should be: while some directory is offline that may be it, and the log is not made anew in another
// (LogManager.getOrCreateLog).
func (m *Manager) open(p *Partition, dir metadata.UUID, config *TopicConfig) (*logstore.Log, error) {
	id := logstore.ID{Topic: p.Topic, Partition: p.Index}
	if m.o.Store.Log(id) == nil && m.inOfflineDir(dir) {
		return nil, offlineError(errDirOffline)
	}
	wanted := logstore.NewLog{ID: id, TopicID: p.TopicID, Config: config.Log, Dir: m.preferred[id]}
	log, err := m.o.Store.CreateIn(wanted)
	if errors.Is(err, logstore.ErrTopicIDMismatch) {
		if err = m.o.Store.SetAside(id); err == nil {
			log, err = m.o.Store.CreateIn(wanted)
		}
	}
	delete(m.preferred, id)
	if err != nil {
		return nil, offlineError(fmt.Errorf("open the log: %w", err))
	}
	log.Configure(config.Log)
	return log, nil
}

var errDirOffline = fmt.Errorf("the log cannot be reached: %w", logstore.ErrOffline)

func (m *Manager) inOfflineDir(dir metadata.UUID) bool {
	return !dir.Reserved() && len(m.o.Store.DirectoryIDs(false)) > 0 && !slices.Contains(m.o.Store.DirectoryIDs(true), [16]byte(dir))
}

// publish makes now findable instead of was; nil for none.
func (m *Manager) publish(was, now *topic) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was != nil {
		delete(m.byName, was.name)
		delete(m.byID, was.id)
	}
	if now != nil {
		m.byName[now.name] = now
		m.byID[now.id] = now
	}
}

// leaving are the partitions of was that now has not.
func leaving(was, now *topic) []*Partition {
	var out []*Partition
	for i, p := range was.partitions {
		if p != nil && now.partition(int32(i)) != p {
			out = append(out, p)
		}
	}
	return out
}

// drop removes partitions from this broker and deletes their logs.
func (m *Manager) drop(partitions []*Partition) {
	for _, p := range partitions {
		if p == nil {
			continue
		}
		epoch := p.state.Load().leaderEpoch
		if p.remove(absent(m.image.Load().TopicByID(p.TopicID), p.Index)) {
			m.resigned(p, epoch)
		}
		m.fetchers.follow(p)
		p.stay()
		err := m.o.Store.Delete(logstore.ID{Topic: p.Topic, Partition: p.Index})
		if err != nil && !errors.Is(err, logstore.ErrOffline) {
			m.o.Log.Error().Err(err).Str("topic", p.Topic).Int32("partition", p.Index).Msg("a deleted partition's log cannot be removed")
		}
	}
}

// announce tells the coordinators that this broker's leadership began, was renewed or ended.
func (m *Manager) announce(p *Partition, change leadership) {
	switch change {
	case gained:
		m.leads(p, p.state.Load().leaderEpoch)
	case lost:
		m.resigned(p, p.state.Load().leaderEpoch)
	}
}

// applyConfigs reconfigures the topics whose effective configuration may have changed.
func (m *Manager) applyConfigs(im *metadata.Image, delta metadata.Delta) {
	for _, c := range delta.Configs {
		switch c.Type {
		case metadata.TopicResource:
			m.configure(im, m.local(c.Name))
		case metadata.BrokerResource:
			m.setThrottles(im)
			for _, t := range m.topics() {
				m.configure(im, t)
			}
		}
	}
}

func (m *Manager) configure(im *metadata.Image, t *topic) {
	if t == nil {
		return
	}
	config := m.o.TopicConfig(im, t.name)
	for _, p := range t.partitions {
		if p != nil {
			p.configure(config)
		}
	}
}

// SetAsideStrays sets aside the logs of topics and partitions that the metadata does not know (any more): those deleted
// while this broker was down. Call it once the image has caught up with the quorum. Logs without a topic id are not of
// this cluster's making, and are left alone.
func (m *Manager) SetAsideStrays() {
	im := m.image.Load()
	defer m.abandonedFutures()
	for _, log := range m.o.Store.Logs() {
		if id := metadata.UUID(log.TopicID()); id == metadata.ZeroUUID || id == metadata.MetadataTopicID || m.assigned(im, log) {
			continue
		}
		if err := m.o.Store.SetAside(log.ID()); err != nil {
			m.o.Log.Error().Err(err).Stringer("log", log.ID()).Msg("the log of a partition that was deleted cannot be set aside")
		}
	}
}

// assigned says whether log is of a partition that this broker replicates.
func (m *Manager) assigned(im *metadata.Image, log *logstore.Log) bool {
	t, index := im.TopicByID(log.TopicID()), int(log.ID().Partition)
	return t != nil && index < len(t.Partitions) && slices.Contains(t.Partitions[index].Replicas, m.o.NodeID)
}
