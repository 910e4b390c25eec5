package replica

import "math"

// DeleteToHighWatermark is the offset of DeleteRecords that means everything committed.
const DeleteToHighWatermark = int64(-1)

// Deletion is done when the low watermark has reached Required.
type Deletion struct{ Required, LowWatermark int64 }

// Done says whether no replica that lives has the records any more.
func (d Deletion) Done() bool { return d.LowWatermark >= d.Required }

// DeleteRecords raises the log start to offset. Followers learn it from their next fetch.
func (p *Partition) DeleteRecords(offset int64) (Deletion, error) {
	s, err := p.check(NoEpoch, true)
	if err != nil {
		return Deletion{}, err
	}
	if !s.config.Log.Delete {
		return Deletion{}, p.fail(ErrPolicyViolation)
	}
	hw := s.log.HighWatermark()
	if offset == DeleteToHighWatermark {
		offset = hw
	}
	if offset < 0 || offset > hw {
		return Deletion{}, p.fail(ErrOffsetOutOfRange)
	}
	if offset > s.log.StartOffset() {
		if err := s.log.AdvanceStart(offset); err != nil {
			return Deletion{}, p.fail(logError(err))
		}
		p.wake()
	}
	low, err := p.LowWatermark()
	return Deletion{offset, low}, err
}

// LowWatermark is the first offset that any replica has whose broker lives; -1 while one of them has not fetched in
// this leadership (Partition.lowWatermarkIfLeader). Watchers are told when it moves.
func (p *Partition) LowWatermark() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.check(NoEpoch, true)
	if err != nil {
		return -1, err
	}
	low := int64(math.MaxInt64)
	for _, f := range p.followers {
		if p.brokers.alive(f.id) {
			low = min(low, f.logStart)
		}
	}
	return min(low, s.log.StartOffset()), nil
}
