package protocol

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"grete/internal/memory"
)

const (
	// smallReadBytes is what one read takes at most while requests are small: several of them, pipelined.
	smallReadBytes = 8 << 10
	// firstGrowthBytes is how much of a large frame is set aside before any of it has come; after that its buffer
	// grows by growthFactor, so that a claimed length costs in proportion to the bytes received.
	firstGrowthBytes = 32 << 10
	growthFactor     = 4
	// maxReadAheadBytes bounds what a read asks for before the length of a frame is known.
	maxReadAheadBytes = 256 << 10
	// progressBytes of a frame must come within every frameTimeout.
	progressBytes = 1 << 20
	// smallFrameBytes is the largest frame that may use the reserve of small requests.
	smallFrameBytes = 64 << 10
)

// frame is a received frame without its length; buf is what it lies in.
type frame struct {
	buf   *buffer
	bytes []byte
	loan  memory.Loan // for its buffer
}

// frameReader cuts a connection's stream into frames. A buffer is held only while bytes are in it: an idle connection
// waits without one. Small frames are copied out of it; a frame that is alone in it is handed over with it, and as the
// next read asks for just as much as the last large frame took, a stream of large requests is received without a copy.
type frameReader struct {
	nc       net.Conn
	raw      syscall.RawConn // nil when nc is no plain socket
	ledger   *memory.Ledger
	trusted  *atomic.Bool    // the peer is one of the cluster's own
	stop     <-chan struct{} // ends a wait for memory, as gone does
	gone     <-chan struct{}
	maxBytes int
	tokens   bool // frames are tokens of SASL: they have no header

	buf   *buffer
	r, w  int // unread bytes are buf.b[r:w]
	limit int // reads end here: never into the next frame when the buffer is one frame's own
	loan  memory.Loan
	next  int // bytes that the next read asks for

	head    [lengthBytes]byte // the length of a frame, of a connection without raw
	tryRead func(fd uintptr) bool
	readN   int
	readErr error

	// began is when the frame that is being received last made progress, in nanoseconds; 0 between frames.
	began    atomic.Int64
	gotBytes atomic.Int64                   // of frames that came in pieces
	lender   atomic.Pointer[memory.Account] // of the frame that is being received; nil between frames
	stall    stall                          // the reaper's
	now      func() time.Time
	received func(n int) // counts bytes
}

func newFrameReader(nc net.Conn, maxBytes int, ledger *memory.Ledger, trusted *atomic.Bool, stop, gone <-chan struct{}, now func() time.Time) *frameReader {
	f := &frameReader{
		nc: nc, raw: rawConn(nc), ledger: ledger, trusted: trusted, stop: stop, gone: gone, maxBytes: maxBytes, next: smallReadBytes, now: now,
	}
	f.tryRead = f.readReady
	return f
}

func (f *frameReader) unread() int { return f.w - f.r }

// buffered says whether a whole frame, or one that will be refused, can be had without reading.
func (f *frameReader) buffered() bool {
	if f.unread() < lengthBytes {
		return false
	}
	n, err := f.length()
	return err != nil || f.unread() >= lengthBytes+n
}

// length reads the length of the next frame.
func (f *frameReader) length() (int, error) {
	if f.tokens {
		return tokenLength(f.buf.b[f.r:f.w], f.maxBytes)
	}
	return frameLength(f.buf.b[f.r:f.w], f.maxBytes)
}

// read returns the next frame. io.EOF means that the peer ended between frames.
func (f *frameReader) read() (frame, error) {
	for f.unread() < lengthBytes {
		if err := f.fill(); err != nil {
			return frame{}, err
		}
	}
	n, err := f.length()
	if err != nil {
		return frame{}, err
	}
	if err := f.complete(lengthBytes + n); err != nil {
		return frame{}, err
	}
	return f.cut(n), nil
}

// complete receives until size bytes are unread, growing the buffer as they come and borrowing for it first.
func (f *frameReader) complete(size int) error {
	f.loan.From(f.ledger.Requests)
	if f.trusted.Load() {
		f.loan.From(f.ledger.Peers)
	}
	if f.unread() >= size {
		return f.charge(int64(size), size)
	}
	for f.unread() < size {
		have := f.unread()
		room := min(size, max(growthFactor*have, firstGrowthBytes))
		if f.r+size <= len(f.buf.b) {
			room = size
		}
		f.began.Store(0) // waiting for memory is not the peer's delay
		if err := f.charge(int64(room), size); err != nil {
			return err
		}
		f.lender.Store(f.loan.Account())
		f.began.Store(f.now().UnixNano())
		f.makeRoom(room)
		f.limit = f.r + room
		if f.raw == nil && size <= smallReadBytes/2 { // frames that follow come with this one
			f.limit = len(f.buf.b)
		}
		for f.unread() < room {
			if err := f.fillFrame(); err != nil {
				return err
			}
		}
	}
	return nil
}

