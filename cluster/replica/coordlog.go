package replica

import (
	"errors"

	"grete/coordinator"
	"grete/logstore"
	"grete/protocol/batch"
)

// coordinatorLog is a partition of an internal topic as the coordinators see it.
type coordinatorLog struct{ p *Partition }

// CoordinatorLog adapts the partition for a coordinator's shard.
func (p *Partition) CoordinatorLog() coordinator.PartitionLog { return coordinatorLog{p} }

func (c coordinatorLog) Append(epoch int32, b batch.Batch) (int64, error) {
	return c.append(b, epoch, logstore.AppendOptions{Coordinator: true})
}

func (c coordinatorLog) AppendGuarded(epoch int32, b batch.Batch, guard uint64) (int64, error) {
	return c.append(b, epoch, logstore.AppendOptions{Coordinator: true, Guard: guard})
}

func (c coordinatorLog) AppendMarker(epoch int32, b batch.Batch, transactionVersion int8) (int64, error) {
	return endOf(c.p.appendMarker(b, epoch, transactionVersion))
}

func (c coordinatorLog) append(b batch.Batch, epoch int32, o logstore.AppendOptions) (int64, error) {
	return endOf(c.p.append(b, epoch, true, o))
}

func endOf(a Appended, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return a.LastOffset + 1, nil
}

func (c coordinatorLog) AwaitCommitted(epoch int32, end int64, done func(error)) {
	c.p.AwaitCommitted(epoch, end, done)
}

func (c coordinatorLog) Read(offset int64, maxBytes int) ([]byte, error) {
	res, err := c.p.Read(ReadRequest{
		Offset: offset, CurrentLeaderEpoch: NoEpoch, LastFetchedEpoch: NoEpoch, ReplicaID: -1,
		MaxBytes: maxBytes, MinOneBatch: true, LeaderOnly: true, Isolation: ReadLogEnd,
	})
	if err != nil || res.Span == nil {
		return nil, err
	}
	defer res.Span.Release()
	raw, err := res.Span.ReadAll()
	if err != nil {
		return nil, c.p.fail(err)
	}
	return wholeBatches(raw)
}

// wholeBatches drops a cut last batch.
func wholeBatches(raw []byte) ([]byte, error) {
	rest := raw
	for len(rest) > 0 {
		_, after, err := batch.Next(rest)
		if errors.Is(err, batch.ErrShort) {
			break
		}
		if err != nil {
			return nil, err
		}
		rest = after
	}
	return raw[:len(raw)-len(rest)], nil
}

func (c coordinatorLog) StartOffset() int64   { return c.offset((*logstore.Log).StartOffset) }
func (c coordinatorLog) HighWatermark() int64 { return c.offset((*logstore.Log).HighWatermark) }
func (c coordinatorLog) EndOffset() int64     { return c.offset((*logstore.Log).EndOffset) }

func (c coordinatorLog) offset(of func(*logstore.Log) int64) int64 {
	log := c.p.Log()
	if log == nil {
		return 0
	}
	return of(log)
}
