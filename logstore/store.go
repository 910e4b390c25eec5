// Package logstore keeps partitions' logs on disk in Kafka's formats: segments with sparse offset and time
// indexes, transaction index, producer state and its snapshots, leader epochs, checkpoints, retention,
// recovery. It knows nothing of what topics mean nor of the network.
package logstore

// Contract file: signatures that other rooms compile against. The owner fills in and splits.

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// ID names a log: its directory is Topic-Partition.
type ID struct {
	Topic     string
	Partition int32
}

// Config is what a log needs of its topic's configuration (Kafka's LogConfig; 0 or negative as Kafka means them).
type Config struct {
	SegmentBytes, SegmentIndexBytes int32
	SegmentMs, SegmentJitterMs      int64
	IndexIntervalBytes              int32
	RetentionMs, RetentionBytes     int64
	FlushMessages, FlushMs          int64
	FileDeleteDelayMs               int64
	MaxMessageBytes                 int32
	Delete, Compact                 bool // cleanup.policy
	ProducerIDExpirationMs          int64
}

// Options open a Store.
type Options struct {
	FS                            vfs.FS
	Clock                         clock.Clock
	Log                           zerolog.Logger
	Dirs                          []string // log.dirs
	Defaults                      Config
	ConfigOf                      func(ID) Config // configuration of a log found on disk at start; nil means Defaults
	MaxOpenFiles                  int             // LRU bound over all logs
	RecoveryThreads               int             // num.recovery.threads.per.data.dir
	CheckInterval                 time.Duration   // log.retention.check.interval.ms
	FlushOffsetCheckpointInterval time.Duration
	OnDirOffline                  func(dir string, err error) // called once per directory
}

// Store is all logs of a broker.
type Store struct{}

// Open locks the directories, loads every log (recovering after an unclean stop) and starts retention and checkpoints.
func Open(ctx context.Context, o Options) (*Store, error) { panic("unwritten") }

// Log returns the log of id, or nil.
func (s *Store) Log(id ID) *Log { panic("unwritten") }

// Create makes the log in the online directory with the fewest logs, or returns the one that exists.
// topicID goes to partition.metadata; an existing log of another topic id is ErrTopicIDMismatch.
func (s *Store) Create(id ID, topicID [16]byte, cfg Config) (*Log, error) { panic("unwritten") }

// Delete renames the directory aside at once and removes it after FileDeleteDelayMs.
func (s *Store) Delete(id ID) error { panic("unwritten") }

// Logs returns all logs, in no order.
func (s *Store) Logs() []*Log { panic("unwritten") }

// Close flushes, writes checkpoints and the clean-shutdown marks, and unlocks.
func (s *Store) Close() error { panic("unwritten") }

// DirInfo describes a log directory for DescribeLogDirs.
type DirInfo struct {
	Path                    string
	DirectoryID             [16]byte // of meta.properties
	TotalBytes, UsableBytes int64
	Offline                 error // nil while it serves
	Logs                    []*Log
}

func (s *Store) Dirs() []DirInfo { panic("unwritten") }

// Log is one partition's log: one writer at a time, readers that never wait for it.
type Log struct{}

func (l *Log) ID() ID             { panic("unwritten") }
func (l *Log) TopicID() [16]byte  { panic("unwritten") }
func (l *Log) Dir() string        { panic("unwritten") } // the log directory (one of Dirs) that holds it
func (l *Log) Configure(c Config) { panic("unwritten") }

func (l *Log) StartOffset() int64 { panic("unwritten") }
func (l *Log) EndOffset() int64   { panic("unwritten") } // log end offset: the next to be written
func (l *Log) SizeBytes() int64   { panic("unwritten") }

// DurableOffset is the end of what is fsynced (recovery point).
func (l *Log) DurableOffset() int64 { panic("unwritten") }

