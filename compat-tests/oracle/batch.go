package oracle

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// T0 is the timestamp of scenarios' records: long ago, so that it can never be "now".
const T0 = int64(1_600_000_000_000)

const (
	codecNone, codecGzip, codecSnappy, codecLz4, codecZstd = 0, 1, 2, 3, 4

	attrLogAppendTime = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
)

// rec is a record; nil key or value is null.
type rec struct {
	key, value []byte
	at         int64 // after T0
	headers    [][2]string
}

func text(s string) rec { return rec{value: []byte(s)} }

// batchSpec is a v2 batch as a client would build it; the scenarios bend single fields of it.
type batchSpec struct {
	baseOffset, leaderEpoch         int
	codec                           int
	attributes                      int // besides the codec
	magic                           int8
	lastOffsetDelta, count          int32
	baseTimestamp, maxTimestamp     int64
	producerID                      int64
	epoch                           int16
	sequence                        int32
	payload                         []byte // compressed records
	lengthError, crcError, cutBytes int    // added to the right values; cut from the end
}

// batch describes a good batch of records.
func batch(codec int, records ...rec) *batchSpec {
	var plain []byte
	latest := int64(0)
	for i, r := range records {
		plain = append(plain, recordBytes(int64(i), r)...)
		latest = max(latest, r.at)
	}
	return &batchSpec{
		codec: codec, magic: 2, leaderEpoch: -1, lastOffsetDelta: int32(len(records)) - 1, count: int32(len(records)),
		baseTimestamp: T0, maxTimestamp: T0 + latest, producerID: -1, epoch: -1, sequence: -1, payload: compress(codec, plain),
	}
}

// idempotent makes the batch one of a producer.
func (b *batchSpec) idempotent(id int64, epoch int16, sequence int32) *batchSpec {
	b.producerID, b.epoch, b.sequence = id, epoch, sequence
	return b
}

func (b *batchSpec) with(bend func(*batchSpec)) *batchSpec { bend(b); return b }

func (b *batchSpec) bytes() []byte {
	be := binary.BigEndian
	var body []byte // from the attributes on: what the CRC covers
	body = be.AppendUint16(body, uint16(b.attributes|b.codec))
	body = be.AppendUint32(body, uint32(b.lastOffsetDelta))
	body = be.AppendUint64(body, uint64(b.baseTimestamp))
	body = be.AppendUint64(body, uint64(b.maxTimestamp))
	body = be.AppendUint64(body, uint64(b.producerID))
	body = be.AppendUint16(body, uint16(b.epoch))
	body = be.AppendUint32(body, uint32(b.sequence))
	body = be.AppendUint32(body, uint32(b.count))
	body = append(body, b.payload...)
	out := be.AppendUint64(nil, uint64(b.baseOffset))
	out = be.AppendUint32(out, uint32(9+len(body)+b.lengthError))
	out = be.AppendUint32(out, uint32(b.leaderEpoch))
	out = append(out, byte(b.magic))
	out = be.AppendUint32(out, crc32.Checksum(body, castagnoli)+uint32(b.crcError))
	out = append(out, body...)
	return out[:len(out)-b.cutBytes]
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func recordBytes(delta int64, r rec) []byte {
	b := []byte{0}
	b = binary.AppendVarint(b, r.at)
	b = binary.AppendVarint(b, delta)
	b = appendNullable(b, r.key)
	b = appendNullable(b, r.value)
	b = binary.AppendVarint(b, int64(len(r.headers)))
	for _, h := range r.headers {
		b = appendNullable(b, []byte(h[0]))
		b = appendNullable(b, []byte(h[1]))
	}
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

func appendNullable(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

func compress(codec int, plain []byte) []byte {
	var out bytes.Buffer
	switch codec {
	case codecNone:
		return plain
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
	}
	return out.Bytes()
}

// xerialSnappy is the framing that Java's snappy streams use.
func xerialSnappy(plain []byte) []byte {
	out := append([]byte{0x82}, "SNAPPY\x00"...)
	out = binary.BigEndian.AppendUint32(out, 1)
	out = binary.BigEndian.AppendUint32(out, 1)
	block := s2.EncodeSnappy(nil, plain)
	return append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
}

// oldMessage is a message set of magic 0 or 1 with one message.
func oldMessage(magic byte, value string) []byte {
	be := binary.BigEndian
	body := []byte{magic, 0}
	if magic == 1 {
		body = be.AppendUint64(body, uint64(T0))
	}
	body = be.AppendUint32(body, 0xffffffff)
	body = append(be.AppendUint32(body, uint32(len(value))), value...)
	out := be.AppendUint32(make([]byte, 8), uint32(4+len(body)))
	out = be.AppendUint32(out, crc32.ChecksumIEEE(body))
	return append(out, body...)
}

// batchesTree shows fetched record data: each batch's header and payload, and what is left of a cut last batch.
func (s *Session) batchesTree(raw []byte) any {
	list := []any{}
	for len(raw) >= 61 {
		size := 12 + int(binary.BigEndian.Uint32(raw[8:]))
		if size < 61 || size > len(raw) {
			break
		}
		list = append(list, s.batchTree(raw[:size]))
		raw = raw[size:]
	}
	if len(raw) > 0 {
		list = append(list, fmt.Sprintf("%d bytes of a cut batch", len(raw)))
	}
	return list
}

func (s *Session) batchTree(b []byte) any {
	be := binary.BigEndian
	base, latest := int64(be.Uint64(b[27:])), int64(be.Uint64(b[35:]))
	m := map[string]any{
		"BaseOffset":      number(int64(be.Uint64(b))),
		"LeaderEpoch":     number(int64(int32(be.Uint32(b[12:])))),
		"Magic":           number(int64(b[16])),
		"CRC":             be.Uint32(b[17:]) == crc32.Checksum(b[21:], castagnoli),
		"Attributes":      number(int64(be.Uint16(b[21:]))),
		"LastOffsetDelta": number(int64(be.Uint32(b[23:]))),
		"BaseTimestamp":   timeTree(base),
		"MaxTimestamp":    timeTree(latest),
		"ProducerID":      s.producerTree(int64(be.Uint64(b[43:]))),
		"ProducerEpoch":   number(int64(int16(be.Uint16(b[51:])))),
		"BaseSequence":    number(int64(int32(be.Uint32(b[53:])))),
		"Count":           number(int64(be.Uint32(b[57:]))),
		"Payload":         hex.EncodeToString(b[61:min(len(b), 61+payloadShown)]),
		"PayloadBytes":    number(int64(len(b) - 61)),
		"PayloadCRC":      number(int64(crc32.ChecksumIEEE(b[61:]))),
	}
	return m
}

const payloadShown = 64

func timeTree(ms int64) any {
	if isNow(ms) {
		return "<now>"
	}
	return number(ms)
}

func (s *Session) producerTree(id int64) any {
	if id <= 0 {
		return number(id)
	}
	return s.alias("producer", fmt.Sprint(id))
}

func concat(parts ...[]byte) []byte { return slices.Concat(parts...) }
