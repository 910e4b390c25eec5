package protocol

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// lingerTimeout is how long a connection that we end waits for the peer's end, so that its last responses are
// not lost to a reset.
const lingerTimeout = 500 * time.Millisecond

// run is the reader goroutine: requests in, until the peer or we end it.
func (c *Conn) run() {
	err := c.handshake()
	if err == nil {
		err = c.readRequests()
	}
	if c.endedByUs(err) {
		c.finishAnswers()
		c.linger()
	} else {
		c.flush()
	}
	c.teardown()
}

func (c *Conn) readRequests() error {
	for {
		if err := c.awaitTurn(); err != nil {
			return err
		}
		if !c.frames.buffered() {
			c.flush()
		}
		f, err := c.frames.read()
		if err != nil {
			return c.refuseFrame(err)
		}
		if err := c.serve(f); err != nil {
			return err
		}
	}
}

var (
	errAborted  = errors.New("connection aborted")
	errDraining = errors.New("server is shutting down")
)

// endedByUs says whether answers can still reach the peer.
func (c *Conn) endedByUs(err error) bool {
	if errors.Is(err, errAborted) || errors.Is(err, errDraining) {
		return true
	}
	return errors.Is(err, os.ErrDeadlineExceeded) // stopReading
}

// awaitTurn waits until another request may be taken: not too many in flight, not too much unsent, not muted.
func (c *Conn) awaitTurn() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed || c.broken && !c.mayTakeMore():
			return net.ErrClosed
		case c.aborting:
			return errAborted
		case c.mayTakeMore():
			return nil
		}
		if c.serving {
			c.mu.Unlock()
			c.flush()
			c.mu.Lock()
			continue
		}
		c.changed.Wait()
	}
}

// mayTakeMore is whether the bounds of this connection admit another request. c.mu is held.
func (c *Conn) mayTakeMore() bool {
	if c.order.len() >= c.server.o.MaxInFlight || len(c.out.results) >= c.server.o.MaxInFlight {
		return false
	}
	if c.out.sizeBytes+c.inSending >= maxUnsentBytes {
		return false
	}
	return c.mutedTill.IsZero() || c.server.isDraining() || !c.server.o.Clock.Now().Before(c.mutedTill)
}

// serve decodes one frame and hands it to the handler.
func (c *Conn) serve(f frame) error {
	now := c.server.o.Clock.Now()
	c.lastActive.Store(now.UnixNano())
	if c.frames.tokens {
		return c.serveToken(f)
	}
	r, err := c.decode(f)
	if err != nil {
		f.buf.put()
		r.loan.Return()
		if errors.Is(err, errDraining) {
			return err
		}
		return c.refuse(err.Error())
	}
	r.Received, r.Conn = now, c
	r.SizeBytes = len(f.bytes)
	if !c.lendResponse(r) {
		r.ReleaseBody()
		return errDraining
	}
	c.mu.Lock()
	c.serving = true
	r.seq = c.order.push()
	dropped := c.broken && onlyReads(r.Key)
	c.mu.Unlock()
	if dropped {
		r.NoResponse()
		return nil
	}
	if stats := c.server.stats(r.Key); stats != nil {
		stats.Received(r.Version)
	}
	if err := c.serveRequest(r); err != nil {
		return err
	}
	if c.server.o.Metrics != nil && !r.answered.Load() {
		r.servedNanos.Store(c.server.o.Clock.Now().UnixNano())
	}
	return nil
}

