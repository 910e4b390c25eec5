package config

import (
	"fmt"
	"strconv"
)

// topicSynonyms maps topic properties to the broker properties that give their defaults (Kafka's
// ServerTopicConfigSynonyms). Properties without an entry have only their own default.
var topicSynonyms = map[string]chain{
	"cleanup.policy":                 one("log.cleanup.policy"),
	"compression.gzip.level":         one("compression.gzip.level"),
	"compression.lz4.level":          one("compression.lz4.level"),
	"compression.type":               one("compression.type"),
	"compression.zstd.level":         one("compression.zstd.level"),
	"delete.retention.ms":            one("log.cleaner.delete.retention.ms"),
	"file.delete.delay.ms":           one("log.segment.delete.delay.ms"),
	"flush.messages":                 one("log.flush.interval.messages"),
	"flush.ms":                       flushChain,
	"index.interval.bytes":           one("log.index.interval.bytes"),
	"local.retention.bytes":          one("log.local.retention.bytes"),
	"local.retention.ms":             one("log.local.retention.ms"),
	"max.compaction.lag.ms":          one("log.cleaner.max.compaction.lag.ms"),
	"max.decompressed.message.bytes": one("max.decompressed.message.bytes"),
	"max.message.bytes":              one("message.max.bytes"),
	"message.timestamp.after.max.ms": one("log.message.timestamp.after.max.ms"),
	"message.timestamp.before.max.ms": one(
		"log.message.timestamp.before.max.ms"),
	"message.timestamp.type":         one("log.message.timestamp.type"),
	"min.cleanable.dirty.ratio":      one("log.cleaner.min.cleanable.ratio"),
	"min.compaction.lag.ms":          one("log.cleaner.min.compaction.lag.ms"),
	"min.insync.replicas":            one("min.insync.replicas"),
	"preallocate":                    one("log.preallocate"),
	"remote.copy.lag.bytes":          one("log.remote.copy.lag.bytes"),
	"remote.copy.lag.ms":             one("log.remote.copy.lag.ms"),
	"retention.bytes":                one("log.retention.bytes"),
	"retention.ms":                   retentionChain,
	"segment.bytes":                  one("log.segment.bytes"),
	"segment.index.bytes":            one("log.index.size.max.bytes"),
	"segment.jitter.ms":              jitterChain,
	"segment.ms":                     rollChain,
	"unclean.leader.election.enable": one("unclean.leader.election.enable"),
}

func one(name string) chain { return chain{{name, 1}} }

// TopicText returns the effective value of a topic property under the topic's overrides; ok is false when it has none.
func (l Layers) TopicText(name string, overrides map[string]string) (value string, ok bool) {
	d := TopicDefs.Lookup(name)
	if text, set := overrides[name]; set {
		if value, err := d.Canonical(text); err == nil {
			return value, true
		}
	}
	if c, has := topicSynonyms[name]; has {
		if value, ok := l.value(c); ok {
			return value, true
		}
	}
	return d.defaultText()
}

// DescribeTopic describes every public property of a topic with these overrides, in order of name.
func (l Layers) DescribeTopic(overrides map[string]string) []Described {
	var all []Described
	for d := range TopicDefs.All() {
		if _, set := overrides[d.Name]; !d.Internal || set {
			all = append(all, l.describeTopic(d, overrides))
		}
	}
	return all
}

func (l Layers) describeTopic(d *Def, overrides map[string]string) Described {
	out := Described{Def: d, Source: FromDefault}
	if text, ok := l.TopicText(d.Name, overrides); ok {
		out.Value = describedText(d, text)
	}
	if _, set := overrides[d.Name]; set {
		out.Synonyms = append(out.Synonyms, Setting{d.Name, out.Value, FromTopic})
	}
	if c, ok := topicSynonyms[d.Name]; ok {
		out.Synonyms = append(out.Synonyms, l.settings(c[0].name)...)
	}
	if len(out.Synonyms) > 0 {
		out.Source = out.Synonyms[0].Source
	}
	return out
}

