package protocol

import (
	"time"

	"grete/internal/memory"
)

const (
	// minDecodedLoan is the least estimate of a decoded request, minResponseLoan the least response, that is borrowed
	// for. What is smaller is bounded by the requests in flight of a connection.
	minDecodedLoan  = 16 << 10
	minResponseLoan = 8 << 10

	// While others wait for memory, a frame must bring stallBytes within stallPatience, and a peer must read
	// maxWriteBytes of its responses within unreadPatience, or all. Otherwise their connections are cut.
	stallBytes     = 64 << 10
	stallPatience  = 2 * time.Second
	unreadPatience = 5 * time.Second
)

// Weigher is a Handler that knows which requests have large responses.
type Weigher interface {
	// Weigh estimates the bytes that building and encoding the response of r takes, as far as that is much.
	Weigh(r *Request) int64
}

// lendDecoded borrows for the decoded form of a request.
func (c *Conn) lendDecoded(r *Request, decodedBytes int) error {
	if decodedBytes < minDecodedLoan || c.grow(&r.loan, int64(decodedBytes)) {
		return nil
	}
	return errDraining
}

// lendResponse borrows for a large response before it is built; false when the connection ends first.
func (c *Conn) lendResponse(r *Request) bool {
	w := c.server.weigher
	if w == nil {
		return true
	}
	n := w.Weigh(r)
	if n < minResponseLoan {
		return true
	}
	r.response.From(c.server.o.Memory.Responses)
	if c.trusted.Load() {
		r.response.Force(n)
		return true
	}
	return c.grow(&r.response, n)
}

// grow takes n more bytes for l. Before it waits, it sends what is ready.
func (c *Conn) grow(l *memory.Loan, n int64) bool {
	if l.TryGrow(n) {
		return true
	}
	c.flush()
	return l.Grow(n, c.server.draining, c.gone)
}

// onlyReads says whether a request of key changes nothing, so that nobody misses it once its client is gone.
func onlyReads(key int16) bool {
	switch key {
	case 1, 2, 3, 9, 10, 15, 16, 18, 23, 29, 32, 35, 46, 50, 55, 60, 61, 65, 66, 69, 74, 75:
		return true
	}
	return false
}

// stall is what the reaper remembers of a frame that is being received.
type stall struct {
	lender   *memory.Account
	gotBytes int64
	since    time.Time
}

// stalled says whether the frame holds memory that others wait for, and does not come. Only the reaper calls it.
func (f *frameReader) stalled(now time.Time) bool {
	lender, got := f.lender.Load(), f.gotBytes.Load()
	if lender == nil || f.began.Load() == 0 || lender.Waiting() == 0 || lender != f.stall.lender || got-f.stall.gotBytes >= stallBytes {
		f.stall = stall{lender: lender, gotBytes: got, since: now}
		return false
	}
	return now.Sub(f.stall.since) >= stallPatience
}

// unread says whether c holds responses that its peer does not read, while others wait for the memory.
func (c *Conn) unread(now time.Time) bool {
	since := c.sendingSince.Load()
	if since == 0 || now.UnixNano()-since < int64(unreadPatience) || c.server.o.Memory.Responses.Waiting() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inSending+c.out.sizeBytes >= minResponseLoan
}