// HighWatermark and SetHighWatermark keep the offset that the checkpoint persists and retention respects;
// who sets it decides what it means. LastStableOffset is the first unstable offset, or the high watermark.
func (l *Log) HighWatermark() int64          { panic("unwritten") }
func (l *Log) SetHighWatermark(offset int64) { panic("unwritten") }
func (l *Log) LastStableOffset() int64       { panic("unwritten") }

// AppendInfo says where a batch went. For a duplicate (same producer, epoch and sequences as one of the last
// five) nothing was written and the offsets are the original's.
type AppendInfo struct {
	BaseOffset, LastOffset int64
	LogStartOffset         int64
	LogAppendTimeMs        int64 // -1 for CreateTime
	Duplicate              bool
	FlushDue               bool // flush.messages reached: the caller acknowledges only after Flush covers LastOffset
}

// Append writes one validated batch as leader of epoch: producer state check, offsets, one positional
// write, sparse index, producer state. b is altered in place (base offset, epoch).
func (l *Log) Append(b batch.Batch, epoch int32) (AppendInfo, error) { panic("unwritten") }

// AppendAsFollower writes whole batches as they are; offsets must follow the log end.
func (l *Log) AppendAsFollower(raw []byte) error { panic("unwritten") }

// FlushAsync calls done (on another goroutine) once everything below offset is fsynced; concurrent calls share fsyncs
// and appends go on meanwhile. An error has taken the directory offline.
func (l *Log) FlushAsync(offset int64, done func(error)) { panic("unwritten") }

// Span is what a read found: whole batches (but for a cut last one when maxBytes ended in it), pinned in
// immutable segment views until Release.
type Span struct {
	Regions   []vfs.Region
	SizeBytes int
	// AbortedTxns up to the bound, when asked for.
	AbortedTxns []AbortedTxn
}

func (s *Span) Release() { panic("unwritten") }

// ReadAll copies the span into a new slice.
func (s *Span) ReadAll() ([]byte, error) { panic("unwritten") }

// AbortedTxn is an entry of the transaction index.
type AbortedTxn struct{ ProducerID, FirstOffset, LastOffset, LastStableOffset int64 }

// ReadOptions bound a read.
type ReadOptions struct {
	MaxBytes    int
	Bound       int64 // exclusive: high watermark, last stable offset or log end
	MinOneBatch bool  // give the first batch whole even when it is larger than MaxBytes
	Aborted     bool  // collect AbortedTxns
}

// Read returns the batches from the one that holds offset. ErrOffsetOutOfRange outside [start, end]. A read never
// crosses a segment.
func (l *Log) Read(offset int64, o ReadOptions) (*Span, error) { panic("unwritten") }

// TimestampOffset is a record found by time.
type TimestampOffset struct {
	Offset, TimestampMs int64 // -1 when none
	LeaderEpoch         int32 // -1 when unknown
}

// OffsetForTimestamp finds the first record with timestamp >= targetMs.
func (l *Log) OffsetForTimestamp(targetMs int64) (TimestampOffset, error) { panic("unwritten") }

// MaxTimestampOffset finds the record with the largest timestamp (ListOffsets -3).
func (l *Log) MaxTimestampOffset() (TimestampOffset, error) { panic("unwritten") }

// EpochEnd answers OffsetForLeaderEpoch: the largest known epoch <= epoch and its end offset (-1, -1 when unknown).
func (l *Log) EpochEnd(epoch int32) (foundEpoch int32, endOffset int64) { panic("unwritten") }
func (l *Log) LatestEpoch() int32                                       { panic("unwritten") }

// EpochAt is the leader epoch of the record at offset, -1 when unknown.
func (l *Log) EpochAt(offset int64) int32 { panic("unwritten") }

// AssignEpoch records that epoch starts at the log end.
func (l *Log) AssignEpoch(epoch int32) error { panic("unwritten") }

// TruncateTo removes everything at and above offset.
func (l *Log) TruncateTo(offset int64) error { panic("unwritten") }

// AdvanceStart raises the start offset (DeleteRecords, retention); segments wholly below it are deleted.
func (l *Log) AdvanceStart(offset int64) error { panic("unwritten") }
