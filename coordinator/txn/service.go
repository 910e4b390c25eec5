package txn

import (
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
	"grete/internal/clock"
	"grete/internal/loglimit"
	"grete/internal/memory"
)

// Config holds Kafka's properties, named in comments.
type Config struct {
	MaxTimeoutMs     int32           // transaction.max.timeout.ms
	IDExpirationMs   int64           // transactional.id.expiration.ms
	AbortIntervalMs  int64           // transaction.abort.timed.out.transaction.cleanup.interval.ms
	ExpiryIntervalMs int64           // transaction.remove.expired.transaction.cleanup.interval.ms
	LoadBufferBytes  int             // transaction.state.log.load.buffer.size
	Loads            *memory.Account // that loads borrow from; nil: one of their own
	CommitTimeoutMs  int64           // request.timeout.ms: until an append must be committed
	AddRetryMs       int64           // add.partitions.to.txn.retry.backoff.max.ms: how long a write waits for the transaction before it
	TwoPhaseCommit   bool            // transaction.two.phase.commit.enable
	MarkerRetryMs    int64           // until a marker that failed is sent again
}

// DefaultConfig is Kafka 4.4's.
func DefaultConfig() Config {
	return Config{
		MaxTimeoutMs: 900_000, IDExpirationMs: 7 * 24 * 3600 * 1000, AbortIntervalMs: 10_000, ExpiryIntervalMs: 3_600_000,
		LoadBufferBytes: 5 << 20, CommitTimeoutMs: 30_000, AddRetryMs: 100, MarkerRetryMs: 100,
	}
}

// MarkerWriter ends a transaction on its partitions, wherever they are led.
type MarkerWriter interface {
	// WriteMarkers calls done once, from any goroutine, with an error (or nil) for each of the partitions, in order.
	// A partition that no longer exists is no error.
	WriteMarkers(m coordinator.Marker, partitions []Partition, done func([]error))
}

// Options make a Service.
type Options struct {
	Config Config
	Clock  clock.Clock
	Log    zerolog.Logger
	// Partitions is how many partitions __transaction_state has, or will have.
	Partitions func() int32
	// TransactionVersion is the finalised level of transaction.version.
	TransactionVersion func() int16
	// NextProducerID calls back, possibly at once, with an id that nobody else gets.
	NextProducerID func(func(int64, error))
	Markers        MarkerWriter
}

// Service is the transaction coordinator of this broker.
type Service struct {
	o  Options
	rt *coordinator.Runtime[*shard]
	// unwritten are the lines about markers that failed: each transaction sends its own again every MarkerRetryMs.
	unwritten *loglimit.Limit
}

// unwrittenLogEvery is the time between two lines about failed markers.
const unwrittenLogEvery = 10 * time.Second

type op = coordinator.Op[*shard]

// NewService coordinates nothing until BecomeLeader.
func NewService(o Options) *Service {
	s := &Service{o: o, unwritten: loglimit.New(o.Clock, unwrittenLogEvery)}
	s.rt = coordinator.NewRuntime(coordinator.Options[*shard]{
		Clock: o.Clock, Log: o.Log, CommitTimeoutMs: o.Config.CommitTimeoutMs, LoadBufferBytes: o.Config.LoadBufferBytes, Loads: o.Config.Loads,
		New: func(partition int32) *shard { return newShard(s, partition) },
	})
	return s
}

// BecomeLeader loads the transactional ids of a partition of __transaction_state in the background.
func (s *Service) BecomeLeader(partition, epoch int32, log coordinator.PartitionLog) {
	s.rt.BecomeLeader(partition, epoch, log)
}

// Resign drops the ids of a partition that was led at epoch or before.
func (s *Service) Resign(partition, epoch int32) { s.rt.Resign(partition, epoch) }

// Close answers every parked request and returns when nothing of the coordinator runs any more.
func (s *Service) Close() { s.rt.Close() }

// PartitionFor is the partition of __transaction_state that a transactional id lives on.
func (s *Service) PartitionFor(id string) int32 { return coordinator.PartitionOf(id, s.o.Partitions()) }

// submit runs an operation on an id's shard; refuse gets the error when the shard cannot serve.
func (s *Service) submit(id string, run func(*shard, *coordinator.Tx), refuse func(error)) {
	s.rt.Submit(s.PartitionFor(id), op{Key: id, Run: run, Refuse: refuse})
}

// ProducerEpoch is a producer's id and epoch.
type ProducerEpoch struct {
	ID    int64
	Epoch int16
}

// NoProducer is what goes with an error.
var NoProducer = ProducerEpoch{noProducerID, noEpoch}

func (m *metadata) producer() ProducerEpoch { return ProducerEpoch{m.producerID, m.epoch} }

// replyError answers err once all that it rests on is committed.
func replyError(tx *coordinator.Tx, err error, answer func(error)) {
	tx.Reply(func(failed error) {
		if failed != nil {
			err = failed
		}
		answer(err)
	})
}

// check refuses who is not the producer of e, in Kafka's order; nil means that the id is not known.
func (e *entry) check(p ProducerEpoch) error {
	switch {
	case e == nil || e.producerID != p.ID:
		return kerr.InvalidProducerIDMapping
	case e.epoch != p.Epoch:
		return kerr.ProducerFenced
	}
	return nil
}
