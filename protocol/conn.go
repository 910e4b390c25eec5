package protocol

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"grete/internal/clock"
	"grete/internal/sched"
)

// maxUnsentBytes of responses in memory for one connection: beyond, its requests are not read until the peer reads.
const maxUnsentBytes = 1 << 20

// Principal is who a connection authenticated as; User:ANONYMOUS without authentication.
type Principal struct{ Type, Name string }

var anonymous = &Principal{Type: "User", Name: "ANONYMOUS"}

// Peer is the node at the other end of a connection that has said Hello.
type Peer struct {
	NodeID int32
	// Proven: it is the node that it says, by the cluster's key or because that node, asked at its address, said so.
	Proven bool
	// Incarnation is the id of the run of a broker that only that run can show.
	Incarnation [16]byte
}

// Conn is an accepted connection as handlers see it.
//
// One goroutine, the reader, receives, serves and, where the answer is ready when Serve returns, sends. An answer that
// comes while the reader is not about to send gets a writer, a goroutine that lives while there is something to send.
// Never do two send at once (sending).
type Conn struct {
	ID         uint64
	Listener   string // name of the listener it came in on, such as PLAINTEXT
	RemoteAddr net.Addr
	LocalAddr  net.Addr
	// ClientSoftware is set by ApiVersions v3+.
	SoftwareName, SoftwareVersion string

	server    *Server
	socket    net.Conn
	nc        net.Conn // the socket, or TLS over it
	security  Security
	auth      *authentication // nil: no SASL
	frames    *frameReader
	sender    sender
	principal atomic.Pointer[Principal]
	peer      atomic.Pointer[Peer]
	memo      atomic.Value
	ctx       context.Context
	cancel    context.CancelFunc
	writers   sync.WaitGroup
	trusted   atomic.Bool   // its memory is the reserve of the cluster's own connections
	gone      chan struct{} // closed when nothing can be sent any more
	goneOnce  sync.Once
	lastID    *string // client id of the last request; the reader's own

	lastActive   atomic.Int64 // nanoseconds: last request, or last progress in sending
	sendingSince atomic.Int64 // nanoseconds: last progress of what is being sent; 0 when nothing is
	closingSince atomic.Int64 // nanoseconds: when the connection began to end; 0 before
	waitingSince atomic.Int64 // nanoseconds: when it began to wait for authentication; 0 where there is none

	byToken         atomic.Bool // it is authenticated by a delegation token
	unauthenticated atomic.Bool // it has to prove who it is before it may ask for anything

	mu        sched.Mutex
	changed   sync.Cond // what the reader waits for: order, out, mutedTill, ending
	order     order
	out       outQueue // ready to be sent
	spare     outQueue // the other half of the double buffer: what is being sent
	inSending int      // bytes of responses in memory that are being sent
	serving   bool     // the reader will look at out before it waits for anything
	sending   bool     // somebody is sending
	broken    bool     // sending failed: answers are dropped
	aborting  bool     // no more requests; close when all before the abort is sent
	aborted   bool     // the abort's turn has come: nothing after it is sent
	closed    bool
	mutedTill time.Time
	unmute    clock.Timer
}

// Principal returns the connection's principal.
func (c *Conn) Principal() Principal { return *c.principal.Load() }

// SetPrincipal is called by authentication.
func (c *Conn) SetPrincipal(p Principal) { c.principal.Store(&p) }

// Peer is the node that dialled, nil for anybody else.
func (c *Conn) Peer() *Peer { return c.peer.Load() }

// SetPeer is called for a Hello that was accepted.
func (c *Conn) SetPeer(p *Peer) { c.peer.Store(p) }

// Trust has the connection borrow from the reserve of the cluster's own, which clients cannot take. It is called once
// the peer is proven to be a node of the cluster.
func (c *Conn) Trust() {
	if !c.trusted.Load() {
		c.trusted.Store(true)
	}
}

// markGone ends waits for memory on behalf of the connection.
func (c *Conn) markGone() { c.goneOnce.Do(func() { close(c.gone) }) }

// Memo returns what SetMemo has set last, nil before. It is for what the handler remembers about the connection.
func (c *Conn) Memo() any { return c.memo.Load() }

// SetMemo remembers v, which must always be of the same type.
func (c *Conn) SetMemo(v any) { c.memo.Store(v) }

// Refused notes, as a line of the log at most now and then, that something came on the connection which a node or
// client that means well does not send.
func (c *Conn) Refused(what string) { c.server.refused(c, what, "refused") }

