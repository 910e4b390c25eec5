package batch

import "encoding/binary"

// Kafka's zig-zag varints: at most 5 bytes for 32 bits, 10 for 64. A reader returns the position after the value,
// or a negative one when b ends first or the value is longer than it may be.

const (
	varintCut  = -1 // b ends inside the value
	varintLong = -2 // more bytes than the type has
)

func readVarint(b []byte, at int) (v int32, next int) {
	if at < len(b) && b[at] < 0x80 {
		return int32(b[at]>>1) ^ -int32(b[at]&1), at + 1
	}
	return readLongVarint(b, at)
}

func readLongVarint(b []byte, at int) (v int32, next int) {
	var u uint32
	for i := range 5 {
		if at+i >= len(b) {
			return 0, varintCut
		}
		c := b[at+i]
		u |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), at + i + 1
		}
	}
	return 0, varintLong
}

func readVarlong(b []byte, at int) (v int64, next int) {
	if at < len(b) && b[at] < 0x80 {
		return int64(b[at]>>1) ^ -int64(b[at]&1), at + 1
	}
	var u uint64
	for i := range 10 {
		if at+i >= len(b) {
			return 0, varintCut
		}
		c := b[at+i]
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), at + i + 1
		}
	}
	return 0, varintLong
}

// appendVarint writes 32- and 64-bit values alike: they have the same encoding.
func appendVarint(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }

func varintSize(v int64) int {
	size := 1
	for u := uint64(v)<<1 ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		size++
	}
	return size
}