// decode makes a request of a frame. The frame's buffer is the request's afterwards, or back in its pool when nothing
// in the decoded request points to it. The frame's loan is the request's, also that of one that is refused.
func (c *Conn) decode(f frame) (*Request, error) {
	h, rest := parseFixedHeader(f.bytes)
	r := &Request{Key: h.key, Version: h.version, CorrelationID: h.correlationID, loan: f.loan}
	if !c.mayPass(h.key) {
		return r, &RequestError{Key: h.key, Version: h.version, Err: errUnauthenticated}
	}
	schema := c.server.served(h.key, h.version)
	if schema == nil && h.key != apiVersionsKey {
		return r, &RequestError{Key: h.key, Version: h.version, Err: ErrUnsupported}
	}
	flexible := schema == nil && h.version >= apiVersionsFlexible || schema != nil && schema.flexible.has(h.version)
	body, err := c.parseHeaderRest(r, rest, flexible)
	if err != nil {
		return r, &RequestError{Key: h.key, Version: h.version, Field: "header", Err: err}
	}
	if schema == nil { // answered without a look at the body
		f.buf.put()
		return r, nil
	}
	found, err := scanRequest(schema, h.version, body)
	if err == nil {
		err = c.lendDecoded(r, found.decodedBytes)
	}
	if err == nil {
		r.Body, err = decodeScanned(schema, h.version, body, found)
	}
	if err != nil {
		return r, err
	}
	if found.aliases {
		r.buf = f.buf
		return r, nil
	}
	f.buf.put()
	if r.loan.Bytes() >= minDecodedLoan {
		r.loan.Shrink(int64(found.decodedBytes))
	}
	return r, nil
}

// parseHeaderRest reads client id and tags, and returns the body.
func (c *Conn) parseHeaderRest(r *Request, rest []byte, flexible bool) (body []byte, err error) {
	r.ClientID, body, err = parseClientID(rest, c.lastID)
	c.lastID = r.ClientID
	if err == nil && flexible {
		body, err = skipHeaderTags(body)
	}
	return body, err
}

// refuseFrame turns a frame that cannot be read into the connection's end.
func (c *Conn) refuseFrame(err error) error {
	if errors.Is(err, ErrFrameTooLarge) || errors.Is(err, ErrMalformed) || errors.Is(err, errHTTP) {
		return c.refuse(err.Error())
	}
	if !errors.Is(err, io.EOF) {
		c.server.o.Log.Debug().Err(err).Uint64("conn", c.ID).Msg("connection ended")
	}
	return err
}

// refuse ends the connection in the turn of the request that was just read.
func (c *Conn) refuse(reason string) error {
	c.mu.Lock()
	seq := c.order.push()
	c.mu.Unlock()
	c.complete(seq, result{abort: reason})
	return errAborted
}

// finishAnswers waits until what was accepted, or what came before an abort, is answered and sent.
func (c *Conn) finishAnswers() {
	c.closingSince.CompareAndSwap(0, c.server.o.Clock.Now().UnixNano())
	c.flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && !c.broken && (c.sending || len(c.out.results) > 0 || c.order.len() > 0 && !c.aborted) {
		c.changed.Wait()
	}
}

// linger ends our side and waits a little for the peer's end.
func (c *Conn) linger() {
	half, ok := c.nc.(halfCloser)
	if !ok || half.CloseWrite() != nil {
		return
	}
	timer := c.server.o.Clock.AfterFunc(lingerTimeout, func() { c.socket.Close() })
	defer timer.Stop()
	_ = c.nc.SetReadDeadline(time.Time{})
	scrap := getBuffer(smallClassBytes)
	defer scrap.put()
	for {
		if _, err := c.nc.Read(scrap.b); err != nil {
			return
		}
	}
}

// teardown ends the connection: nobody can answer on it any more.
func (c *Conn) teardown() {
	c.cancel()
	c.markGone()
	c.nc.Close()
	c.mu.Lock()
	c.closed = true
	if c.unmute != nil {
		c.unmute.Stop()
	}
	c.mu.Unlock()
	c.writers.Wait() // nothing starts a writer once closed is set
	c.out.clear()
	for c.order.len() > 0 {
		s := c.order.at(c.order.head)
		if s.ready {
			s.result.drop()
		}
		c.order.head++
	}
	c.frames.close()
	c.server.remove(c)
}
