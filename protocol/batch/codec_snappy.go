package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/golang/snappy"
)

// Xerial's framing, which Java clients write: a header of magic, version and oldest compatible version, then blocks
// of a big-endian length and raw snappy.
const (
	xerialMagic       = "\x82SNAPPY\x00"
	xerialHeaderBytes = len(xerialMagic) + 8
	xerialBlockBytes  = 32 << 10
	// maxXerialBlockBytes bounds one block decoded; xerial's own blocks are at most 512 MiB by format, 32 KiB in
	// practice.
	maxXerialBlockBytes = 32 << 20
)

var errSnappyBlock = errors.New("snappy block is cut or larger than allowed")

func isXerial(payload []byte) bool {
	return len(payload) >= xerialHeaderBytes && bytes.HasPrefix(payload, []byte(xerialMagic))
}

// openRawSnappy decodes a payload of one block, as librdkafka and Go clients write it, after a look at its size.
func openRawSnappy(payload []byte, limitBytes int64) (recordReader, error) {
	size, err := snappy.DecodedLen(payload)
	if err != nil {
		return recordReader{}, undecodable(err)
	}
	if int64(size) > limitBytes {
		return recordReader{}, errExpansion
	}
	if !snappyCanExpandTo(len(payload), size) {
		return recordReader{}, undecodable(errSnappyBlock)
	}
	p := getBuffer()
	decoded, err := snappy.Decode((*p)[:cap(*p)], payload)
	if err != nil {
		putBuffer(p, *p)
		return recordReader{}, undecodable(err)
	}
	return recordReader{buf: decoded, close: func() { putBuffer(p, decoded) }}, nil
}

// snappyCanExpandTo refuses a claimed size before memory is taken for it: a copy of at most 64 bytes costs 3.
func snappyCanExpandTo(compressedBytes, claimedBytes int) bool {
	return claimedBytes <= 32*compressedBytes
}

// xerialDecoder gives one decoded block after the other.
type xerialDecoder struct {
	rest  []byte // blocks not yet decoded
	block []byte
	pos   int
}

var xerialDecoders = sync.Pool{New: func() any { return new(xerialDecoder) }}

func openXerial(payload []byte) (io.Reader, func(), error) {
	d := xerialDecoders.Get().(*xerialDecoder)
	d.rest, d.pos = payload[xerialHeaderBytes:], 0
	d.block = d.block[:0]
	release := func() {
		d.rest = nil
		if cap(d.block) <= pooledBytes {
			xerialDecoders.Put(d)
		}
	}
	return d, release, nil
}

func (d *xerialDecoder) Read(p []byte) (int, error) {
	for d.pos == len(d.block) {
		if len(d.rest) == 0 {
			return 0, io.EOF
		}
		if err := d.nextBlock(); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.block[d.pos:])
	d.pos += n
	return n, nil
}

func (d *xerialDecoder) nextBlock() error {
	if isXerial(d.rest) { // streams that were concatenated
		d.rest = d.rest[xerialHeaderBytes:]
		if len(d.rest) == 0 {
			return nil
		}
	}
	if len(d.rest) < 4 {
		return errSnappyBlock
	}
	size := int64(binary.BigEndian.Uint32(d.rest))
	if size > int64(len(d.rest)-4) {
		return errSnappyBlock
	}
	block := d.rest[4 : 4+size]
	decodedBytes, err := snappy.DecodedLen(block)
	if err != nil {
		return err
	}
	if decodedBytes > maxXerialBlockBytes || !snappyCanExpandTo(len(block), decodedBytes) {
		return errSnappyBlock
	}
	if d.block, err = snappy.Decode(d.block[:cap(d.block)], block); err != nil {
		d.block = nil
		return err
	}
	d.rest, d.pos = d.rest[4+size:], 0
	return nil
}

// appendXerial writes what Java's SnappyOutputStream does.
func appendXerial(dst, records []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, 1) // version
	dst = binary.BigEndian.AppendUint32(dst, 1) // oldest compatible version
	for chunk := range slices.Chunk(records, xerialBlockBytes) {
		at := len(dst)
		dst = slices.Grow(dst, 4+snappy.MaxEncodedLen(len(chunk)))
		block := snappy.Encode(dst[at+4:cap(dst)], chunk)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))[:at+4+len(block)]
	}
	return dst
}
