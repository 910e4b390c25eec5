package replica

import (
	"maps"
	"strconv"

	"grete/cluster/metadata"
	"grete/internal/config"
	"grete/internal/sched"
	"grete/logstore"
	"grete/protocol/batch"
)

// TopicConfig is what this broker's replicas need of a topic's effective configuration. It is shared by a topic's
// partitions, and by all topics without overrides of their own; it never changes.
type TopicConfig struct {
	Log               logstore.Config
	Produce           batch.Policy // without what changes with the request
	MinInsyncReplicas int          // min.insync.replicas
	// LeaderThrottled and FollowerThrottled are this broker's part of the lists of throttled replicas.
	LeaderThrottled, FollowerThrottled throttled
}

// NewTopicConfig translates a topic's configuration; producerIDExpirationMs is the broker's producer.id.expiration.ms.
func NewTopicConfig(t config.Topic, producerIDExpirationMs int64) *TopicConfig {
	c := &TopicConfig{
		Log: logstore.Config{
			SegmentBytes: t.SegmentBytes, SegmentIndexBytes: t.SegmentIndexBytes,
			SegmentMs: t.SegmentMs, SegmentJitterMs: t.SegmentJitterMs, IndexIntervalBytes: t.IndexIntervalBytes,
			RetentionMs: t.RetentionMs, RetentionBytes: t.RetentionBytes,
			FlushMessages: t.FlushMessages, FlushMs: t.FlushMs, FileDeleteDelayMs: t.FileDeleteDelayMs,
			MaxMessageBytes: t.MaxMessageBytes, MaxRecordBytes: t.MaxDecompressedBytes, Delete: t.Delete, Compact: t.Compact,
			ProducerIDExpirationMs: producerIDExpirationMs,
			DeleteRetentionMs:      t.DeleteRetentionMs,
			MinCompactionLagMs:     t.MinCompactionLagMs, MaxCompactionLagMs: t.MaxCompactionLagMs,
			MinCleanableDirtyRatio: t.MinCleanableDirtyRatio,
		},
		Produce: batch.Policy{
			Target: compressionOf(t), BeforeMaxMs: t.TimestampBeforeMaxMs, AfterMaxMs: t.TimestampAfterMaxMs,
			MaxMessageBytes: t.MaxMessageBytes, MaxRecordBytes: t.MaxDecompressedBytes, Compacted: t.Compact,
		},
		MinInsyncReplicas: int(t.MinInsyncReplicas),
	}
	if t.LogAppendTime {
		c.Produce.Timestamp = batch.LogAppendTime
	}
	return c
}

// compressionOf is the codec that batches are stored in.
func compressionOf(t config.Topic) batch.Compression {
	switch t.CompressionType {
	case "uncompressed":
		return batch.Compression{Codec: batch.None}
	case "gzip":
		return batch.Compression{Codec: batch.Gzip, Level: t.GzipLevel}
	case "snappy":
		return batch.Compression{Codec: batch.Snappy}
	case "lz4":
		return batch.Compression{Codec: batch.Lz4, Level: t.Lz4Level}
	case "zstd":
		return batch.Compression{Codec: batch.Zstd, Level: t.ZstdLevel}
	}
	return batch.Compression{Codec: batch.Producer}
}

// Configs resolves topics' configurations over the broker's: Options.TopicConfig.
type Configs struct {
	layers config.Layers
	nodeID string

	mu             sched.Mutex
	broker         map[string]string // dynamic values that plain was made under
	clusterDefault map[string]string
	plain          *TopicConfig // of every topic without overrides
}

// NewConfigs resolves under the values that node nodeID was started with.
func NewConfigs(static config.Layers, nodeID int32) *Configs {
	return &Configs{layers: static, nodeID: strconv.Itoa(int(nodeID))}
}

// Of is the effective configuration of topic under im.
func (c *Configs) Of(im *metadata.Image, topic string) *TopicConfig {
	c.mu.Lock()
	defer c.mu.Unlock()
	broker, clusterDefault := im.Configs(metadata.BrokerResource, c.nodeID), im.Configs(metadata.BrokerResource, "")
	if c.plain == nil || !maps.Equal(broker, c.broker) || !maps.Equal(clusterDefault, c.clusterDefault) {
		c.broker, c.clusterDefault = broker, clusterDefault
		c.plain = c.resolve(nil)
	}
	if overrides := im.Configs(metadata.TopicResource, topic); len(overrides) > 0 {
		return c.resolve(overrides)
	}
	return c.plain
}

func (c *Configs) resolve(overrides map[string]string) *TopicConfig {
	layers := c.layers.WithDynamic(c.broker, c.clusterDefault)
	resolved := NewTopicConfig(layers.Topic(overrides), layers.Int("producer.id.expiration.ms"))
	resolved.LeaderThrottled = throttledOn(overrides["leader.replication.throttled.replicas"], c.nodeID)
	resolved.FollowerThrottled = throttledOn(overrides["follower.replication.throttled.replicas"], c.nodeID)
	return resolved
}
