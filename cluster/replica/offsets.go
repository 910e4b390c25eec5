package replica

import "grete/logstore"

// Timestamps of ListOffsets that name a position (ListOffsetsRequest).
const (
	TimestampLatest          = int64(-1)
	TimestampEarliest        = int64(-2)
	TimestampMax             = int64(-3) // v7, KIP-734
	TimestampEarliestLocal   = int64(-4) // v8, KIP-405
	TimestampLatestTiered    = int64(-5) // v9, KIP-1005
	TimestampEarliestPending = int64(-6) // v11, KIP-1023
)

// OffsetRequest asks for the offset at a timestamp.
type OffsetRequest struct {
	TimestampMs        int64
	CurrentLeaderEpoch int32
	Isolation          Isolation // ReadLogEnd for requests that are not a client's
	LeaderOnly         bool
}

var noOffset = logstore.TimestampOffset{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}

// OffsetFor answers ListOffsets; offset -1 when no record matches.
func (p *Partition) OffsetFor(r OffsetRequest) (logstore.TimestampOffset, error) {
	s, err := p.check(r.CurrentLeaderEpoch, r.LeaderOnly)
	if err != nil {
		return noOffset, err
	}
	switch r.TimestampMs {
	case TimestampEarliest, TimestampEarliestLocal:
		return startOf(s.log), nil
	case TimestampLatest:
		if err := p.lagging(s, r); err != nil {
			return noOffset, err
		}
		return logstore.TimestampOffset{Offset: p.VisibleEnd(r.Isolation), TimestampMs: -1, LeaderEpoch: s.leaderEpoch}, nil
	case TimestampLatestTiered, TimestampEarliestPending: // nothing is ever tiered
		return noOffset, p.lagging(s, r)
	}
	found, err := search(s.log, r.TimestampMs)
	if err != nil {
		return noOffset, p.fail(logError(err))
	}
	if found.Offset < 0 || found.Offset >= p.VisibleEnd(r.Isolation) {
		return noOffset, p.lagging(s, r)
	}
	return found, nil
}

func search(log *logstore.Log, timestampMs int64) (logstore.TimestampOffset, error) {
	if timestampMs == TimestampMax {
		return log.MaxTimestampOffset()
	}
	return log.OffsetForTimestamp(timestampMs)
}

func startOf(log *logstore.Log) logstore.TimestampOffset {
	start := log.StartOffset()
	return logstore.TimestampOffset{Offset: start, TimestampMs: -1, LeaderEpoch: log.EpochAt(start)}
}

// lagging complains to clients while the high watermark has not reached this leadership's first offset: an answer
// could go backwards from what the leader before gave (KIP-207).
func (p *Partition) lagging(s *state, r OffsetRequest) error {
	if r.Isolation != ReadLogEnd && s.leads(p.nodeID) && s.epochStart > s.log.HighWatermark() {
		return p.fail(ErrOffsetNotAvailable)
	}
	return nil
}

// EpochEndOffset answers OffsetForLeaderEpoch.
func (p *Partition) EpochEndOffset(currentLeaderEpoch, epoch int32) (EpochEnd, error) {
	s, err := p.check(currentLeaderEpoch, true)
	if err != nil {
		return EpochEnd{-1, -1}, err
	}
	found, end := s.log.EpochEnd(epoch)
	return EpochEnd{Epoch: found, EndOffset: end}, nil
}
