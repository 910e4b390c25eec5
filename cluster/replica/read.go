package replica

import (
	"slices"

	"grete/logstore"
	"grete/protocol/batch"
)

// Isolation is what a read may see.
type Isolation int8

const (
	ReadUncommitted Isolation = iota // up to the high watermark
	ReadCommitted                    // up to the last stable offset, with the list of aborted transactions
	ReadLogEnd                       // everything: replicas and debugging tools
)

// ReadRequest asks one partition for batches.
type ReadRequest struct {
	Offset             int64
	CurrentLeaderEpoch int32 // NoEpoch: not checked
	LastFetchedEpoch   int32 // NoEpoch: divergence is not looked for
	MaxBytes           int
	MinOneBatch        bool // the first batch comes whole whatever MaxBytes says
	Isolation          Isolation
	LeaderOnly         bool
	ReplicaID          int32 // below 0: not a follower
	// Rack is the client's, "" when it has none; Listener is what it reaches brokers at.
	Rack, Listener string
}

// EpochEnd is an epoch and the offset after its last record; -1, -1 when unknown.
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// ReadResult is what a partition answered. Span is nil when there is nothing to send; otherwise the caller releases it.
type ReadResult struct {
	HighWatermark, LastStableOffset, LogStartOffset int64
	LogEndOffset                                    int64
	LeaderEpoch                                     int32 // under which it was read
	Diverging                                       *EpochEnd
	Preferred                                       int32 // replica to read from instead, or NoPreferredReplica
	Span                                            *logstore.Span
}

// SizeBytes is the size of the records.
func (r *ReadResult) SizeBytes() int {
	if r.Span == nil {
		return 0
	}
	return r.Span.SizeBytes
}

// Read serves a fetch of one partition.
func (p *Partition) Read(r ReadRequest) (ReadResult, error) {
	s, err := p.check(r.CurrentLeaderEpoch, r.LeaderOnly)
	if err != nil {
		return ReadResult{}, err
	}
	if r.ReplicaID >= 0 && (r.ReplicaID == p.nodeID || !slices.Contains(s.replicas, r.ReplicaID)) {
		return ReadResult{}, p.fail(unrecognized(r))
	}
	at := s.log.Offsets() // before the read, so that what is appended meanwhile makes none of them too large
	res := ReadResult{
		HighWatermark:    at.HighWatermark,
		LastStableOffset: at.LastStable,
		LogStartOffset:   at.Start,
		LogEndOffset:     at.End,
		LeaderEpoch:      s.leaderEpoch,
		Preferred:        p.preferred(s, r),
	}
	if res.Preferred != NoPreferredReplica {
		return res, nil
	}
	end := res.LogEndOffset
	if r.LastFetchedEpoch != NoEpoch {
		res.Diverging, err = p.diverging(s, r, res.LogStartOffset)
		if err != nil || res.Diverging != nil {
			return res, err
		}
	}
	if r.Offset < res.LogStartOffset || r.Offset > end {
		return ReadResult{}, p.fail(ErrOffsetOutOfRange)
	}
	bound := res.bound(r.Isolation, end)
	if r.Offset >= bound || r.ReplicaID >= 0 && p.leaderThrottles(s, r.ReplicaID) {
		return res, nil
	}
	if r.MaxBytes < 0 { // Kafka notices only where there is something to read
		return ReadResult{}, p.fail(ErrNegativeSize)
	}
	res.Span, err = s.log.Read(r.Offset, logstore.ReadOptions{
		MaxBytes: r.MaxBytes, Bound: bound, MinOneBatch: r.MinOneBatch, Aborted: r.Isolation == ReadCommitted,
	})
	if err != nil {
		return ReadResult{}, p.fail(logError(err))
	}
	if err := res.dropCutBatch(r); err != nil {
		return ReadResult{}, p.fail(err)
	}
	return res, nil
}

// dropCutBatch empties a result that has not even its first batch whole: no reader can use that (KIP-74).
func (r *ReadResult) dropCutBatch(req ReadRequest) error {
	if req.MinOneBatch || r.Span.SizeBytes < req.MaxBytes {
		return nil
	}
	if r.Span.SizeBytes >= batch.HeaderSize {
		var head [batch.Overhead]byte
		if _, err := r.Span.Regions[0].File.ReadAt(head[:], r.Span.Regions[0].OffsetBytes); err != nil {
			r.Span.Release()
			return err
		}
		if batch.Batch(head[:]).SizeBytes() <= r.Span.SizeBytes {
			return nil
		}
	}
	r.Span.Release()
	r.Span = nil
	return nil
}

// unrecognized is the answer to a follower that is not assigned to the partition: one that knows the epoch may know of
// a reassignment before this broker does.
func unrecognized(r ReadRequest) error {
	if r.CurrentLeaderEpoch != NoEpoch {
		return ErrUnknownLeaderEpoch
	}
	return ErrNotLeader
}

// bound is the exclusive end of what isolation may see; end is the log's.
func (r *ReadResult) bound(isolation Isolation, end int64) int64 {
	switch isolation {
	case ReadCommitted:
		return r.LastStableOffset
	case ReadLogEnd:
		return end
	}
	return r.HighWatermark
}

// diverging finds where a reader's log and this one part (KIP-595): nil while they agree up to r.Offset.
func (p *Partition) diverging(s *state, r ReadRequest, start int64) (*EpochEnd, error) {
	epoch, end := s.log.EpochEnd(r.LastFetchedEpoch)
	if epoch < 0 || end < 0 || r.Offset < start {
		return nil, p.fail(ErrOffsetOutOfRange)
	}
	if epoch < r.LastFetchedEpoch || end < r.Offset {
		return &EpochEnd{Epoch: epoch, EndOffset: end}, nil
	}
	return nil, nil
}

// Stale says whether a read that found end as its visible end would find something else, or fail, if repeated.
func (p *Partition) Stale(r ReadRequest, end int64) bool {
	if _, err := p.check(r.CurrentLeaderEpoch, r.LeaderOnly); err != nil {
		return true
	}
	return p.VisibleEnd(r.Isolation) != end || r.Offset < p.LogStartOffset()
}

// VisibleEnd is the exclusive end of what isolation sees now, -1 while the log is offline.
func (p *Partition) VisibleEnd(isolation Isolation) int64 {
	s := p.state.Load()
	if s.log == nil {
		return -1
	}
	switch isolation {
	case ReadCommitted:
		return s.log.LastStableOffset()
	case ReadLogEnd:
		return s.log.EndOffset()
	}
	return s.log.HighWatermark()
}

// LogStartOffset is the first offset that can be read, -1 while the log is offline.
func (p *Partition) LogStartOffset() int64 {
	if log := p.Log(); log != nil {
		return log.StartOffset()
	}
	return -1
}
