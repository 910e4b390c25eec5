package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"grete/protocol/batch"
)

const (
	// scanChunkBytes is read at once when headers are looked for; about one index interval.
	scanChunkBytes = 4096
	minBatchLength = batch.HeaderSize - batch.Overhead
	// headerBytes of a batch header are enough for every accessor of batch.Batch but the records and checksum.
	headerBytes = batch.HeaderSize
	magicV2     = 2
	magicAt     = 16
	lengthAt    = 8
)

var chunks = sync.Pool{New: func() any { return new([scanChunkBytes]byte) }}

// headerScanner reads batch headers of a file at rising positions.
type headerScanner struct {
	r     io.ReaderAt
	end   int64 // bytes of the file that count
	chunk *[scanChunkBytes]byte
	at    int64
	n     int
}

func newHeaderScanner(r io.ReaderAt, end int64) *headerScanner {
	return &headerScanner{r: r, end: end, chunk: chunks.Get().(*[scanChunkBytes]byte)}
}

func (s *headerScanner) close() { chunks.Put(s.chunk) }

// header returns the header of the batch at pos, valid until the next call. io.EOF: nothing is at pos.
// ErrCorrupt: no whole batch is.
func (s *headerScanner) header(pos int64) (batch.Batch, error) {
	if pos >= s.end {
		return nil, io.EOF
	}
	if s.end-pos < headerBytes {
		return nil, fmt.Errorf("%w: batch header cut at position %d", ErrCorrupt, pos)
	}
	if pos < s.at || pos+headerBytes > s.at+int64(s.n) {
		if err := s.fill(pos); err != nil {
			return nil, err
		}
	}
	h := batch.Batch(s.chunk[pos-s.at:][:headerBytes])
	if size, ok := batchSize(h); !ok || pos+size > s.end {
		return nil, fmt.Errorf("%w: no whole batch at position %d", ErrCorrupt, pos)
	}
	return h, nil
}

func (s *headerScanner) fill(pos int64) error {
	want := min(int64(scanChunkBytes), s.end-pos)
	n, err := s.r.ReadAt(s.chunk[:want], pos)
	s.at, s.n = pos, n
	if int64(n) == want {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: file ends at position %d", ErrCorrupt, pos+int64(n))
	}
	return err
}

// batchSize is the size in bytes of the batch that begins with h, if h can be the header of a v2 batch.
func batchSize(h []byte) (int64, bool) {
	length := int32(binary.BigEndian.Uint32(h[lengthAt:]))
	if length < minBatchLength || h[magicAt] != magicV2 {
		return 0, false
	}
	v := batch.Batch(h)
	return int64(length) + batch.Overhead, v.BaseOffset() >= 0 && v.LastOffsetDelta() >= 0
}

// walkHeaders calls fn with the position and header of each batch from pos until fn returns false, the batches
// end (nil), or something else than a batch follows (ErrCorrupt).
func walkHeaders(r io.ReaderAt, pos, end int64, fn func(pos int64, h batch.Batch) bool) error {
	s := newHeaderScanner(r, end)
	defer s.close()
	for {
		h, err := s.header(pos)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		size, _ := batchSize(h)
		if !fn(pos, h) {
			return nil
		}
		pos += size
	}
}

// readBatch reads the whole batch of size bytes at pos into buf, which grows as needed.
func readBatch(r io.ReaderAt, pos, size int64, buf []byte) (batch.Batch, error) {
	if int64(cap(buf)) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	if n, err := r.ReadAt(buf, pos); int64(n) < size {
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: batch cut at position %d", ErrCorrupt, pos+int64(n))
		}
		return nil, err
	}
	return buf, nil
}
