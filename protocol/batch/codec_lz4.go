package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// lz4Magic starts a frame; older framings, which the library would read, are not Kafka's.
const lz4Magic = 0x184d2204

var errLz4Magic = errors.New("not an lz4 frame")

type lz4Decoder struct {
	reader  *lz4.Reader
	payload bytes.Reader
}

var lz4Decoders = sync.Pool{New: func() any { return &lz4Decoder{reader: lz4.NewReader(nil)} }}

func openLz4(payload []byte) (io.Reader, func(), error) {
	if len(payload) < 4 || binary.LittleEndian.Uint32(payload) != lz4Magic {
		return nil, nil, undecodable(errLz4Magic)
	}
	d := lz4Decoders.Get().(*lz4Decoder)
	d.payload.Reset(firstLz4Frame(payload))
	d.reader.Reset(&d.payload)
	release := func() {
		d.payload.Reset(nil)
		lz4Decoders.Put(d)
	}
	return d.reader, release, nil
}

// firstLz4Frame cuts off what follows the first frame: Kafka does not look at it, the library would read on.
func firstLz4Frame(payload []byte) []byte {
	const (
		flagsAt, headerBytes                                               = 4, 7
		blockChecksums, contentSize, contentChecksum, dictionaryID, stored = 0x10, 0x08, 0x04, 0x01, 1 << 31
	)
	if len(payload) < headerBytes {
		return payload
	}
	flags, at := payload[flagsAt], headerBytes
	optional := func(flag byte, size int) int {
		if flags&flag != 0 {
			return size
		}
		return 0
	}
	at += optional(contentSize, 8) + optional(dictionaryID, 4)
	for at+4 <= len(payload) {
		size := binary.LittleEndian.Uint32(payload[at:]) &^ stored
		at += 4
		if size == 0 {
			return payload[:min(at+optional(contentChecksum, 4), len(payload))]
		}
		at += int(size) + optional(blockChecksums, 4)
	}
	return payload
}

// lz4Levels maps Kafka's levels to the library's: 9, the default, means the fast compressor, as it does in Kafka.
var lz4Levels = []lz4.CompressionLevel{
	lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Fast,
	lz4.Level9, lz4.Level9, lz4.Level9, lz4.Level9, lz4.Level9, lz4.Level9, lz4.Level9, lz4.Level9,
}

var lz4Encoders = sync.Pool{New: func() any { return lz4.NewWriter(nil) }}

// appendLz4 writes the frame that Kafka's Lz4BlockOutputStream does: independent blocks of 64 KiB, no checksum but
// the header's.
func appendLz4(dst []byte, level int, records []byte) ([]byte, error) {
	w := lz4Encoders.Get().(*lz4.Writer)
	defer lz4Encoders.Put(w)
	out := sliceWriter{dst}
	w.Reset(&out)
	err := w.Apply(
		lz4.BlockSizeOption(lz4.Block64Kb), lz4.BlockChecksumOption(false), lz4.ChecksumOption(false),
		lz4.ConcurrencyOption(1), lz4.CompressionLevelOption(lz4Levels[min(max(level, 0), len(lz4Levels)-1)]))
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(records); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.b, nil
}
