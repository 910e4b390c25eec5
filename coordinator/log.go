// Package coordinator is the runtime that groups and transactions share: a shard is one partition of an internal
// topic, owned by one goroutine at a time while this broker leads it. Decide, append, apply.
package coordinator

import "grete/protocol/batch"

// PartitionLog is the partition that a shard lives on, declared here and satisfied by an adapter over cluster/replica.
// Errors should wrap a Kafka error (kerr) where there is one; what a client is told is decided by Code.
type PartitionLog interface {
	// Append writes one batch as leader of epoch and returns the offset after it.
	Append(epoch int32, b batch.Batch) (end int64, err error)
	// AppendGuarded writes a batch of a producer's transaction; guard must still be the log's proof that the
	// transaction is open, unless it is 0: then none is asked for.
	AppendGuarded(epoch int32, b batch.Batch, guard uint64) (end int64, err error)
	// AppendMarker writes a batch that ends a producer's transaction of that version (transaction.version).
	AppendMarker(epoch int32, b batch.Batch, transactionVersion int8) (end int64, err error)
	// AwaitCommitted calls done, possibly at once, when the high watermark has reached end, or with an error when the
	// leadership of epoch has ended first.
	AwaitCommitted(epoch int32, end int64, done func(error))
	// Read returns whole batches from offset, at least one when offset < EndOffset.
	Read(offset int64, maxBytes int) ([]byte, error)
	StartOffset() int64
	HighWatermark() int64
	// EndOffset is the log end: a new leader loads up to it, for what lies above the high watermark may still commit.
	EndOffset() int64
}