// charge brings the loan for a frame of frameBytes up to bytes. A small frame that would have to wait borrows from its
// reserve.
func (f *frameReader) charge(bytes int64, frameBytes int) error {
	more := bytes - f.loan.Bytes()
	if more <= 0 || f.loan.TryGrow(more) {
		return nil
	}
	if frameBytes <= smallFrameBytes && f.loan.Account() == f.ledger.Requests {
		f.loan.Return()
		f.loan.From(f.ledger.Small)
		more = bytes
	}
	if !f.loan.Grow(more, f.stop, f.gone) {
		return errDraining
	}
	return nil
}

// makeRoom makes the buffer hold room bytes from the first unread one on.
func (f *frameReader) makeRoom(room int) {
	if f.r+room <= len(f.buf.b) {
		return
	}
	grown := getBuffer(room)
	f.w = copy(grown.b, f.buf.b[f.r:f.w])
	f.r = 0
	f.buf.put()
	f.buf = grown
}

// fillFrame reads within a frame, noting progress; the end of the stream there is unexpected.
func (f *frameReader) fillFrame() error {
	had := f.unread()
	if err := f.fill(); err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	f.gotBytes.Store(f.gotBytes.Load() + int64(f.unread()-had))
	if f.unread()/progressBytes > had/progressBytes {
		f.began.Store(f.now().UnixNano())
	}
	return nil
}

// cut takes the frame of n bytes that is first in the buffer.
func (f *frameReader) cut(n int) frame {
	out := frame{loan: f.loan}
	f.loan = memory.Loan{}
	if f.began.Load() != 0 {
		f.began.Store(0)
		f.lender.Store(nil)
	}
	size := lengthBytes + n
	start := f.r + lengthBytes
	alone := f.r == 0 && f.w == size
	if alone && 2*size >= len(f.buf.b) {
		out.buf, out.bytes = f.buf, f.buf.b[start:start+n]
		f.buf = nil
		f.r, f.w = 0, 0
	} else {
		out.buf = getBuffer(n)
		out.bytes = out.buf.b[:copy(out.buf.b[:n], f.buf.b[start:start+n])]
		f.r += size
		f.reset()
	}
	f.next = smallReadBytes
	if size > smallReadBytes {
		f.next = min(size, maxReadAheadBytes)
	}
	return out
}

// reset gives an empty buffer back.
func (f *frameReader) reset() {
	if f.r == f.w {
		f.buf.put()
		f.buf, f.r, f.w = nil, 0, 0
	}
}

// fill waits for bytes and reads once.
func (f *frameReader) fill() error {
	if f.unread() > 0 && f.unread() < lengthBytes && f.began.Load() == 0 {
		f.began.Store(f.now().UnixNano())
	}
	if f.raw == nil {
		f.readN, f.readErr = f.readWaiting()
	} else if err := f.raw.Read(f.tryRead); err != nil {
		f.readN, f.readErr = 0, err
	}
	n, err := f.readN, f.readErr
	if n > 0 {
		f.w += n
		if f.received != nil {
			f.received(n)
		}
		return nil
	}
	f.reset()
	if err == nil {
		err = io.EOF
	}
	return err
}

// readWaiting reads from a connection that does not tell whether it is ready. The length that begins a frame is waited
// for without a buffer.
func (f *frameReader) readWaiting() (int, error) {
	if f.buf != nil {
		f.prepare()
		return f.nc.Read(f.buf.b[f.w:f.limit])
	}
	n, err := f.nc.Read(f.head[:])
	if n > 0 {
		f.prepare()
		copy(f.buf.b, f.head[:n])
	}
	return n, err
}

// prepare sees to a buffer with room for a read.
func (f *frameReader) prepare() {
	if f.buf == nil {
		f.buf = getBuffer(f.next)
		f.limit = min(f.next, len(f.buf.b))
	}
	if f.w >= f.limit { // only a part of a length is unread
		f.w = copy(f.buf.b, f.buf.b[f.r:f.w])
		f.r, f.limit = 0, len(f.buf.b)
	}
}

// close gives back what is held.
func (f *frameReader) close() {
	f.r, f.w = 0, 0
	f.buf.put()
	f.buf = nil
	f.loan.Return()
}
