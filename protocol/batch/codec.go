package batch

import (
	"fmt"
	"io"
	"sync"
)

// Compression is a codec with its level. Level 0 is the codec's default; otherwise levels are those of Kafka's
// compression.gzip.level (1 to 9, −1 default), compression.lz4.level (1 to 17, 9 default) and compression.zstd.level
// (−131072 to 22, 3 default).
type Compression struct {
	Codec Codec
	Level int
}

// Producer is the codec of compression.type=producer: whatever the batch came with.
const Producer Codec = -1

// pooledBytes is the largest buffer that is kept for reuse.
const pooledBytes = 1 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(p *[]byte, b []byte) {
	if cap(b) > pooledBytes {
		return
	}
	*p = b[:0]
	buffers.Put(p)
}

// openCompressed starts decompressing payload.
func openCompressed(c Codec, payload []byte, limitBytes int64) (recordReader, error) {
	if c == Zstd {
		return openZstd(payload, limitBytes)
	}
	if c == Snappy && !isXerial(payload) {
		return openRawSnappy(payload, limitBytes)
	}
	src, release, err := openStream(c, payload)
	if err != nil {
		return recordReader{}, err
	}
	return streamReader(src, release, limitBytes), nil
}

// openStream returns a pooled decoder of payload and the function that gives it back.
func openStream(c Codec, payload []byte) (io.Reader, func(), error) {
	switch c {
	case Gzip:
		return openGzip(payload)
	case Snappy:
		return openXerial(payload)
	case Lz4:
		return openLz4(payload)
	}
	return nil, nil, undecodable(fmt.Errorf("unknown codec %d", c))
}

// streamReader reads records through a window of pooled memory.
func streamReader(src io.Reader, release func(), limitBytes int64) recordReader {
	window := getBuffer()
	if cap(*window) < windowBytes {
		*window = make([]byte, 0, windowBytes)
	}
	return recordReader{
		buf:       (*window)[:0],
		src:       src,
		leftBytes: limitBytes,
		close:     func() { putBuffer(window, *window); release() },
	}
}

// appendCompressed appends records, compressed, to dst.
func appendCompressed(dst []byte, c Compression, records []byte) ([]byte, error) {
	switch c.Codec {
	case None:
		return append(dst, records...), nil
	case Gzip:
		return appendGzip(dst, c.Level, records)
	case Snappy:
		return appendXerial(dst, records), nil
	case Lz4:
		return appendLz4(dst, c.Level, records)
	case Zstd:
		return appendZstd(dst, c.Level, records)
	}
	return nil, fmt.Errorf("batch: no codec %d", c.Codec)
}

// sliceWriter is an io.Writer that appends.
type sliceWriter struct{ b []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}
