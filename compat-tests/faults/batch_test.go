package faults

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	codecNone, codecGzip, codecSnappy, codecLz4, codecZstd = 0, 1, 2, 3, 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// rawBatch is a record batch of which every field can lie.
type rawBatch struct {
	codec, attributes int
	count, lastDelta  int32
	timestampMs       int64
	producerID        int64
	epoch             int16
	sequence          int32
	baseOffset        int64
	payload           []byte // compressed
	lengthError       int32
}

// goodBatch has one record for each value.
func goodBatch(values ...[]byte) *rawBatch {
	var plain []byte
	for i, v := range values {
		plain = append(plain, recordBytes(int64(i), v)...)
	}
	n := int32(len(values))
	return &rawBatch{count: n, lastDelta: n - 1, timestampMs: time.Now().UnixMilli(), producerID: -1, epoch: -1, sequence: -1, payload: plain}
}

func (b *rawBatch) with(change func(*rawBatch)) *rawBatch { change(b); return b }

func (b *rawBatch) bytes() []byte {
	be := binary.BigEndian
	body := be.AppendUint16(nil, uint16(b.attributes|b.codec))
	body = be.AppendUint32(body, uint32(b.lastDelta))
	body = be.AppendUint64(body, uint64(b.timestampMs))
	body = be.AppendUint64(body, uint64(b.timestampMs))
	body = be.AppendUint64(body, uint64(b.producerID))
	body = be.AppendUint16(body, uint16(b.epoch))
	body = be.AppendUint32(body, uint32(b.sequence))
	body = be.AppendUint32(body, uint32(b.count))
	body = append(body, b.payload...)
	out := be.AppendUint64(nil, uint64(b.baseOffset))
	out = be.AppendUint32(out, uint32(int32(9+len(body))+b.lengthError))
	out = be.AppendUint32(out, 0xffffffff)
	out = append(out, 2)
	out = be.AppendUint32(out, crc32.Checksum(body, castagnoli))
	return append(out, body...)
}

// recordBytes is a record without key and headers.
func recordBytes(delta int64, value []byte) []byte {
	b := []byte{0}
	b = binary.AppendVarint(b, 0)
	b = binary.AppendVarint(b, delta)
	b = binary.AppendVarint(b, -1)
	b = binary.AppendVarint(b, int64(len(value)))
	b = append(b, value...)
	b = binary.AppendVarint(b, 0)
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

func compress(codec int, plain []byte) []byte {
	var out bytes.Buffer
	switch codec {
	case codecGzip:
		w := gzip.NewWriter(&out)
		w.Write(plain)
		w.Close()
	case codecSnappy:
		return s2.EncodeSnappy(nil, plain)
	case codecLz4:
		w := lz4.NewWriter(&out)
		w.Write(plain)
		w.Close()
	case codecZstd:
		w, _ := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		w.Write(plain)
		w.Close()
	default:
		return plain
	}
	return out.Bytes()
}
