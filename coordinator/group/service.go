package group

import (
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/coordinator"
	"grete/internal/clock"
	"grete/internal/memory"
	"grete/protocol/batch"
)

// newMemberJoinTimeoutMs is how long the parked JoinGroup of a member that has no answer yet keeps it alive
// (Kafka's classicGroupNewMemberJoinTimeoutMs).
const newMemberJoinTimeoutMs = 5 * 60 * 1000

// Config holds Kafka's properties, named in comments.
type Config struct {
	MinSessionTimeoutMs             int32           // group.min.session.timeout.ms
	MaxSessionTimeoutMs             int32           // group.max.session.timeout.ms
	InitialRebalanceDelayMs         int32           // group.initial.rebalance.delay.ms
	MaxSize                         int             // group.max.size
	Memory                          *memory.Account // that groups and offsets are counted in, and bounded by; nil: they are not
	Joins                           *memory.Account // that member ids without a member are counted in, and bounded by; nil: they are not
	Loads                           *memory.Account // that loads borrow from; nil: one of their own
	OffsetMetadataMaxBytes          int             // offset.metadata.max.bytes
	OffsetsRetentionMs              int64           // offsets.retention.minutes
	OffsetsRetentionCheckIntervalMs int64           // offsets.retention.check.interval.ms
	Consumer                        ConsumerConfig
	CommitTimeoutMs                 int64       // offsets.commit.timeout.ms
	LoadBufferBytes                 int         // offsets.load.buffer.size
	Codec                           batch.Codec // offsets.topic.compression.codec
}

// DefaultConfig is Kafka 4.4's.
func DefaultConfig() Config {
	return Config{
		MinSessionTimeoutMs:             6000,
		MaxSessionTimeoutMs:             1800000,
		InitialRebalanceDelayMs:         3000,
		MaxSize:                         1<<31 - 1,
		OffsetMetadataMaxBytes:          4096,
		OffsetsRetentionMs:              7 * 24 * 3600 * 1000,
		OffsetsRetentionCheckIntervalMs: 600000,
		Consumer:                        defaultConsumerConfig(),
		CommitTimeoutMs:                 5000,
		LoadBufferBytes:                 5 << 20,
	}
}

// Options make a Service.
type Options struct {
	Config Config
	Clock  clock.Clock
	Log    zerolog.Logger
	// Partitions is how many partitions __consumer_offsets has, or will have.
	Partitions func() int32
	// NewUUID gives the random part of member ids.
	NewUUID func() string
	// Image is the cluster's metadata as it is now; nil: empty.
	Image func() *metadata.Image
	// GroupSettings are a consumer group's own; nil: Config.Consumer's defaults.
	GroupSettings func(groupID string) GroupSettings
}

// Service is the group coordinator of this broker.
type Service struct {
	o        Options
	rt       *coordinator.Runtime[*shard]
	followed followed
	sizes    sizes
}

type op = coordinator.Op[*shard]

// NewService coordinates nothing until BecomeLeader.
func NewService(o Options) *Service {
	s := &Service{o: o}
	s.followed.racks.Store(1)
	s.rt = coordinator.NewRuntime(coordinator.Options[*shard]{
		Clock: o.Clock, Log: o.Log, CommitTimeoutMs: o.Config.CommitTimeoutMs,
		LoadBufferBytes: o.Config.LoadBufferBytes, Codec: o.Config.Codec, Loads: o.Config.Loads,
		New: func(int32) *shard {
			sh := newShard(&s.o.Config, o.NewUUID)
			sh.cluster, sh.sizes = s.cluster(), &s.sizes
			return sh
		},
	})
	return s
}

// BecomeLeader loads the groups of a partition of __consumer_offsets in the background.
func (s *Service) BecomeLeader(partition, epoch int32, log coordinator.PartitionLog) {
	s.rt.BecomeLeader(partition, epoch, log)
}

// Resign drops the groups of a partition that was led at epoch or before.
func (s *Service) Resign(partition, epoch int32) { s.rt.Resign(partition, epoch) }

// GroupCount is how many groups this broker coordinates.
func (s *Service) GroupCount() int64 { return s.sizes.groups.Load() }

// OffsetsBytes is roughly what a group's committed offsets take, as far as that is much.
func (s *Service) OffsetsBytes(groupID string) int64 {
	bytes, _ := s.sizes.offsets.Load(groupID)
	n, _ := bytes.(int64)
	return n
}

// Close answers every parked request and returns when nothing of the coordinator runs any more.
func (s *Service) Close() { s.rt.Close() }

// PartitionFor is the partition of __consumer_offsets that a group lives on.
func (s *Service) PartitionFor(groupID string) int32 {
	return coordinator.PartitionOf(groupID, s.o.Partitions())
}

// submit runs an operation on a group's shard; refuse gets the Kafka code when the shard cannot serve.
func (s *Service) submit(groupID string, blind bool, run func(*shard, *coordinator.Tx), refuse func(code int16)) {
	s.rt.Submit(s.PartitionFor(groupID), op{
		Key: groupID, Blind: blind, Run: run,
		Refuse: func(err error) { refuse(coordinator.Code(err)) },
	})
}

// JoinGroup answers at once or when the rebalance completes. The request must stay valid until the answer.
func (s *Service) JoinGroup(rc RequestContext, req *kmsg.JoinGroupRequest, answer func(*kmsg.JoinGroupResponse)) {
	if e := s.checkJoin(rc, req); e != nil {
		answer(joinError(req.MemberID, e))
		return
	}
	s.submit(req.Group, false,
		func(sh *shard, tx *coordinator.Tx) { sh.join(tx, rc, req, answer) },
		func(code int16) { answer(&kmsg.JoinGroupResponse{ErrorCode: code, Generation: -1}) })
}

// SyncGroup answers at once or when the leader has assigned.
func (s *Service) SyncGroup(req *kmsg.SyncGroupRequest, answer func(*kmsg.SyncGroupResponse)) {
	if e := checkSync(req); e != nil {
		answer(syncError(e))
		return
	}
	s.submit(req.Group, false,
		func(sh *shard, tx *coordinator.Tx) { sh.sync(tx, req, answer) },
		func(code int16) { answer(&kmsg.SyncGroupResponse{ErrorCode: code}) })
}
