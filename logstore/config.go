package logstore

import (
	"fmt"
	"math"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/memory"
	"grete/internal/vfs"
)

// ID names a log: its directory is Topic-Partition.
type ID struct {
	Topic     string
	Partition int32
}

func (id ID) String() string { return fmt.Sprintf("%s-%d", id.Topic, id.Partition) }

// Config is what a log needs of its topic's configuration (Kafka's LogConfig; 0 or negative as Kafka means them).
// Where Kafka allows no such value (segment.bytes, segment.index.bytes, segment.ms, flush.messages), one that is
// not positive means Kafka's default.
type Config struct {
	SegmentBytes, SegmentIndexBytes int32
	SegmentMs, SegmentJitterMs      int64
	IndexIntervalBytes              int32
	RetentionMs, RetentionBytes     int64
	FlushMessages, FlushMs          int64
	FileDeleteDelayMs               int64
	MaxMessageBytes                 int32
	MaxRecordBytes                  int32 // max.decompressed.message.bytes, of a record that is searched for by time
	Delete, Compact                 bool  // cleanup.policy
	ProducerIDExpirationMs          int64

	DeleteRetentionMs                      int64 // of tombstones and markers, from when compaction first meets them
	MinCompactionLagMs, MaxCompactionLagMs int64 // the latter: none where not positive
	MinCleanableDirtyRatio                 float64
}

// DefaultConfig is Kafka's LogConfig without overrides.
func DefaultConfig() Config {
	week := (7 * 24 * time.Hour).Milliseconds()
	return Config{
		SegmentBytes:           1 << 30,
		SegmentIndexBytes:      10 << 20,
		SegmentMs:              week,
		IndexIntervalBytes:     4096,
		RetentionMs:            week,
		RetentionBytes:         -1,
		FlushMessages:          math.MaxInt64,
		FlushMs:                math.MaxInt64,
		FileDeleteDelayMs:      time.Minute.Milliseconds(),
		MaxMessageBytes:        1<<20 + 12,
		Delete:                 true,
		ProducerIDExpirationMs: (24 * time.Hour).Milliseconds(),
		DeleteRetentionMs:      (24 * time.Hour).Milliseconds(),
		MaxCompactionLagMs:     math.MaxInt64,
		MinCleanableDirtyRatio: 0.5,
	}
}

func (c Config) withDefaults() *Config {
	d := DefaultConfig()
	if c.SegmentBytes <= 0 {
		c.SegmentBytes = d.SegmentBytes
	}
	if c.SegmentIndexBytes <= 0 {
		c.SegmentIndexBytes = d.SegmentIndexBytes
	}
	if c.SegmentMs <= 0 {
		c.SegmentMs = d.SegmentMs
	}
	if c.FlushMessages <= 0 {
		c.FlushMessages = d.FlushMessages
	}
	if c.FlushMs < 0 {
		c.FlushMs = d.FlushMs
	}
	if c.ProducerIDExpirationMs <= 0 {
		c.ProducerIDExpirationMs = d.ProducerIDExpirationMs
	}
	if c.MaxCompactionLagMs <= 0 {
		c.MaxCompactionLagMs = d.MaxCompactionLagMs
	}
	return &c
}

// maxSegmentMs: a record of a compacted topic must not wait in the active segment for longer than it may stay
// uncompacted (LogConfig.maxSegmentMs).
func (c *Config) maxSegmentMs() int64 {
	if c.Compact {
		return min(c.SegmentMs, c.MaxCompactionLagMs)
	}
	return c.SegmentMs
}

// Options open a Store.
type Options struct {
	FS                            vfs.FS
	Clock                         clock.Clock
	Log                           zerolog.Logger
	Dirs                          []string // log.dirs
	Defaults                      Config
	ConfigOf                      func(ID) Config // configuration of a log found on disk at start; nil means Defaults
	ProducerMemory                *memory.Account // that producers' states are counted in, and bounded by; nil: they are not
	FileMemory                    *memory.Account // that open files are counted in; nil: they are not
	MaxOpenFiles                  int             // LRU bound over all logs
	RecoveryThreads               int             // num.recovery.threads.per.data.dir
	CheckInterval                 time.Duration   // log.retention.check.interval.ms
	ProducerCheckInterval         time.Duration   // producer.id.expiration.check.interval.ms
	FlushOffsetCheckpointInterval time.Duration
	OnFlush                       func(took time.Duration)    // called after each flush of a log
	OnDirOffline                  func(dir string, err error) // called once per directory
	Cleaner                       CleanerConfig
	// BrokerEpoch goes into the mark of a clean stop; nil: NoBrokerEpoch.
	BrokerEpoch func() int64
	Scrub       ScrubConfig
	OnDamage    func(Damage) // called in every round of the scrubber while there is damage
}

// Values of Options fields that are not positive.
const (
	defaultMaxOpenFiles       = 4096
	defaultRecoveryThreads    = 2
	defaultCheckInterval      = 5 * time.Minute
	defaultProducerInterval   = 10 * time.Minute
	defaultCheckpointInterval = time.Minute
)

func (o Options) withDefaults() Options {
	if o.MaxOpenFiles <= 0 {
		o.MaxOpenFiles = defaultMaxOpenFiles
	}
	if o.RecoveryThreads <= 0 {
		o.RecoveryThreads = defaultRecoveryThreads
	}
	if o.CheckInterval <= 0 {
		o.CheckInterval = defaultCheckInterval
	}
	if o.ProducerCheckInterval <= 0 {
		o.ProducerCheckInterval = defaultProducerInterval
	}
	if o.FlushOffsetCheckpointInterval <= 0 {
		o.FlushOffsetCheckpointInterval = defaultCheckpointInterval
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.BrokerEpoch == nil {
		o.BrokerEpoch = func() int64 { return NoBrokerEpoch }
	}
	if o.ConfigOf == nil {
		defaults := o.Defaults
		o.ConfigOf = func(ID) Config { return defaults }
	}
	return o
}