// Topic is a topic's effective configuration in numbers; names and meanings are Kafka's.
type Topic struct {
	SegmentBytes, SegmentIndexBytes           int32
	SegmentMs, SegmentJitterMs                int64
	IndexIntervalBytes                        int32
	RetentionMs, RetentionBytes               int64 // -1: unlimited
	FlushMessages, FlushMs                    int64
	FileDeleteDelayMs                         int64
	MaxMessageBytes, MaxDecompressedBytes     int32
	Delete, Compact                           bool // cleanup.policy
	DeleteRetentionMs                         int64
	MinCompactionLagMs, MaxCompactionLagMs    int64
	MinCleanableDirtyRatio                    float64
	UncleanLeaderElection                     bool
	MinInsyncReplicas                         int32
	CompressionType                           string // producer, uncompressed, gzip, snappy, lz4 or zstd
	GzipLevel, Lz4Level, ZstdLevel            int    // GzipLevel -1: the codec's default
	Preallocate                               bool
	LogAppendTime                             bool // message.timestamp.type
	TimestampBeforeMaxMs, TimestampAfterMaxMs int64
}

// Topic resolves the configuration of a topic with these overrides.
func (l Layers) Topic(overrides map[string]string) Topic {
	text := func(name string) string {
		value, _ := l.TopicText(name, overrides)
		return value
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(text(name), 10, 64)
		return n
	}
	ratio, _ := strconv.ParseFloat(text("min.cleanable.dirty.ratio"), 64)
	t := Topic{
		SegmentBytes: int32(number("segment.bytes")), SegmentIndexBytes: int32(number("segment.index.bytes")),
		SegmentMs: number("segment.ms"), SegmentJitterMs: number("segment.jitter.ms"),
		IndexIntervalBytes: int32(number("index.interval.bytes")),
		RetentionMs:        number("retention.ms"), RetentionBytes: number("retention.bytes"),
		FlushMessages: number("flush.messages"), FlushMs: number("flush.ms"),
		FileDeleteDelayMs: number("file.delete.delay.ms"), MaxMessageBytes: int32(number("max.message.bytes")),
		MaxDecompressedBytes: int32(number("max.decompressed.message.bytes")), DeleteRetentionMs: number("delete.retention.ms"),
		MinCompactionLagMs: number("min.compaction.lag.ms"), MaxCompactionLagMs: number("max.compaction.lag.ms"),
		MinCleanableDirtyRatio: ratio, UncleanLeaderElection: text("unclean.leader.election.enable") == "true",
		MinInsyncReplicas: int32(number("min.insync.replicas")), CompressionType: text("compression.type"),
		GzipLevel: int(number("compression.gzip.level")), Lz4Level: int(number("compression.lz4.level")),
		ZstdLevel: int(number("compression.zstd.level")), Preallocate: text("preallocate") == "true",
		LogAppendTime:        text("message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMaxMs: number("message.timestamp.before.max.ms"), TimestampAfterMaxMs: number("message.timestamp.after.max.ms"),
	}
	for _, policy := range SplitList(text("cleanup.policy")) {
		t.Delete = t.Delete || policy == "delete"
		t.Compact = t.Compact || policy == "compact"
	}
	if internal := number("internal.segment.bytes"); internal > 0 {
		t.SegmentBytes = int32(internal)
	}
	return t
}

// ValidateTopic checks a topic's whole set of overrides as Kafka's LogConfig.validate does: names, values, and how they
// go together, over the defaults of these layers. The error's text is for the client.
func (l Layers) ValidateTopic(overrides map[string]string) error {
	for _, name := range sortedKeys(overrides) {
		d := TopicDefs.Lookup(name)
		if d == nil {
			return fmt.Errorf("%w: %s", ErrUnknownTopicConfig, name)
		}
		if err := d.Validate(overrides[name]); err != nil {
			return err
		}
	}
	t := l.Topic(overrides)
	if t.MinCompactionLagMs > t.MaxCompactionLagMs {
		return fmt.Errorf("conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)",
			t.MinCompactionLagMs, t.MaxCompactionLagMs)
	}
	if remote, _ := l.TopicText("remote.storage.enable", overrides); remote == "true" {
		return ErrTieredStorage
	}
	return nil
}
