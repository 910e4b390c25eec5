package logstore

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"grete/internal/sched"
	"grete/protocol/batch"
)

// AppendInfo says where a batch went. For a duplicate (same producer, epoch and sequences as one of the last
// five) nothing was written and the offsets are the original's.
type AppendInfo struct {
	BaseOffset, LastOffset int64
	LogStartOffset         int64
	LogAppendTimeMs        int64 // -1 for CreateTime, unless it is a duplicate
	Duplicate              bool
	FlushDue               bool // flush.messages reached: the caller acknowledges only after Flush covers LastOffset
}

// Append writes one validated batch as leader of epoch: producer state check, offsets, one positional
// write, sparse index, producer state. b is altered in place (base offset, epoch).
func (l *Log) Append(b batch.Batch, epoch int32) (AppendInfo, error) {
	return l.AppendWith(b, epoch, AppendOptions{})
}

// AppendWith is Append for batches of transactions, or of this broker's coordinators.
func (l *Log) AppendWith(b batch.Batch, epoch int32, o AppendOptions) (AppendInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable("append"); err != nil {
		return AppendInfo{}, err
	}
	duplicate, err := l.producers.check(b, o)
	if err != nil {
		return AppendInfo{}, l.fault("append", l.EndOffset(), err)
	}
	if duplicate != nil {
		return l.repeated(duplicate), nil
	}
	base := l.EndOffset()
	b.SetBaseOffset(base)
	b.SetPartitionLeaderEpoch(epoch)
	if err := l.writeBatches(b, span{base, b.LastOffset(), b.MaxTimestamp()}); err != nil {
		return AppendInfo{}, err
	}
	return l.appended(b, base), nil
}

func (l *Log) appended(b batch.Batch, base int64) AppendInfo {
	end := l.EndOffset()
	info := AppendInfo{
		BaseOffset: base, LastOffset: end - 1,
		LogStartOffset: l.start.Load(), LogAppendTimeMs: batch.NoTimestamp,
		FlushDue: end-l.durable.Load() >= l.config().FlushMessages,
	}
	if b.TimestampType() == batch.LogAppendTime {
		info.LogAppendTimeMs = b.MaxTimestamp()
	}
	return info
}

// repeated answers a batch that is in the log already; like Kafka it gives the batch's timestamp of whatever type.
func (l *Log) repeated(m *batchMeta) AppendInfo {
	return AppendInfo{
		BaseOffset: m.firstOffset(), LastOffset: m.lastOffset,
		LogStartOffset: l.start.Load(), LogAppendTimeMs: m.timestampMs,
		Duplicate: true,
		FlushDue:  m.lastOffset >= l.durable.Load() && l.EndOffset()-l.durable.Load() >= l.config().FlushMessages,
	}
}

// AppendAsFollower writes whole batches as they are; offsets must follow the log end.
func (l *Log) AppendAsFollower(raw []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable("append"); err != nil {
		return err
	}
	for len(raw) > 0 {
		group, s, err := l.nextGroup(raw)
		if err != nil {
			return l.fault("append", l.EndOffset(), err)
		}
		if err := l.writeBatches(group, s); err != nil {
			return err
		}
		raw = raw[len(group):]
	}
	return nil
}

// span is what a run of batches covers.
type span struct{ first, last, maxTimestampMs int64 }

// nextGroup cuts off as many whole, valid batches as fit a segment, one at least.
func (l *Log) nextGroup(raw []byte) ([]byte, span, error) {
	s := span{-1, l.EndOffset() - 1, batch.NoTimestamp}
	size := 0
	for size < len(raw) {
		b, _, err := batch.Next(raw[size:])
		if err != nil {
			return nil, s, err
		}
		if !b.ChecksumOK() {
			return nil, s, fmt.Errorf("%w: bad checksum", ErrCorrupt)
		}
		if b.BaseOffset() <= s.last || b.LastOffset() < b.BaseOffset() {
			return nil, s, fmt.Errorf("%w: batch %d-%d after %d", ErrOffsetOrder, b.BaseOffset(), b.LastOffset(), s.last)
		}
		if size > 0 && (size+len(b) > int(l.config().SegmentBytes) || b.LastOffset()-s.first > math.MaxInt32) {
			break
		}
		if s.first < 0 {
			s.first = b.BaseOffset()
		}
		s.last, s.maxTimestampMs = b.LastOffset(), max(s.maxTimestampMs, b.MaxTimestamp())
		size += len(b)
	}
	return raw[:size], s, nil
}

// writeBatches appends whole batches in one write, to a new segment when the active one must roll first. Once
// the write is done nothing can fail; before it a failure leaves the log as it was.
func (l *Log) writeBatches(raw []byte, s span) error {
	seg, err := l.segmentFor(len(raw), s)
	if err != nil {
		return err
	}
	defer seg.txns.settle()
	if err := errors.Join(l.writer.reserve(seg), l.reserveAborted(seg, raw)); err != nil {
		return l.failed("append", s.first, err)
	}
	pos := seg.size.Load()
	if err := l.writeData(seg, raw, pos); err != nil {
		return l.failed("append", s.first, err)
	}
	if pos == 0 {
		l.writer.firstTimestampMs = s.maxTimestampMs
	}
	for len(raw) > 0 {
		size, _ := batchSize(raw)
		b := batch.Batch(raw[:size])
		l.noteBatch(seg, b, pos)
		raw, pos = raw[size:], pos+size
	}
	seg.setLargest(l.writer.largest)
	l.armFlushTimer()
	return nil
}

func (l *Log) writeData(seg *segment, raw []byte, pos int64) error {
	o, err := seg.openData()
	if err != nil {
		return err
	}
	defer o.release()
	if _, err = o.WriteAt(raw, pos); err == nil {
		return nil
	}
	if cut := o.Truncate(pos); cut != nil {
		l.dir.fail(cut)
	}
	return err
}

// noteBatch makes a written batch part of the log.
func (l *Log) noteBatch(seg *segment, b batch.Batch, pos int64) {
	size, last := int64(len(b)), b.LastOffset()
	if epoch := b.PartitionLeaderEpoch(); epoch >= 0 {
		l.epochs.assign(epoch, b.BaseOffset())
	}
	l.writer.index(seg, last, b.MaxTimestamp(), pos, size, l.config().IndexIntervalBytes)
	seg.size.Store(pos + size)
	l.noteProducer(seg, b)
	sched.Yield()
	l.tail.push(b.BaseOffset(), pos, last+1, pos+size)
}

// Heals tells errors that free space or file descriptors cure, and after which nothing was changed.
func Heals(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
