package logstore

import (
	"errors"
	"io"
	"io/fs"

	"grete/protocol/batch"
)

// loadState is what the log directory's checkpoints say of a log.
type loadState struct {
	clean                          bool
	checkpointed                   bool // the recovery point checkpoint was there
	recovery, start, highWatermark int64
}

// load opens the log from its directory: after a clean stop by looking at the ends of files, else by walking the
// segments from that of the recovery point on and cutting what is not whole.
func (l *Log) load(state loadState) error {
	files, err := l.tidy()
	if err != nil {
		return err
	}
	if err := l.readPartitionMetadata(); err != nil {
		return err
	}
	segments := make([]*segment, 0, len(files.bases)+1)
	for _, base := range files.bases {
		segments = append(segments, l.newSegment(base, files.sizes[base]))
	}
	if len(segments) == 0 {
		return l.loadEmpty(state)
	}
	below := 0
	for below+1 < len(segments) && segments[below+1].base <= state.start {
		below++
	}
	l.setSegments(segments[below:])
	if err := l.removeSegments(segments[:below]); err != nil { // as a crash interrupted it
		return err
	}
	l.start.Store(max(state.start, l.segments()[0].base))
	l.recovery.Store(state.recovery)
	epochsKnown, err := l.readEpochs()
	if err != nil {
		return err
	}
	end, epoch, err := l.findEnd(state)
	if err != nil {
		return err
	}
	if end < l.start.Load() {
		l.store.o.Log.Error().Str("log", l.id.String()).Int64("end", end).Int64("start", l.start.Load()).
			Msg("log ends below its start offset: its files were removed or lost; starting empty")
		return l.discard()
	}
	if !epochsKnown || l.contradicts(epoch, end) {
		if err := l.rebuildEpochs(end); err != nil {
			return err
		}
	}
	return l.finishLoad(state, end)
}

// loadEmpty gives a directory without segments its first one, where its start offset says.
func (l *Log) loadEmpty(state loadState) error {
	first := l.newSegment(state.start, 0)
	if err := first.create(); err != nil {
		return err
	}
	l.entries.made++
	l.setSegments([]*segment{first})
	l.start.Store(state.start)
	if _, err := l.readEpochs(); err != nil {
		return err
	}
	return l.finishLoad(state, state.start)
}

// discard drops all segments of a log that lost its files and restarts it at its start offset.
func (l *Log) discard() error {
	start := l.start.Load()
	l.firstUnstable.Store(noUnstable)
	return l.restartAt(start)
}

// finishLoad publishes the state of a log whose segments are in order.
func (l *Log) finishLoad(state loadState, end int64) error {
	active := l.active()
	l.tail.reset(active.base, end, active.size.Load())
	durable := min(state.recovery, end)
	if state.clean {
		durable = end
	}
	l.durable.Store(durable)
	l.recovery.Store(durable)
	l.highWatermark.Store(max(min(state.highWatermark, end), l.start.Load()))
	l.epochs.cutEnd(end)
	l.epochs.cutStart(l.start.Load())
	if err := l.checkTxnIndexes(state.clean); err != nil {
		return err
	}
	return l.loadProducers(end)
}

func (l *Log) loadProducers(end int64) error {
	if l.producers.end != end {
		return l.rebuildProducers(end)
	}
	l.advanceUnstable()
	return nil
}

// findEnd is the log end: of a cleanly closed log read from its last segment, else found by recovery. epoch is its last
// batch's, -1 when that was not looked at.
func (l *Log) findEnd(state loadState) (end int64, epoch int32, err error) {
	if !state.clean {
		end, err = l.recover(state)
		return end, -1, err
	}
	s := l.active()
	size := s.size.Load()
	if size == 0 {
		return s.base, -1, nil
	}
	pos, err := s.positionNear(s.base + maxRelativeOffset)
	if err != nil {
		return 0, -1, err
	}
	o, err := s.openData()
	if err != nil {
		return 0, -1, err
	}
	defer o.release()
	end, epoch, err = walkEnd(o, pos, size, s.base)
	if errors.Is(err, ErrCorrupt) {
		// Something wrote to the log after its clean stop, or cut it: trust nothing above the recovery point.
		l.store.o.Log.Error().Str("log", l.id.String()).Err(err).Msg("cleanly closed log is damaged: recovering it")
		state.recovery = min(state.recovery, s.base)
		end, err = l.recover(state)
		return end, -1, err
	}
	return end, epoch, err
}

// walkEnd is the offset after the last batch, and that batch's epoch, -1 without any; ErrCorrupt when something else
// than batches follows pos.
func walkEnd(r io.ReaderAt, pos, size, base int64) (end int64, epoch int32, err error) {
	end, epoch = base, -1
	err = walkHeaders(r, pos, size, func(_ int64, h batch.Batch) bool {
		end, epoch = h.LastOffset()+1, h.PartitionLeaderEpoch()
		return true
	})
	return end, epoch, err
}

// contradicts says whether the epoch checkpoint has another epoch for the last record, below end, than its batch: a
// follower that tells the leader of an epoch that the leader never had would get no further.
func (l *Log) contradicts(epoch int32, end int64) bool {
	if epoch < 0 || l.epochs.at(end-1) == epoch {
		return false
	}
	l.store.o.Log.Warn().Str("log", l.id.String()).Int32("epoch", l.epochs.at(end-1)).Int32("batch", epoch).
		Msg("rebuilding the leader epoch checkpoint, which contradicts the last batch")
	l.epochs.set(nil, true)
	return true
}

// readEpochs loads the epoch checkpoint; false when it is missing or garbled. The error of one that cannot be read now
// heals.
func (l *Log) readEpochs() (known bool, err error) {
	data, err := readFile(l.store.o.FS, l.file(leaderEpochFile))
	if err == nil {
		var epochs []epochEntry
		if epochs, err = parseEpochs(data); err == nil {
			l.epochs.set(epochs, false)
			l.epochs.written = epochs
			return true, nil
		}
	}
	if Heals(err) {
		return false, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		l.store.o.Log.Warn().Str("log", l.id.String()).Err(err).Msg("rebuilding the leader epoch checkpoint")
		l.epochs.unwritten()
	}
	return false, nil
}

// rebuildEpochs finds the epochs in the batches.
func (l *Log) rebuildEpochs(end int64) error {
	return l.replay(l.start.Load(), end, func(_ *segment, b batch.Batch) {
		if epoch := b.PartitionLeaderEpoch(); epoch > l.epochs.latest() {
			l.epochs.assign(epoch, max(b.BaseOffset(), l.start.Load()))
		}
	})
}
