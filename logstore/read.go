package logstore

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"grete/internal/vfs"
)

// Span is what a read found: whole batches (but for a cut last one when maxBytes ended in it), pinned in
// immutable segment views until Release.
type Span struct {
	Regions   []vfs.Region
	SizeBytes int
	// AbortedTxns up to the bound, when asked for.
	AbortedTxns []AbortedTxn

	region [1]vfs.Region
	pinned *openFile
}

// Release unpins the files; the regions must not be used after it. More calls do nothing.
func (s *Span) Release() {
	if s.pinned != nil {
		s.pinned.release()
		s.pinned, s.Regions = nil, nil
	}
}

// ReadAll copies the span into a new slice.
func (s *Span) ReadAll() ([]byte, error) {
	data := make([]byte, 0, s.SizeBytes)
	for _, r := range s.Regions {
		at := len(data)
		data = data[:at+r.SizeBytes]
		n, err := r.File.ReadAt(data[at:], r.OffsetBytes)
		if n < r.SizeBytes {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("reading %s at %d: %w", r.File.Name(), r.OffsetBytes, err)
		}
	}
	return data, nil
}

// AbortedTxn is an entry of the transaction index.
type AbortedTxn struct{ ProducerID, FirstOffset, LastOffset, LastStableOffset int64 }

// ReadOptions bound a read.
type ReadOptions struct {
	MaxBytes    int
	Bound       int64 // exclusive: high watermark, last stable offset or log end
	MinOneBatch bool  // give the first batch whole even when it is larger than MaxBytes
	Aborted     bool  // collect AbortedTxns
}

// Read returns the batches from the one that holds offset. ErrOffsetOutOfRange outside [start, end]. A read never
// crosses a segment.
func (l *Log) Read(offset int64, o ReadOptions) (*Span, error) {
	if err := l.dir.offlineError(); err != nil {
		return nil, l.fault("read", offset, err)
	}
	t := l.tail.load()
	if offset < l.StartOffset() || offset > t.end {
		return nil, l.fault("read", offset, ErrOffsetOutOfRange)
	}
	r := reader{log: l, tail: t, segments: l.segments(), bound: min(o.Bound, t.end)}
	s, err := r.read(offset, o)
	if errors.Is(err, errStaleView) {
		return l.Read(offset, o) // of the segments that took their place
	}
	if err != nil {
		return nil, l.fault("read", offset, err)
	}
	return s, nil
}

// reader is one read's view of the log.
type reader struct {
	log      *Log
	tail     tailView
	segments []*segment
	bound    int64
}

func (r *reader) read(offset int64, o ReadOptions) (*Span, error) {
	if offset >= r.bound {
		return &Span{}, nil
	}
	for i := r.segmentOf(offset); i < len(r.segments) && r.segments[i].base < r.bound; i++ {
		first, err := r.locate(r.segments[i], offset)
		if errors.Is(err, io.EOF) {
			continue // nothing at or after offset in it: offsets were compacted away
		}
		if err != nil {
			return nil, err
		}
		return r.cut(i, first, offset, o)
	}
	return &Span{}, nil
}

// segmentOf is the index of the last segment that begins at or below offset.
func (r reader) segmentOf(offset int64) int {
	after := sort.Search(len(r.segments), func(i int) bool { return r.segments[i].base > offset })
	return max(after-1, 0)
}

func (r *reader) locate(s *segment, offset int64) (found, error) {
	if pos, end, ok := r.log.tail.find(s.base, offset); ok {
		return found{pos: pos, size: end - pos, baseOffset: offset}, nil
	}
	return s.locate(offset)
}

// cut makes a span of the bytes from first up to the bound, the limit, and the segment's end.
func (r *reader) cut(i int, first found, offset int64, o ReadOptions) (*Span, error) {
	if first.baseOffset >= r.bound {
		return &Span{}, nil
	}
	s := r.segments[i]
	end, err := r.endPosition(i)
	if err != nil {
		return nil, err
	}
	limit := int64(max(o.MaxBytes, 0))
	if o.MinOneBatch {
		limit = max(limit, first.size)
	}
	size, err := s.intact(first.pos, min(end-first.pos, limit))
	if err != nil {
		return nil, err
	}
	span := &Span{}
	if size > 0 {
		if err := span.pin(s, first.pos, size); err != nil {
			return nil, err
		}
	}
	if o.Aborted {
		span.AbortedTxns, err = r.abortedTxns(i, offset, first.pos+size)
	}
	if err != nil {
		span.Release()
		return nil, err
	}
	return span, nil
}

func (s *Span) pin(seg *segment, pos, size int64) error {
	o, err := seg.openData()
	if err != nil {
		return err
	}
	s.pinned, s.SizeBytes = o, int(size)
	s.region[0] = vfs.Region{File: o.File, OffsetBytes: pos, SizeBytes: int(size)}
	s.Regions = s.region[:]
	return nil
}

// endPosition is where the bytes below the bound end in segment i.
func (r *reader) endPosition(i int) (int64, error) {
	s := r.segments[i]
	if i+1 < len(r.segments) && r.bound >= r.segments[i+1].base {
		return s.size.Load(), nil
	}
	if r.bound == r.tail.end && s.base == r.tail.base {
		return r.tail.pos, nil
	}
	first, err := r.locate(s, r.bound)
	if errors.Is(err, io.EOF) {
		return s.size.Load(), nil
	}
	return first.pos, err
}
