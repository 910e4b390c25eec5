package coordinator

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Each sentinel wraps the Kafka error that a client gets for it.
var (
	// ErrNotCoordinator: this broker does not lead the shard's partition, or has lost it.
	ErrNotCoordinator = fmt.Errorf("coordinator: shard not led here: %w", kerr.NotCoordinator)
	// ErrLoading: the shard is still reading its log.
	ErrLoading = fmt.Errorf("coordinator: shard is loading: %w", kerr.CoordinatorLoadInProgress)
	// ErrOverloaded: a bound of the shard is reached; the code is the one that clients retry on the same broker.
	ErrOverloaded = fmt.Errorf("coordinator: shard is overloaded: %w", kerr.CoordinatorLoadInProgress)
	// ErrCommitTimeout: what was appended did not commit within offsets.commit.timeout.ms.
	ErrCommitTimeout = fmt.Errorf("coordinator: not committed in time: %w", kerr.CoordinatorNotAvailable)
	// ErrClosed: the runtime is shutting down.
	ErrClosed = fmt.Errorf("coordinator: shutting down: %w", kerr.CoordinatorNotAvailable)
	// ErrCorrupt: the shard's log holds something that cannot be read; the shard is not served.
	ErrCorrupt = errors.New("coordinator: corrupt log")
)

// ShardError says which shard failed, and where in its log.
type ShardError struct {
	Partition int32
	Epoch     int32
	Offset    int64
	Err       error
}

func (e *ShardError) Error() string {
	return fmt.Sprintf("shard %d (epoch %d) at offset %d: %v", e.Partition, e.Epoch, e.Offset, e.Err)
}

func (e *ShardError) Unwrap() error { return e.Err }

// Code is the Kafka code that a client gets for an operation that failed with err; errors of the partition are
// translated as Kafka's coordinators translate them.
func Code(err error) int16 {
	var k *kerr.Error
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &k):
		return kerr.CoordinatorNotAvailable.Code
	}
	switch k {
	case kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut:
		return kerr.CoordinatorNotAvailable.Code
	case kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.KafkaStorageError:
		return kerr.NotCoordinator.Code
	case kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidFetchSize:
		return kerr.UnknownServerError.Code
	}
	return k.Code
}
