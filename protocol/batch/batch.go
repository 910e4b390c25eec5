// Package batch handles Kafka's record batch v2 in place: header view, checksum, records iterator and
// builder, codecs, and the validation that a leader does before it appends (Kafka's LogValidator).
package batch

// Contract file: signatures that other rooms compile against. The owner fills in and splits.

const (
	// HeaderSize is the bytes before the first record of a v2 batch.
	HeaderSize = 61
	// Overhead is the bytes of baseOffset and batchLength, which batchLength does not count.
	Overhead     = 12
	NoProducerID = int64(-1)
	NoSequence   = int32(-1)
	NoTimestamp  = int64(-1)
)

// Codec is a compression type as the batch attributes number it.
type Codec int8

const (
	None Codec = iota
	Gzip
	Snappy
	Lz4
	Zstd
)

// TimestampType is bit 3 of the attributes.
type TimestampType int8

const (
	CreateTime TimestampType = iota
	LogAppendTime
)

// Batch is one whole v2 batch, header and records, in place: the accessors read and write the bytes.
type Batch []byte

func (b Batch) BaseOffset() int64            { panic("unwritten") }
func (b Batch) SizeBytes() int               { panic("unwritten") } // Overhead + batchLength
func (b Batch) PartitionLeaderEpoch() int32  { panic("unwritten") }
func (b Batch) Magic() int8                  { panic("unwritten") }
func (b Batch) Attributes() int16            { panic("unwritten") }
func (b Batch) Codec() Codec                 { panic("unwritten") }
func (b Batch) TimestampType() TimestampType { panic("unwritten") }
func (b Batch) Transactional() bool          { panic("unwritten") }
func (b Batch) Control() bool                { panic("unwritten") }
func (b Batch) LastOffset() int64            { panic("unwritten") }
func (b Batch) LastOffsetDelta() int32       { panic("unwritten") }
func (b Batch) BaseTimestamp() int64         { panic("unwritten") }
func (b Batch) MaxTimestamp() int64          { panic("unwritten") }
func (b Batch) ProducerID() int64            { panic("unwritten") }
func (b Batch) ProducerEpoch() int16         { panic("unwritten") }
func (b Batch) BaseSequence() int32          { panic("unwritten") }
func (b Batch) LastSequence() int32          { panic("unwritten") }
func (b Batch) RecordCount() int32           { panic("unwritten") }

// SetBaseOffset and SetPartitionLeaderEpoch write fields outside the checksum.
func (b Batch) SetBaseOffset(offset int64)          { panic("unwritten") }
func (b Batch) SetPartitionLeaderEpoch(epoch int32) { panic("unwritten") }

// ChecksumOK recomputes CRC-32C over attributes to the end.
func (b Batch) ChecksumOK() bool { panic("unwritten") }

// Next cuts the first whole batch off raw without checking its checksum. ErrShort: raw ends before the
// batch does. ErrCorrupt: a length or magic no v2 batch can have.
func Next(raw []byte) (b Batch, rest []byte, err error) { panic("unwritten") }

// Header is a record header; Value nil is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record; nil Key or Value is null. From an iterator it aliases the batch or the
// decompressed buffer and is valid until the next step.
type Record struct {
	Offset      int64
	TimestampMs int64
	Key, Value  []byte
	Headers     []Header
}

// Records iterates the batch's records, decompressing as a stream under limits; it ends after the first error.
func (b Batch) Records() func(yield func(Record, error) bool) { panic("unwritten") }

// BuildOptions are the header fields of a batch that the broker writes itself.
type BuildOptions struct {
	BaseOffset    int64
	LeaderEpoch   int32
	Codec         Codec
	Timestamp     TimestampType
	ProducerID    int64 // NoProducerID when not idempotent
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool
}

// Build encodes records as one batch with its checksum.
func Build(opts BuildOptions, records []Record) (Batch, error) { panic("unwritten") }
