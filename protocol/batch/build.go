package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrNoRecords says that a batch was to be built of nothing.
var ErrNoRecords = errors.New("batch: no records")

// BuildOptions are the header fields of a batch that the broker writes itself.
type BuildOptions struct {
	BaseOffset    int64
	LeaderEpoch   int32
	Codec         Codec
	Level         int // of Codec, as in Compression; 0 is the default
	Timestamp     TimestampType
	ProducerID    int64 // NoProducerID when not idempotent
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool
}

// Build encodes records as one batch with its checksum. Their offsets must not fall below BaseOffset nor go back.
func Build(opts BuildOptions, records []Record) (Batch, error) {
	e := newEncoder(opts)
	defer e.free()
	previous := opts.BaseOffset - 1
	for _, r := range records {
		delta := r.Offset - opts.BaseOffset
		if r.Offset <= previous || delta > math.MaxInt32 {
			return nil, fmt.Errorf("batch: record offset %d after %d in a batch at %d", r.Offset, previous, opts.BaseOffset)
		}
		previous = r.Offset
		e.add(r.TimestampMs, int32(delta), r)
	}
	return e.finish(e.maxMs)
}

// encoder collects records and makes a batch of them.
type encoder struct {
	opts            BuildOptions
	pooled          *[]byte
	records         []byte // encoded, not compressed
	tail            []byte // scratch: a record from its key on
	count           int32
	lastOffsetDelta int32
	baseMs, maxMs   int64
	horizon         bool // baseMs is a delete horizon
}

func newEncoder(opts BuildOptions) *encoder {
	p := getBuffer()
	return &encoder{opts: opts, pooled: p, records: (*p)[:0], maxMs: NoTimestamp}
}

// setHorizon must precede all records, whose timestamps are relative to it then.
func (e *encoder) setHorizon(ms int64) { e.baseMs, e.horizon = ms, true }

func (e *encoder) free() { putBuffer(e.pooled, e.records) }

func (e *encoder) add(timestampMs int64, offsetDelta int32, r Record) {
	e.tail = appendNullable(e.tail[:0], r.Key)
	e.tail = appendNullable(e.tail, r.Value)
	e.tail = appendVarint(e.tail, int64(len(r.Headers)))
	for _, h := range r.Headers {
		e.tail = appendVarint(e.tail, int64(len(h.Key)))
		e.tail = append(e.tail, h.Key...)
		e.tail = appendNullable(e.tail, h.Value)
	}
	e.addEncoded(timestampMs, offsetDelta, e.tail)
}

// addEncoded adds a record whose key, value and headers are encoded already.
func (e *encoder) addEncoded(timestampMs int64, offsetDelta int32, tail []byte) {
	if e.count == 0 && !e.horizon {
		e.baseMs = timestampMs
	}
	e.count++
	e.lastOffsetDelta = offsetDelta
	e.maxMs = max(e.maxMs, timestampMs)
	timestampDelta := timestampMs - e.baseMs
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) + len(tail)
	e.records = appendVarint(e.records, int64(size))
	e.records = append(e.records, 0) // attributes
	e.records = appendVarint(e.records, timestampDelta)
	e.records = appendVarint(e.records, int64(offsetDelta))
	e.records = append(e.records, tail...)
}

func appendNullable(dst, data []byte) []byte {
	if data == nil {
		return appendVarint(dst, -1)
	}
	return append(appendVarint(dst, int64(len(data))), data...)
}

// finish makes the batch.
func (e *encoder) finish(maxTimestampMs int64) (Batch, error) {
	return e.appendTo(make([]byte, 0, HeaderSize+len(e.records)), maxTimestampMs)
}

// appendTo appends the batch to dst: it compresses the records and writes the header before them.
func (e *encoder) appendTo(dst []byte, maxTimestampMs int64) ([]byte, error) {
	if e.count == 0 {
		return nil, ErrNoRecords
	}
	at := len(dst)
	raw, err := appendCompressed(append(dst, make([]byte, HeaderSize)...), Compression{e.opts.Codec, e.opts.Level}, e.records)
	if err != nil {
		return dst, err
	}
	if len(raw)-at-Overhead > math.MaxInt32 {
		return dst, fmt.Errorf("batch: %d bytes do not fit a batch", len(raw)-at)
	}
	e.writeHeader(Batch(raw[at:]), maxTimestampMs)
	return raw, nil
}

func (e *encoder) writeHeader(b Batch, maxTimestampMs int64) {
	b.SetBaseOffset(e.opts.BaseOffset)
	b.put32(lengthAt, int32(len(b)-Overhead))
	b.SetPartitionLeaderEpoch(e.opts.LeaderEpoch)
	b[magicAt] = currentMagic
	attributes := e.opts.attributes()
	if e.horizon {
		attributes |= deleteHorizonBit
	}
	binary.BigEndian.PutUint16(b[attributesAt:], attributes)
	b.put32(lastOffsetDeltaAt, e.lastOffsetDelta)
	b.put64(baseTimestampAt, e.baseMs)
	b.put64(maxTimestampAt, maxTimestampMs)
	b.put64(producerIDAt, e.opts.ProducerID)
	binary.BigEndian.PutUint16(b[producerEpochAt:], uint16(e.opts.ProducerEpoch))
	b.put32(baseSequenceAt, e.opts.BaseSequence)
	b.put32(recordCountAt, e.count)
	b.sign()
}

func (o BuildOptions) attributes() uint16 {
	a := uint16(o.Codec) & codecBits
	if o.Timestamp == LogAppendTime {
		a |= logAppendTimeBit
	}
	if o.Transactional {
		a |= transactionalBit
	}
	if o.Control {
		a |= controlBit
	}
	return a
}
