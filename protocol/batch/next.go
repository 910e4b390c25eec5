package batch

import (
	"errors"
	"fmt"
)

var (
	// ErrShort says that the bytes end before the batch does.
	ErrShort = errors.New("batch: bytes end before the batch does")
	// ErrCorrupt says that a length or magic is one that no v2 batch can have.
	ErrCorrupt = errors.New("batch: corrupt")
)

// Next cuts the first whole batch off raw without checking its checksum. ErrShort: raw ends before the
// batch does. ErrCorrupt: a length or magic no v2 batch can have.
func Next(raw []byte) (b Batch, rest []byte, err error) {
	b, rest, err = nextAnyMagic(raw)
	if err != nil {
		return nil, raw, err
	}
	if b.Magic() != currentMagic {
		return nil, raw, fmt.Errorf("%w: magic %d", ErrCorrupt, b.Magic())
	}
	if len(b) < HeaderSize {
		return nil, raw, fmt.Errorf("%w: size %d is smaller than the header", ErrCorrupt, len(b))
	}
	return b, rest, nil
}

// minLegacyLength is the smallest length that any magic can have (Kafka's LegacyRecord.RECORD_OVERHEAD_V0): what is
// below is corrupt before the magic is even looked at.
const minLegacyLength = 14

// nextAnyMagic cuts as Kafka's ByteBufferLogInputStream does: batches of magic 0 to 2, of which one of magic 2 may
// still be smaller than its header.
func nextAnyMagic(raw []byte) (b Batch, rest []byte, err error) {
	if len(raw) < Overhead {
		return nil, raw, ErrShort
	}
	length := Batch(raw).int32(lengthAt)
	if length < minLegacyLength {
		return nil, raw, impossible("Record size %d is less than the minimum record overhead (%d)", length, minLegacyLength)
	}
	if len(raw) <= magicAt {
		return nil, raw, ErrShort
	}
	if magic := Batch(raw).Magic(); magic < 0 || magic > currentMagic {
		return nil, raw, impossible("Invalid magic found in record: %d", magic)
	}
	size := Overhead + int(length)
	if len(raw) < size {
		return nil, raw, ErrShort
	}
	return Batch(raw[:size:size]), raw[size:], nil
}

// impossible is ErrCorrupt in the words that Kafka sends to clients.
func impossible(format string, args ...any) error {
	e := corrupt(format, args...)
	e.cause = ErrCorrupt
	return e
}