// Context is cancelled when the connection is gone: parked work for it can be dropped.
func (c *Conn) Context() context.Context { return c.ctx }

// Mute stops reading further requests for d (quota), counted from now.
func (c *Conn) Mute(d time.Duration) {
	till := c.server.o.Clock.Now().Add(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !till.After(c.mutedTill) {
		return
	}
	c.mutedTill = till
	if c.unmute != nil {
		c.unmute.Stop()
	}
	c.unmute = c.server.o.Clock.AfterFunc(d, c.wake)
}

// wake makes the reader look again whether it may go on.
func (c *Conn) wake() {
	c.mu.Lock()
	c.changed.Broadcast()
	c.mu.Unlock()
}

// complete puts a result in its place and sees to it that somebody sends.
func (c *Conn) complete(seq uint64, res result) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		res.drop()
		return
	}
	s := c.order.at(seq)
	s.ready, s.result = true, res
	if res.abort != "" {
		c.aborting = true
	}
	dropped, abort := c.advance()
	if !c.serving && !c.sending && len(c.out.results) > 0 {
		c.sending = true
		c.writers.Go(c.send)
	}
	if !c.serving {
		c.changed.Broadcast()
	}
	c.mu.Unlock()
	for i := range dropped {
		dropped[i].drop()
	}
	if res.abort != "" {
		c.stopReading()
	}
	if abort != "" && abort != denied {
		c.server.refused(c, abort, "connection closed")
	}
}

// stopReading makes a reader that waits for bytes return from it, with os.ErrDeadlineExceeded.
func (c *Conn) stopReading() { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) }

// advance moves results whose turn has come to out; it returns those that will not be sent, and the reason when the
// turn of an abort has come. c.mu is held.
func (c *Conn) advance() (dropped []result, abort string) {
	for {
		res, ok := c.order.pop()
		switch {
		case !ok:
			return dropped, abort
		case res.abort != "" && !c.aborted:
			c.aborted, abort = true, res.abort
		case res.head == nil: // no response
		case c.aborted || c.broken:
			dropped = append(dropped, res)
		default:
			c.out.push(res)
		}
	}
}

// flush sends what is ready, unless somebody is at it; the reader calls it before it waits for anything.
func (c *Conn) flush() {
	c.mu.Lock()
	c.serving = false
	mine := !c.sending && len(c.out.results) > 0
	if mine {
		c.sending = true
	}
	c.mu.Unlock()
	if mine {
		c.send()
	}
}

// send sends until nothing is ready. The caller has set c.sending.
func (c *Conn) send() {
	c.mu.Lock()
	for len(c.out.results) > 0 {
		c.out, c.spare = c.spare, c.out
		c.inSending = c.spare.sizeBytes
		broken := c.broken
		c.mu.Unlock()
		if !broken {
			broken = c.sendBatch(c.spare.results) != nil
		}
		c.spare.clear()
		c.mu.Lock()
		c.broken, c.inSending = broken, 0
	}
	c.sending = false
	if len(c.out.results) == 0 && cap(c.out.results) > c.server.o.MaxInFlight {
		c.out.results = nil
	}
	c.changed.Broadcast()
	c.mu.Unlock()
}

// sendBatch sends results, whose memory stays theirs; an error means that the peer gets nothing more.
func (c *Conn) sendBatch(results []result) error {
	sending := c.progress()
	err := c.sender.send(results)
	c.sendingSince.Store(0)
	if c.server.o.Metrics != nil {
		observeSent(results, sending, c.server.o.Clock.Now())
	}
	if err != nil {
		c.server.o.Log.Debug().Err(err).Uint64("conn", c.ID).Msg("sending failed")
		c.markGone()
		c.endSending()
	}
	return err
}

// endSending tells the peer that no more comes. What it has sent is still read and done; the reaper ends a peer that
// does not end.
func (c *Conn) endSending() {
	c.closingSince.CompareAndSwap(0, c.server.o.Clock.Now().UnixNano())
	if half, ok := c.nc.(halfCloser); !ok || half.CloseWrite() != nil {
		c.nc.Close()
	}
}

// halfCloser is a connection that can end in one direction.
type halfCloser interface{ CloseWrite() error }

// progress notes that bytes went out.
func (c *Conn) progress() time.Time {
	now := c.server.o.Clock.Now()
	c.sendingSince.Store(now.UnixNano())
	c.lastActive.Store(now.UnixNano())
	return now
}
