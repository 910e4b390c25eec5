package replica

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"grete/cluster/metadata"
	"grete/internal/config"
	"grete/internal/quota"
)

// Throttles are a broker's bounds of replication, in bytes per second. The first two count for partitions that are
// named in their topic's leader. and follower.replication.throttled.replicas.
type Throttles struct {
	Leader   int64 // leader.replication.throttled.rate
	Follower int64 // follower.replication.throttled.rate
	Move     int64 // replica.alter.log.dirs.io.max.bytes.per.second
}

// Throttles are those of the broker's dynamic configuration.
func (c *Configs) Throttles(im *metadata.Image) Throttles {
	layers := c.layers.WithDynamic(im.Configs(metadata.BrokerResource, c.nodeID), im.Configs(metadata.BrokerResource, ""))
	return Throttles{
		Leader:   layers.Int("leader.replication.throttled.rate"),
		Follower: layers.Int("follower.replication.throttled.rate"),
		Move:     layers.Int("replica.alter.log.dirs.io.max.bytes.per.second"),
	}
}

// throttles are the rates of a broker's replication.
type throttles struct{ leader, follower *quota.Rate }

func (m *Manager) setThrottles(im *metadata.Image) {
	if m.o.Throttles == nil {
		return
	}
	t := m.o.Throttles(im)
	m.throttles.leader.Set(t.Leader)
	m.throttles.follower.Set(t.Follower)
	m.mover.rate.Set(t.Move)
}

// Throttles are those in force.
func (m *Manager) Throttles() Throttles {
	return Throttles{Leader: m.throttles.leader.BytesPerSecond(), Follower: m.throttles.follower.BytesPerSecond(), Move: m.mover.rate.BytesPerSecond()}
}

// throttled are a topic's partitions whose replicas on this broker are throttled.
type throttled struct {
	all        bool
	partitions []int32 // ascending
}

func (t throttled) has(index int32) bool {
	_, found := slices.BinarySearch(t.partitions, index)
	return t.all || found
}

// throttledOn reads a list of partition:broker, "*" or "none".
func throttledOn(list, nodeID string) throttled {
	var t throttled
	for _, entry := range config.SplitList(list) {
		partition, broker, _ := strings.Cut(entry, ":")
		n, err := strconv.ParseInt(strings.TrimSpace(partition), 10, 32)
		switch {
		case entry == "*":
			t.all = true
		case err == nil && strings.TrimSpace(broker) == nodeID:
			t.partitions = append(t.partitions, int32(n))
		}
	}
	slices.Sort(t.partitions)
	return t
}

// leaderThrottles says whether a follower gets nothing for now. One in sync is never throttled: it would leave the ISR
// (ReplicaManager.shouldLeaderThrottle).
func (p *Partition) leaderThrottles(s *state, follower int32) bool {
	return s.config.LeaderThrottled.has(p.Index) && !slices.Contains(s.isr, follower) && p.throttles.leader.Exceeded()
}

// countSent counts what a follower is sent.
func (p *Partition) countSent(sizeBytes int) {
	if p.Config().LeaderThrottled.has(p.Index) {
		p.throttles.leader.Record(sizeBytes)
	}
}

func (p *Partition) countFetched(sizeBytes int) {
	if p.Config().FollowerThrottled.has(p.Index) {
		p.throttles.follower.Record(sizeBytes)
	}
}

// longestThrottle: rates may be changed while somebody waits.
const longestThrottle = time.Second

// throttledFor is how long p is not to be fetched; while it has all that the leader has it is
// (AbstractFetcherThread.shouldFollowerThrottle).
func (p *followedPartition) throttledFor() time.Duration {
	if p.lag.Load() == 0 || !p.Config().FollowerThrottled.has(p.Index) {
		return 0
	}
	return min(p.throttles.follower.Wait(), longestThrottle)
}
