package logstore

import (
	"errors"
	"fmt"
	"io"

	"grete/protocol/batch"
)

// Damage tells that records of a log cannot be read any more, or not as they were written, though they were synced.
type Damage struct {
	Log      *Log
	From, To int64 // offsets: records from From on are lost; what begins at To is good again
	Err      error // what is wrong at From
}

// damagedSpan is such a place in a segment, whole batches as far as they can be made out.
type damagedSpan struct {
	pos, end int64
	from, to int64
	err      error
}

// maxDamagedSpans bounds what is remembered of a segment; beyond it the last one reaches to the segment's end.
const maxDamagedSpans = 64

func (s *segment) damage() []damagedSpan {
	if d := s.damaged.Load(); d != nil {
		return *d
	}
	return nil
}

// damageAt is the damaged span that offset lies in, nil when none does.
func (s *segment) damageAt(offset int64) *damagedSpan {
	spans := s.damage()
	for i := range spans {
		if d := &spans[i]; offset >= d.from && offset < d.to {
			return d
		}
	}
	return nil
}

// pastDamage is where a search for offset that begins at pos may begin, so that it meets no damage on the way.
func (s *segment) pastDamage(pos, offset int64) int64 {
	for _, d := range s.damage() {
		if d.to <= offset {
			pos = max(pos, d.end)
		}
	}
	return pos
}

// intact cuts a read of size bytes at pos before the next damage; where it begins in one, there is nothing to give.
func (s *segment) intact(pos, size int64) (int64, error) {
	for _, d := range s.damage() {
		switch {
		case pos >= d.end || pos+size <= d.pos:
		case pos >= d.pos:
			return 0, fmt.Errorf("%w: records from offset %d to %d: %w", ErrCorrupt, d.from, d.to-1, d.err)
		default:
			size = d.pos - pos
		}
	}
	return size, nil
}

// forgetDamage drops what lies behind pos, where the segment was cut.
func (s *segment) forgetDamage(pos int64) {
	var left []damagedSpan
	for _, d := range s.damage() {
		if d.pos < pos {
			left = append(left, d)
		}
	}
	s.setDamage(left)
}

func (s *segment) setDamage(spans []damagedSpan) {
	if len(spans) == 0 {
		s.damaged.Store(nil)
		return
	}
	s.damaged.Store(&spans)
}

// checker reads a segment's batches to compare checksums, in pieces of a buffer of its own.
type checker struct {
	file      io.ReaderAt
	end       int64 // of the segment's bytes
	endOffset int64 // of the segment
	buf       []byte
	// pay is told how many bytes are about to be read; false ends the check.
	pay func(n int) bool
}

var (
	errCheckEnded = errors.New("check ended")
	errOverlap    = fmt.Errorf("%w: offsets overlap", ErrCorrupt)
)

// batch checks the batch at pos, whose first offset is at least atLeast. Damage is any error but errCheckEnded.
func (c *checker) batch(pos, atLeast int64) (h batch.Batch, size int64, err error) {
	if h, err = c.header(pos); err != nil {
		return nil, 0, err
	}
	size, _ = batchSize(h)
	sum := uint32(0)
	for at := pos + batch.ChecksumFrom; at < pos+size; {
		piece := c.buf[:min(int64(len(c.buf)), pos+size-at)]
		if err := c.read(piece, at); err != nil {
			return nil, 0, err
		}
		sum = batch.AddToChecksum(sum, piece)
		at += int64(len(piece))
	}
	if !h.ChecksumIs(sum) {
		return nil, 0, fmt.Errorf("%w: bad checksum at position %d", ErrCorrupt, pos)
	}
	switch { // no checksum covers a batch's offset
	case h.BaseOffset() < atLeast:
		return nil, 0, fmt.Errorf("%w: offset %d where %d was due", errOverlap, h.BaseOffset(), atLeast)
	case h.LastOffset() >= c.endOffset:
		return nil, 0, fmt.Errorf("%w: offset %d in a segment that ends at %d", ErrCorrupt, h.LastOffset(), c.endOffset)
	}
	return h, size, nil
}

// header reads the header at pos into memory of its own.
func (c *checker) header(pos int64) (batch.Batch, error) {
	h := make(batch.Batch, headerBytes)
	if c.end-pos < headerBytes {
		return nil, fmt.Errorf("%w: batch header cut at position %d", ErrCorrupt, pos)
	}
	if err := c.read(h, pos); err != nil {
		return nil, err
	}
	if size, ok := batchSize(h); !ok || pos+size > c.end {
		return nil, fmt.Errorf("%w: no whole batch at position %d", ErrCorrupt, pos)
	}
	return h, nil
}

func (c *checker) read(p []byte, pos int64) error {
	if !c.pay(len(p)) {
		return errCheckEnded
	}
	n, err := c.file.ReadAt(p, pos)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: file ends at position %d", ErrCorrupt, pos+int64(n))
	}
	return err
}
