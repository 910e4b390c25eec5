// Package batch handles Kafka's record batch v2 in place: header view, checksum, records iterator and
// builder, codecs, and the validation that a leader does before it appends (Kafka's LogValidator).
package batch

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

// codecs is the number of codecs there are; the attributes have room for larger, meaningless ones.
const codecs = Zstd + 1

// TimestampType is bit 3 of the attributes.
type TimestampType int8

const (
	CreateTime TimestampType = iota
	LogAppendTime
)

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
