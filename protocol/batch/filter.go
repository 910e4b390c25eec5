package batch

import "encoding/binary"

// Filter leaves out records of stored batches, for compaction, and writes what is left as Kafka's
// MemoryRecords.filterTo does: a batch that loses nothing stays byte for byte; of another, base offset, last offset,
// producer, sequence and epoch stay, the records that are kept keep their offsets, and its codec encodes them anew. It
// reuses its buffers from batch to batch.
type Filter struct {
	// MaxHeldBytes bounds what is held of a compressed batch: one of its records, and the records that are kept; 0: no
	// bound. ErrInflates is what is answered beyond it.
	MaxHeldBytes int

	records []filtered
	tails   []byte // key, value and headers of records, encoded, one after the other
}

type filtered struct {
	timestampMs int64
	offsetDelta int32
	end         int // of its tail in Filter.tails
}

// FilterPolicy says what is to be left of one batch.
type FilterPolicy struct {
	// Keep decides on every record; a nil key is null, and so is a tombstone's value.
	Keep func(offset int64, key []byte, tombstone bool) bool
	// KeepEmpty: when no record is left, a header without records stays.
	KeepEmpty bool
	// HorizonMs is the delete horizon (KIP-534) that a batch without one gets when it keeps a tombstone, or when
	// StartHorizon is set and it keeps anything.
	HorizonMs    int64
	StartHorizon bool
}

// FilterResult counts records.
type FilterResult struct{ Read, Kept int }

// DeleteHorizonMs is when tombstones and transaction markers of the batch may go; false until compaction has met them.
func (b Batch) DeleteHorizonMs() (int64, bool) {
	return b.BaseTimestamp(), b.Attributes()&deleteHorizonBit != 0
}

// EachKey calls f with the offset and the key (nil is null) of every record until it returns false. It holds at most
// heldBytes of a compressed batch, 0 is no bound: ErrInflates when a record is larger.
func (b Batch) EachKey(heldBytes int, f func(offset int64, key []byte) bool) error {
	base := b.BaseOffset()
	return b.eachRecord(recordWalk{limitBytes: maxRecordsBytes, heldBytes: heldBytes}, func(_ int32, v *recordView) bool { return f(base+int64(v.offsetDelta), v.key) })
}

// Append appends to dst what p leaves of b, nothing perhaps.
func (f *Filter) Append(dst []byte, b Batch, p FilterPolicy) ([]byte, FilterResult, error) {
	result, tombstones, err := f.collect(b, p.Keep)
	if err != nil {
		return dst, result, err
	}
	if result.Kept == 0 {
		if p.KeepEmpty {
			dst = appendEmptied(dst, b)
		}
		return dst, result, nil
	}
	_, has := b.DeleteHorizonMs()
	start := !has && (tombstones || p.StartHorizon)
	if result.Kept == result.Read && !start {
		return append(dst, b...), result, nil
	}
	dst, err = f.rebuild(dst, b, p.HorizonMs, start)
	return dst, result, err
}

// collect notes the records to be kept.
func (f *Filter) collect(b Batch, keep func(int64, []byte, bool) bool) (result FilterResult, tombstones bool, err error) {
	f.records, f.tails = f.records[:0], f.tails[:0]
	base, full := b.BaseOffset(), false
	bound := f.MaxHeldBytes > 0 && b.Codec() != None
	err = b.eachRecord(recordWalk{limitBytes: maxRecordsBytes, heldBytes: f.MaxHeldBytes}, func(_ int32, v *recordView) bool {
		result.Read++
		if !keep(base+int64(v.offsetDelta), v.key, v.value == nil) {
			return true
		}
		if full = bound && len(f.tails)+len(v.tail) > f.MaxHeldBytes; full {
			return false
		}
		result.Kept++
		tombstones = tombstones || v.value == nil
		f.tails = append(f.tails, v.tail...)
		f.records = append(f.records, filtered{b.timestampOf(v), v.offsetDelta, len(f.tails)})
		return true
	})
	if full {
		err = ErrInflates
	}
	return result, tombstones, err
}

// rebuild encodes the collected records. A delete horizon takes the place of the base timestamp.
func (f *Filter) rebuild(dst []byte, b Batch, horizonMs int64, start bool) ([]byte, error) {
	e := newEncoder(BuildOptions{
		BaseOffset: b.BaseOffset(), LeaderEpoch: b.PartitionLeaderEpoch(), Codec: b.Codec(), Timestamp: b.TimestampType(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(),
		Transactional: b.Transactional(), Control: b.Control(),
	})
	defer e.free()
	if own, has := b.DeleteHorizonMs(); has {
		e.setHorizon(own)
	} else if start {
		e.setHorizon(horizonMs)
	}
	at := 0
	for _, r := range f.records {
		e.addEncoded(r.timestampMs, r.offsetDelta, f.tails[at:r.end])
		at = r.end
	}
	e.lastOffsetDelta = b.LastOffsetDelta() // the producer's last sequence depends on it
	maxMs := e.maxMs
	if b.TimestampType() == LogAppendTime {
		maxMs = b.MaxTimestamp()
	}
	return e.appendTo(dst, maxMs)
}

// appendEmptied appends the header of b without records, which tells where the log and its producer were.
func appendEmptied(dst []byte, b Batch) []byte {
	at := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	e := Batch(dst[at:])
	binary.BigEndian.PutUint16(e[attributesAt:], uint16(b.Attributes())&(logAppendTimeBit|transactionalBit|controlBit))
	e.put32(lengthAt, HeaderSize-Overhead)
	e.put64(baseTimestampAt, NoTimestamp)
	e.put32(recordCountAt, 0)
	e.sign()
	return dst
}
