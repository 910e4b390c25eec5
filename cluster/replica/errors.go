package replica

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/logstore"
)

// What a partition of this broker may refuse. Each wraps the Kafka error that a client gets for it.
var (
	ErrUnknownTopicOrPartition     = sentinel("unknown topic or partition", kerr.UnknownTopicOrPartition)
	ErrUnknownTopicID              = sentinel("unknown topic id", kerr.UnknownTopicID)
	ErrNotLeader                   = sentinel("not the leader of the partition", kerr.NotLeaderForPartition)
	ErrFencedLeaderEpoch           = sentinel("leader epoch is older than the partition's", kerr.FencedLeaderEpoch)
	ErrUnknownLeaderEpoch          = sentinel("leader epoch is newer than the partition's", kerr.UnknownLeaderEpoch)
	ErrOffline                     = sentinel("log cannot be used", kerr.KafkaStorageError)
	ErrNotEnoughReplicas           = sentinel("fewer in-sync replicas than min.insync.replicas", kerr.NotEnoughReplicas)
	ErrNotEnoughReplicasAfterWrite = sentinel("written, but in-sync replicas fell below min.insync.replicas", kerr.NotEnoughReplicasAfterAppend)
	ErrOffsetOutOfRange            = sentinel("offset is outside of the log", kerr.OffsetOutOfRange)
	ErrOffsetNotAvailable          = sentinel("high watermark has not reached the start of the leader's epoch", kerr.OffsetNotAvailable)
	ErrNegativeSize                = sentinel("fetch of a negative size", kerr.UnknownServerError)
	ErrUnknownLogDir               = sentinel("no such log directory", kerr.LogDirNotFound)
	ErrTopicTooLong                = sentinel("the topic's name is too long for its log to be moved", kerr.InvalidTopicException)
	ErrPolicyViolation             = sentinel("cleanup.policy does not allow to delete records", kerr.PolicyViolation)
)

func sentinel(text string, code *kerr.Error) error { return fmt.Errorf("replica: %s: %w", text, code) }

// Error is a failure of one partition.
type Error struct {
	Topic     string
	Partition int32
	Err       error
}

func (e *Error) Error() string { return fmt.Sprintf("%s-%d: %v", e.Topic, e.Partition, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// logError gives the log's complaints this package's names, where it has one.
func logError(err error) error {
	switch {
	case errors.Is(err, logstore.ErrOffsetOutOfRange):
		return ErrOffsetOutOfRange // it may have lost the offset since that was checked
	case errors.Is(err, logstore.ErrOffline), errors.Is(err, logstore.ErrClosed):
		return offlineError(err)
	}
	return err
}

// offlineError keeps the reason and answers to ErrOffline.
func offlineError(reason error) error { return errors.Join(ErrOffline, reason) }
