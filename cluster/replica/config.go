package replica

import (
	"grete/internal/config"
	"grete/logstore"
	"grete/protocol/batch"
)

// TopicConfig is what this broker's replicas need of a topic's effective configuration. It is shared by a topic's
// partitions, and by all topics without overrides of their own; it never changes.
type TopicConfig struct {
	Log               logstore.Config
	Produce           batch.Policy // without what changes with the request
	MinInsyncReplicas int          // min.insync.replicas
}

// NewTopicConfig translates a topic's configuration; producerIDExpirationMs is the broker's producer.id.expiration.ms.
func NewTopicConfig(t config.Topic, producerIDExpirationMs int64) *TopicConfig {
	c := &TopicConfig{
		Log: logstore.Config{
			SegmentBytes: t.SegmentBytes, SegmentIndexBytes: t.SegmentIndexBytes,
			SegmentMs: t.SegmentMs, SegmentJitterMs: t.SegmentJitterMs, IndexIntervalBytes: t.IndexIntervalBytes,
			RetentionMs: t.RetentionMs, RetentionBytes: t.RetentionBytes,
			FlushMessages: t.FlushMessages, FlushMs: t.FlushMs, FileDeleteDelayMs: t.FileDeleteDelayMs,
			MaxMessageBytes: t.MaxMessageBytes, Delete: t.Delete, Compact: t.Compact,
			ProducerIDExpirationMs: producerIDExpirationMs,
		},
		Produce: batch.Policy{
			Target: compressionOf(t), BeforeMaxMs: t.TimestampBeforeMaxMs, AfterMaxMs: t.TimestampAfterMaxMs,
			MaxMessageBytes: t.MaxMessageBytes, Compacted: t.Compact,
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
