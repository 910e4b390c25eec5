package node

import (
	"context"

	"github.com/google/uuid"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/coordinator/group"
	"grete/handlers"
	"grete/internal/config"
	"grete/protocol/batch"
)

const offsetsTopic = "__consumer_offsets"

func (n *Node) startCoordinators(context.Context) error {
	cfg, err := n.groupConfig(n.o.Config.Layers)
	if err != nil {
		return err
	}
	n.groups = group.NewService(group.Options{
		Config: cfg, Clock: n.o.Clock, Log: n.o.Log,
		Partitions: func() int32 { return n.partitionsOf(offsetsTopic, "offsets.topic.num.partitions") }, NewUUID: n.newUUID,
		Image: func() *metadata.Image { return n.controller.Image() }, GroupSettings: n.groupSettings,
	})
	n.onStop("group coordinator", func(context.Context) error { n.groups.Close(); return nil })
	return nil
}

func (n *Node) groupConfig(l config.Layers) (group.Config, error) {
	assignors, err := group.ParseAssignors(l.List("group.consumer.assignors"))
	return group.Config{
		MinSessionTimeoutMs:             int32(l.Int("group.min.session.timeout.ms")),
		MaxSessionTimeoutMs:             int32(l.Int("group.max.session.timeout.ms")),
		InitialRebalanceDelayMs:         int32(l.Int("group.initial.rebalance.delay.ms")),
		MaxSize:                         int(l.Int("group.max.size")),
		Memory:                          n.o.Memory.Groups,
		Joins:                           n.o.Memory.Joins,
		Loads:                           n.o.Memory.Loads,
		OffsetMetadataMaxBytes:          int(l.Int("offset.metadata.max.bytes")),
		OffsetsRetentionMs:              l.Int("offsets.retention.minutes") * 60_000,
		OffsetsRetentionCheckIntervalMs: l.Int("offsets.retention.check.interval.ms"),
		Consumer:                        consumerConfig(l, assignors),
		CommitTimeoutMs:                 l.Int("offsets.commit.timeout.ms"),
		LoadBufferBytes:                 int(l.Int("offsets.load.buffer.size")),
		Codec:                           batch.Codec(l.Int("offsets.topic.compression.codec")),
	}, err
}

func consumerConfig(l config.Layers, assignors []string) group.ConsumerConfig {
	return group.ConsumerConfig{
		MaxSize:                int(l.Int("group.consumer.max.size")),
		Assignors:              assignors,
		Migration:              group.ParseMigrationPolicy(l.Text("group.consumer.migration.policy")),
		RegexRefreshIntervalMs: l.Int("group.consumer.regex.refresh.interval.ms"),
		Defaults: group.GroupSettings{
			SessionTimeoutMs:     int32(l.Int("group.consumer.session.timeout.ms")),
			HeartbeatIntervalMs:  int32(l.Int("group.consumer.heartbeat.interval.ms")),
			AssignmentIntervalMs: int32(l.Int("group.consumer.assignment.interval.ms")),
		},
	}
}

// groupSettings are the broker's, with what was set for the group itself and what was changed while the broker runs.
func (n *Node) groupSettings(groupID string) group.GroupSettings {
	im := n.controller.Image()
	layers := n.dynamicLayers(im)
	own := im.Configs(metadata.GroupResource, groupID)
	return group.GroupSettings{
		SessionTimeoutMs:     int32(layers.GroupInt("consumer.session.timeout.ms", own)),
		HeartbeatIntervalMs:  int32(layers.GroupInt("consumer.heartbeat.interval.ms", own)),
		AssignmentIntervalMs: int32(layers.GroupInt("consumer.assignment.interval.ms", own)),
	}
}

func (n *Node) newUUID() string {
	id, err := uuid.NewRandomFromReader(n.o.Entropy)
	if err != nil {
		panic(err) // the kernel's generator does not fail
	}
	return id.String()
}

// partitionsOf is how many partitions an internal topic has, or will have as property says.
func (n *Node) partitionsOf(topic, property string) int32 {
	if t := n.image().Topic(topic); t != nil {
		return int32(len(t.Partitions))
	}
	return int32(n.o.Config.Int(property))
}

func (n *Node) image() *metadata.Image { return n.controller.Image() }

// lead and resign pass leadership of an internal topic's partition on to its coordinator.
func (n *Node) lead(p *replica.Partition, epoch int32) {
	switch p.Topic {
	case offsetsTopic:
		n.groups.BecomeLeader(p.Index, epoch, p.CoordinatorLog())
	case transactionsTopic:
		n.txns.BecomeLeader(p.Index, epoch, p.CoordinatorLog())
	}
}

func (n *Node) resign(p *replica.Partition, epoch int32) {
	switch p.Topic {
	case offsetsTopic:
		n.groups.Resign(p.Index, epoch)
	case transactionsTopic:
		n.txns.Resign(p.Index, epoch)
	}
}

// applyImage follows the metadata from this run's registration on, beginning with all of it: what a start replays
// before is history, in which this broker may have led, and logs may have belonged to other topics of the same names.
// First the partitions, then the groups.
func (n *Node) applyImage(old, im *metadata.Image, delta metadata.Delta) {
	if !n.o.Config.IsBroker {
		if configuresBrokers(delta) {
			n.configureTLS(im)
			n.configureSASL(im)
		}
		n.countElections(old, im, delta)
		return
	}
	if !n.entered {
		if self := im.Broker(n.o.Config.NodeID); self == nil || self.Incarnation != n.incarnation {
			return
		}
		n.entered, old, delta = true, &metadata.Image{}, im.All()
	}
	n.countElections(old, im, delta)
	if configuresBrokers(delta) {
		n.configureCleaner(im)
		n.limitConnections(im)
		n.configureTLS(im)
		n.configureSASL(im)
	}
	n.replicas.Apply(old, im, delta)
	n.noteLeavers(old, im, delta)
	n.groups.Applied(old, im, delta)
}

// noteLeavers has the controller know at once that this broker knows of another's stop.
func (n *Node) noteLeavers(old, im *metadata.Image, delta metadata.Delta) {
	for _, id := range delta.Brokers {
		was, is := old.Broker(id), im.Broker(id)
		leaves := is != nil && is.InControlledShutdown && (was == nil || !was.InControlledShutdown)
		if l := n.leaversTo.Load(); l != nil && leaves && id != n.o.Config.NodeID {
			l.Tell(im.Offset())
		}
	}
}

// coordinatorTopics says how the internal topics are made (Kafka's GroupCoordinatorConfig).
func coordinatorTopics(l config.Layers) []handlers.CoordinatorTopic {
	return []handlers.CoordinatorTopic{transactionsTopicOf(l), {
		Name:              offsetsTopic,
		Partitions:        int32(l.Int("offsets.topic.num.partitions")),
		ReplicationFactor: int16(l.Int("offsets.topic.replication.factor")),
		Configs: map[string]string{
			"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": l.Text("offsets.topic.segment.bytes"),
		},
	}}
}
