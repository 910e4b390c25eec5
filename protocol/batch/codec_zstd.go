package batch

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	// zstdWholeBytes is the largest payload that is decoded at once, into memory that grows with what is really
	// there; a larger one is decoded as a stream.
	zstdWholeBytes = 4 << 20
	zstdGrowth     = 8
	// zstdStreamWindowBytes is the largest window of a stream: it is allocated on the frame's word (RFC 8878 asks
	// decoders to support 8 MiB).
	zstdStreamWindowBytes = 8 << 20
	// zstdMaxWindowBytes is the largest window a frame may claim at all, zstd's own default. Below zstdWholeBytes it
	// costs nothing.
	zstdMaxWindowBytes = 128 << 20
)

// zstdWhole decodes whole payloads for all callers.
var zstdWhole = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxWindow(zstdMaxWindowBytes),
		zstd.WithDecodeAllCapLimit(true))
})

var zstdStreams = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdStreamWindowBytes))
	if err != nil {
		return err
	}
	return d
}}

// openZstd tries growing buffers. Where one is too small the library has several ways to say so, some of which sound
// like damage: whether a payload is sound, only the stream, which needs no room, can tell.
func openZstd(payload []byte, limitBytes int64) (recordReader, error) {
	d, err := zstdWhole()
	if err != nil {
		return recordReader{}, undecodable(err)
	}
	p := getBuffer()
	buf := (*p)[:0]
	for capacity := max(cap(buf), windowBytes, 4*len(payload)); ; capacity *= zstdGrowth {
		capacity = min(capacity, zstdWholeBytes)
		if cap(buf) < capacity {
			buf = make([]byte, 0, capacity)
		}
		decoded, err := d.DecodeAll(payload, buf)
		if err == nil && int64(len(decoded)) > limitBytes {
			err = errExpansion
		}
		if err == nil {
			return recordReader{buf: decoded, close: func() { putBuffer(p, decoded) }}, nil
		}
		if err == errExpansion || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			putBuffer(p, buf)
			return recordReader{}, zstdError(err)
		}
		if capacity == zstdWholeBytes {
			putBuffer(p, buf)
			return streamZstd(payload, limitBytes)
		}
	}
}

func streamZstd(payload []byte, limitBytes int64) (recordReader, error) {
	d, ok := zstdStreams.Get().(*zstd.Decoder)
	if !ok {
		return recordReader{}, undecodable(errors.New("no zstd decoder"))
	}
	if err := d.Reset(bytes.NewReader(payload)); err != nil {
		return recordReader{}, zstdError(err)
	}
	release := func() {
		if d.Reset(nil) == nil {
			zstdStreams.Put(d)
		}
	}
	return streamReader(zstdStream{d}, release, limitBytes), nil
}

// zstdStream gives the decoder's errors their meaning.
type zstdStream struct{ d *zstd.Decoder }

func (s zstdStream) Read(p []byte) (int, error) {
	n, err := s.d.Read(p)
	if err != nil && err != io.EOF {
		err = zstdError(err)
	}
	return n, err
}

func zstdError(err error) error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return &Error{Code: errExpansion.Code, Message: "zstd window is larger than is allowed", cause: err}
	}
	return undecodable(err)
}

// zstdEncoders has an encoder per level of the library, made when first needed.
var zstdEncoders = [zstd.SpeedBestCompression + 1]func() (*zstd.Encoder, error){
	zstd.SpeedFastest:           newZstdEncoder(zstd.SpeedFastest),
	zstd.SpeedDefault:           newZstdEncoder(zstd.SpeedDefault),
	zstd.SpeedBetterCompression: newZstdEncoder(zstd.SpeedBetterCompression),
	zstd.SpeedBestCompression:   newZstdEncoder(zstd.SpeedBestCompression),
}

func newZstdEncoder(level zstd.EncoderLevel) func() (*zstd.Encoder, error) {
	return sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithLowerEncoderMem(true))
	})
}

func appendZstd(dst []byte, level int, records []byte) ([]byte, error) {
	if level == 0 {
		level = 3
	}
	e, err := zstdEncoders[zstd.EncoderLevelFromZstd(level)]()
	if err != nil {
		return nil, err
	}
	return e.EncodeAll(records, dst), nil
}
