package batch

import (
	"errors"
	"io"
)

// recordReader cuts record bodies out of a batch's payload. An uncompressed payload, or one decompressed at once, is
// its buffer; otherwise the buffer is a window that src refills. The window grows only with bytes that have really
// come, never by what a length field claims.
type recordReader struct {
	buf       []byte // buf[pos:] is not yet consumed
	pos       int
	src       io.Reader // nil when buf is all there is
	leftBytes int64     // what src may still give
	srcErr    error     // why src has ended, io.EOF for a clean end
	close     func()    // gives pooled parts back
	// maxRecordBytes bounds a record's length, heldBytes one that is held whole; 0: no bound.
	maxRecordBytes, heldBytes int
}

// windowBytes is the first size of a window, and how much is asked of src at once.
const windowBytes = 32 << 10

var (
	errCut            = invalid("records end before the declared count")
	errVarint         = invalid("a variable-length integer is longer than its type")
	errRecordSize     = invalid("a record's length contradicts its contents or the batch's size")
	errHeaderCount    = invalid("a record's header count contradicts its size")
	errHeaderKey      = invalid("a record header has a negative key length")
	errRemaining      = invalid("bytes remain after the declared count of records")
	errRecordTooLarge = invalid("a record is larger than max.decompressed.message.bytes")
	errExpansion      = tooLarge("the records decompress to more than is allowed")
)

// ErrInflates: a record, or what compaction leaves of a batch, is larger than may be held in memory.
var ErrInflates = errors.New("records of a compressed batch inflate to more than may be held in memory")

// openRecords starts reading the records of b as w says. Close gives its buffers back.
func (b Batch) openRecords(w *recordWalk) (recordReader, error) {
	codec, limitBytes := b.Codec(), w.limitBytes
	if codec == None {
		return recordReader{buf: b[HeaderSize:]}, nil
	}
	whole := w.heldBytes > 0 && codec == Snappy && !isXerial(b[HeaderSize:]) // decoded at once
	if whole {
		limitBytes = min(limitBytes, int64(w.heldBytes))
	}
	r, err := openCompressed(codec, b[HeaderSize:], limitBytes)
	if whole && err == errExpansion {
		err = ErrInflates
	}
	r.maxRecordBytes, r.heldBytes = int(w.maxRecordBytes), w.heldBytes
	return r, err
}

// Close gives pooled buffers and decoders back; bodies returned before are no longer valid.
func (r *recordReader) Close() {
	if r.close != nil {
		r.close()
		r.close = nil
	}
}

// read parses the next record; v is valid until the following call.
func (r *recordReader) read(v *recordView, sizesOnly bool) error {
	size, err := r.nextSize()
	if err != nil {
		return err
	}
	if sizesOnly && size > windowBytes && r.src != nil {
		err = r.skimLarge(size, v)
		v.sizeBytes = size
		return err
	}
	if r.heldBytes > 0 && size > r.heldBytes {
		return ErrInflates
	}
	body, err := r.body(size)
	if err != nil {
		return err
	}
	v.sizeBytes = size
	return v.parse(body)
}

// nextSize reads the length of the next record.
func (r *recordReader) nextSize() (int, error) {
	size, at := readVarint(r.buf, r.pos)
	for at == varintCut {
		if err := r.fill(); err != nil {
			return 0, err
		}
		size, at = readVarint(r.buf, r.pos)
	}
	if at == varintLong {
		return 0, errVarint
	}
	if size < 0 || (r.src == nil && int(size) > len(r.buf)-at) {
		return 0, errRecordSize
	}
	if r.maxRecordBytes > 0 && int(size) > r.maxRecordBytes {
		return 0, errRecordTooLarge
	}
	r.pos = at
	return int(size), nil
}

// body returns the next size bytes, valid until the following call.
func (r *recordReader) body(size int) ([]byte, error) {
	for len(r.buf)-r.pos < size {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	body := r.buf[r.pos : r.pos+size]
	r.pos += size
	return body, nil
}

// ended says whether nothing is left after the last record.
func (r *recordReader) ended() error {
	for r.pos == len(r.buf) {
		if err := r.fill(); err == errCut {
			return nil
		} else if err != nil {
			return err
		}
	}
	return errRemaining
}

// fill adds at least one byte to the window, or says why it cannot.
func (r *recordReader) fill() error {
	if r.src == nil {
		return errCut
	}
	r.makeRoom()
	for r.srcErr == nil {
		room := r.buf[len(r.buf):cap(r.buf)]
		if int64(len(room)) > r.leftBytes+1 {
			room = room[:r.leftBytes+1] // one more than allowed, to tell the end from too much
		}
		var n int
		n, r.srcErr = r.src.Read(room)
		r.buf = r.buf[:len(r.buf)+n]
		if r.leftBytes -= int64(n); r.leftBytes < 0 {
			return errExpansion
		}
		if n > 0 {
			return nil
		}
	}
	var known *Error
	switch {
	case r.srcErr == io.EOF:
		return errCut
	case errors.As(r.srcErr, &known):
		return known
	}
	return undecodable(r.srcErr)
}

// makeRoom drops what was consumed, and doubles a window that is full of one record.
func (r *recordReader) makeRoom() {
	if r.pos > 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.pos:])]
		r.pos = 0
	}
	if len(r.buf) == cap(r.buf) {
		r.buf = append(make([]byte, 0, max(windowBytes, 2*cap(r.buf))), r.buf...)
	}
}
