package batch

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

type gzipDecoder struct {
	gzip.Reader
	payload bytes.Reader
}

var gzipDecoders = sync.Pool{New: func() any { return new(gzipDecoder) }}

func openGzip(payload []byte) (io.Reader, func(), error) {
	d := gzipDecoders.Get().(*gzipDecoder)
	release := func() {
		d.payload.Reset(nil)
		gzipDecoders.Put(d)
	}
	d.payload.Reset(payload)
	if err := d.Reset(&d.payload); err != nil {
		release()
		return nil, nil, undecodable(err)
	}
	return d, release, nil
}

// gzipEncoders has a pool per level, from −1 (index 0) to 9.
var gzipEncoders [gzip.BestCompression + 2]sync.Pool

func appendGzip(dst []byte, level int, records []byte) ([]byte, error) {
	if level == 0 {
		level = gzip.DefaultCompression
	}
	level = min(max(level, gzip.DefaultCompression), gzip.BestCompression)
	pool := &gzipEncoders[level+1]
	w, ok := pool.Get().(*gzip.Writer)
	if !ok {
		var err error
		if w, err = gzip.NewWriterLevel(nil, level); err != nil {
			return nil, err
		}
	}
	defer pool.Put(w)
	out := sliceWriter{dst}
	w.Reset(&out)
	if _, err := w.Write(records); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.b, nil
}
