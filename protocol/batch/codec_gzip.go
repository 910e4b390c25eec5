package batch

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipDecoder reads the members of a payload, one after the other. As Java's GZIPInputStream it takes bytes after a
// member that start no other for the end.
type gzipDecoder struct {
	member  gzip.Reader
	payload bytes.Reader
}

// minGzipMemberBytes is a member's header and trailer: Java does not look for another in less.
const minGzipMemberBytes = 18

var gzipDecoders = sync.Pool{New: func() any { return new(gzipDecoder) }}

func openGzip(payload []byte) (io.Reader, func(), error) {
	d := gzipDecoders.Get().(*gzipDecoder)
	release := func() {
		d.payload.Reset(nil)
		gzipDecoders.Put(d)
	}
	d.payload.Reset(payload)
	if err := d.nextMember(); err != nil {
		release()
		return nil, nil, undecodable(err)
	}
	return d, release, nil
}

func (d *gzipDecoder) nextMember() error {
	if err := d.member.Reset(&d.payload); err != nil {
		return err
	}
	d.member.Multistream(false)
	return nil
}

func (d *gzipDecoder) Read(p []byte) (int, error) {
	for {
		n, err := d.member.Read(p)
		if err != io.EOF {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
		if d.payload.Len() <= minGzipMemberBytes || d.nextMember() != nil {
			return 0, io.EOF
		}
	}
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
