package group

import (
	"fmt"

	"grete/cluster/metadata"
)

// ConsumerConfig holds Kafka's properties of consumer groups, named in comments.
type ConsumerConfig struct {
	MaxSize                int             // group.consumer.max.size
	Assignors              []string        // group.consumer.assignors, the default first; never empty
	Migration              MigrationPolicy // group.consumer.migration.policy
	RegexRefreshIntervalMs int64           // group.consumer.regex.refresh.interval.ms
	Defaults               GroupSettings
}

// GroupSettings are what a group's own configuration can change; names in comments are those of the broker's defaults.
type GroupSettings struct {
	SessionTimeoutMs     int32 // group.consumer.session.timeout.ms
	HeartbeatIntervalMs  int32 // group.consumer.heartbeat.interval.ms
	AssignmentIntervalMs int32 // group.consumer.assignment.interval.ms
}

func defaultConsumerConfig() ConsumerConfig {
	return ConsumerConfig{
		MaxSize:                1<<31 - 1,
		Assignors:              []string{"uniform", "range"},
		Migration:              MigrationPolicy{Upgrade: true, Downgrade: true},
		RegexRefreshIntervalMs: 600000,
		Defaults:               GroupSettings{SessionTimeoutMs: 45000, HeartbeatIntervalMs: 5000, AssignmentIntervalMs: 1000},
	}
}

// cluster is what a shard sees of the world outside.
type cluster struct {
	image         func() *metadata.Image
	groupSettings func(groupID string) GroupSettings
	followed      *followed
}

func (s *Service) cluster() cluster {
	c := cluster{s.o.Image, s.o.GroupSettings, &s.followed}
	if c.image == nil {
		empty := &metadata.Image{}
		c.image = func() *metadata.Image { return empty }
	}
	if c.groupSettings == nil {
		c.groupSettings = func(string) GroupSettings { return s.o.Config.Consumer.Defaults }
	}
	return c
}

// assignorClasses are Kafka's own, which group.consumer.assignors may name too.
var assignorClasses = map[string]string{
	"org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
	"org.apache.kafka.coordinator.group.assignor.RangeAssignor":   "range",
}

// ParseAssignors reads the items of group.consumer.assignors.
func ParseAssignors(items []string) ([]string, error) {
	out := make([]string, 0, len(items))
	for _, item := range items {
		name := item
		if short, ok := assignorClasses[item]; ok {
			name = short
		}
		if assignors[name] == nil {
			return nil, fmt.Errorf("group.consumer.assignors: there is no assignor %q, only uniform and range", item)
		}
		out = append(out, name)
	}
	return out, nil
}
