package replica

import (
	"errors"

	"grete/logstore"
	"grete/protocol/batch"
)

// position is where a follower's next fetch begins, and the leadership under which that holds.
type position struct {
	leaderEpoch int32
	offset      int64 // the log's end
	lastEpoch   int32 // of the log's last record, -1 when there is none
	logStart    int64
}

// errNotDurable: flush.messages wants the log's end to be fsynced before the leader is told of it.
var errNotDurable = errors.New("the log's end is not durable")

// following names whom the partition follows; follows is false when it does not.
func (p *Partition) following() (leader, epoch int32, follows bool) {
	s := p.state.Load()
	return s.leader, s.leaderEpoch, s.leader >= 0 && s.leader != p.nodeID && s.offline == nil
}

// position is that of a follower of epoch, or errNotDurable. Before the first fetch of a log that knows no epoch, what
// is not committed goes: nobody could find out that it diverges.
func (p *Partition) position(epoch int32) (position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.followed(epoch)
	if err != nil {
		return position{}, err
	}
	if s.log.LatestEpoch() < 0 && s.log.EndOffset() > s.log.HighWatermark() {
		if err := p.cutTo(s, s.log.HighWatermark()); err != nil {
			return position{}, p.fail(logError(err))
		}
	}
	if s.owesFlush() {
		return position{}, p.fail(errNotDurable)
	}
	return position{epoch, s.log.EndOffset(), s.log.LatestEpoch(), s.log.StartOffset()}, nil
}

// followed returns the state while this broker follows at epoch; p.mu is held, so that nothing of another leadership
// gets into the log.
func (p *Partition) followed(epoch int32) (*state, error) {
	s := p.state.Load()
	switch {
	case s.offline != nil:
		return nil, p.fail(s.offline)
	case s.leader == p.nodeID || s.leaderEpoch != epoch:
		return nil, p.fail(ErrFencedLeaderEpoch)
	}
	return s, nil
}

// fetched is what a leader sent of a partition.
type fetched struct {
	offset                  int64 // that was asked for
	records                 []byte
	highWatermark, logStart int64
}

// replicate appends what the leader of epoch sent, as it is, and takes over its high watermark and log start.
func (p *Partition) replicate(epoch int32, f fetched) error {
	p.mu.Lock()
	s, err := p.followed(epoch)
	if err == nil && s.log.EndOffset() != f.offset {
		err = p.fail(ErrOffsetOutOfRange) // it was truncated meanwhile: the next fetch asks anew
	}
	changed := false
	if err == nil {
		changed, err = p.replicateLocked(s, f)
		p.noteLack(err, len(f.records) > 0)
	}
	full := p.lacks >= tellAfter
	p.mu.Unlock()
	if changed {
		p.wake()
	}
	if full {
		p.assigner.submit(p)
	}
	return err
}

// noteLack counts appends that found no room; one that did begins anew. p.mu is held.
func (p *Partition) noteLack(err error, appended bool) {
	switch {
	case logstore.Heals(err):
		p.lacks++
	case err == nil && appended:
		p.lacks = 0
	}
}

func (p *Partition) replicateLocked(s *state, f fetched) (changed bool, err error) {
	records, err := wholeBatches(f.records)
	if err != nil {
		return false, p.fail(err)
	}
	if len(records) > 0 {
		if err := appendFetched(s.log, records); err != nil {
			return false, p.fail(logError(err))
		}
		p.stats.ReplicationBytesIn.Add(int64(len(records)))
		p.countFetched(len(records))
		changed = true
	}
	if hw := min(f.highWatermark, s.log.EndOffset()); hw > s.log.HighWatermark() {
		s.log.SetHighWatermark(hw)
		changed = true
	}
	if start := min(f.logStart, s.log.HighWatermark()); start > s.log.StartOffset() {
		if err := s.log.AdvanceStart(start); err != nil {
			return changed, p.fail(logError(err))
		}
		changed = true
	}
	return changed, nil
}

// appendFetched appends batches. An empty log whose start lies within the first batch, because the leader's does,
// begins with that batch.
func appendFetched(log *logstore.Log, records []byte) error {
	first, _, err := batch.Next(records)
	if err != nil {
		return err
	}
	start, end := log.StartOffset(), log.EndOffset()
	if start == end && first.BaseOffset() < end && first.LastOffset() >= end {
		if err := log.RestartAt(first.BaseOffset()); err != nil {
			return err
		}
	}
	return log.AppendAsFollower(records)
}

// reconcile truncates to where this log and the leader's part at the latest; a fetch from there tells whether they
// agree by then (KIP-595, AbstractFetcherThread.getOffsetTruncationState).
func (p *Partition) reconcile(epoch int32, leaders EpochEnd) error {
	return p.truncate(epoch, func(log *logstore.Log) (int64, error) {
		if leaders.Epoch < 0 || leaders.EndOffset < 0 {
			return log.HighWatermark(), nil
		}
		to := min(leaders.EndOffset, log.EndOffset())
		if _, end := log.EpochEnd(leaders.Epoch); end >= 0 {
			to = min(to, end)
		}
		return to, nil
	})
}

var errNothingInCommon = errors.New("the logs have nothing in common")

// resume goes on at the leader's log when this log's end is outside of it.
func (p *Partition) resume(epoch int32, leaderStart, leaderEnd int64) error {
	err := p.truncate(epoch, func(log *logstore.Log) (int64, error) {
		switch end := log.EndOffset(); {
		case leaderEnd < end && leaderEnd >= log.StartOffset():
			return leaderEnd, nil
		case leaderEnd < end, leaderStart > end:
			return -1, errNothingInCommon
		default:
			return end, nil
		}
	})
	if !errors.Is(err, errNothingInCommon) {
		return err
	}
	return p.restart(epoch, leaderStart)
}

func (p *Partition) truncate(epoch int32, where func(*logstore.Log) (int64, error)) error {
	p.mu.Lock()
	s, err := p.followed(epoch)
	if err == nil {
		var to int64
		if to, err = where(s.log); err == nil {
			err = p.cutTo(s, to)
		}
	}
	p.mu.Unlock()
	p.wake()
	return err
}

// restart drops the whole log.
func (p *Partition) restart(epoch int32, offset int64) error {
	p.mu.Lock()
	s, err := p.followed(epoch)
	if err == nil {
		err = p.restartAt(s, offset)
	}
	p.mu.Unlock()
	p.wake()
	return err
}
