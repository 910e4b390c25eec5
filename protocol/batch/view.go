package batch

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Where the header's fields are.
const (
	baseOffsetAt      = 0
	lengthAt          = 8
	leaderEpochAt     = 12
	magicAt           = 16
	crcAt             = 17
	attributesAt      = 21
	lastOffsetDeltaAt = 23
	baseTimestampAt   = 27
	maxTimestampAt    = 35
	producerIDAt      = 43
	producerEpochAt   = 51
	baseSequenceAt    = 53
	recordCountAt     = 57
)

// Bits of the attributes; those above are unused.
const (
	codecBits        = 0x07
	logAppendTimeBit = 0x08
	transactionalBit = 0x10
	controlBit       = 0x20
	deleteHorizonBit = 0x40
	knownBits        = 0x7f
)

// currentMagic is the only record format that is stored.
const currentMagic = 2

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is one whole v2 batch, header and records, in place: the accessors read and write the bytes.
type Batch []byte

func (b Batch) int16(at int) int16 { return int16(binary.BigEndian.Uint16(b[at:])) }
func (b Batch) int32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b Batch) int64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

func (b Batch) put32(at int, v int32) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
func (b Batch) put64(at int, v int64) { binary.BigEndian.PutUint64(b[at:], uint64(v)) }

func (b Batch) BaseOffset() int64           { return b.int64(baseOffsetAt) }
func (b Batch) SizeBytes() int              { return Overhead + int(b.int32(lengthAt)) } // Overhead + batchLength
func (b Batch) PartitionLeaderEpoch() int32 { return b.int32(leaderEpochAt) }
func (b Batch) Magic() int8                 { return int8(b[magicAt]) }
func (b Batch) Attributes() int16           { return b.int16(attributesAt) }
func (b Batch) Codec() Codec                { return Codec(b.Attributes() & codecBits) }
func (b Batch) Transactional() bool         { return b.Attributes()&transactionalBit != 0 }
func (b Batch) Control() bool               { return b.Attributes()&controlBit != 0 }
func (b Batch) LastOffset() int64           { return b.BaseOffset() + int64(b.LastOffsetDelta()) }
func (b Batch) LastOffsetDelta() int32      { return b.int32(lastOffsetDeltaAt) }
func (b Batch) BaseTimestamp() int64        { return b.int64(baseTimestampAt) }
func (b Batch) MaxTimestamp() int64         { return b.int64(maxTimestampAt) }
func (b Batch) ProducerID() int64           { return b.int64(producerIDAt) }
func (b Batch) ProducerEpoch() int16        { return b.int16(producerEpochAt) }
func (b Batch) BaseSequence() int32         { return b.int32(baseSequenceAt) }
func (b Batch) RecordCount() int32          { return b.int32(recordCountAt) }

func (b Batch) TimestampType() TimestampType {
	if b.Attributes()&logAppendTimeBit != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// LastSequence is NoSequence when BaseSequence is.
func (b Batch) LastSequence() int32 {
	if b.BaseSequence() == NoSequence {
		return NoSequence
	}
	return IncrementSequence(b.BaseSequence(), b.LastOffsetDelta())
}

// IncrementSequence adds to a sequence number; 0 follows math.MaxInt32.
func IncrementSequence(sequence, increment int32) int32 {
	return int32((int64(sequence) + int64(increment)) & math.MaxInt32)
}

// DecrementSequence undoes IncrementSequence.
func DecrementSequence(sequence, decrement int32) int32 {
	return IncrementSequence(sequence, -decrement)
}

// SetBaseOffset and SetPartitionLeaderEpoch write fields outside the checksum.
func (b Batch) SetBaseOffset(offset int64)          { b.put64(baseOffsetAt, offset) }
func (b Batch) SetPartitionLeaderEpoch(epoch int32) { b.put32(leaderEpochAt, epoch) }

// ChecksumOK recomputes CRC-32C over attributes to the end.
func (b Batch) ChecksumOK() bool { return b.storedChecksum() == b.checksum() }

// ChecksumFrom is where in a batch the bytes begin that its checksum covers; AddToChecksum goes on with the next of
// them, from 0, and ChecksumIs compares: together ChecksumOK for a batch that is not in memory as a whole.
const ChecksumFrom = attributesAt

func AddToChecksum(sum uint32, p []byte) uint32 { return crc32.Update(sum, castagnoli, p) }

func (b Batch) ChecksumIs(sum uint32) bool { return b.storedChecksum() == sum }

func (b Batch) storedChecksum() uint32 { return uint32(b.int32(crcAt)) }
func (b Batch) checksum() uint32       { return crc32.Checksum(b[attributesAt:], castagnoli) }
func (b Batch) sign()                  { b.put32(crcAt, int32(b.checksum())) }

// setTimestamps writes the timestamp type and the largest timestamp, signing the batch anew when they change.
// Signing also clears the attribute bits that mean nothing, as Kafka's DefaultRecordBatch.setMaxTimestamp does.
func (b Batch) setTimestamps(t TimestampType, maxMs int64) {
	if b.TimestampType() == t && b.MaxTimestamp() == maxMs {
		return
	}
	attributes := b.Attributes() & knownBits &^ logAppendTimeBit
	if t == LogAppendTime {
		attributes |= logAppendTimeBit
	}
	binary.BigEndian.PutUint16(b[attributesAt:], uint16(attributes))
	b.put64(maxTimestampAt, maxMs)
	b.sign()
}
