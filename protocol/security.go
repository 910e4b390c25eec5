package protocol

import (
	"container/list"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/sched"
)

// Security says how the connections of a listener are secured. Without an entry in Options a listener has neither TLS
// nor SASL.
type Security struct {
	// TLS, if not nil, is the configuration of the handshake, which comes before the first frame.
	TLS *tls.Config
	// Name, if not nil, is asked after the handshake who the peer is; an error closes the connection.
	Name func(tls.ConnectionState) (Principal, error)
	// SASL, if not nil, authenticates a connection before it may ask for anything.
	SASL *SASL
}

const (
	saslHandshakeKey    = 17
	saslAuthenticateKey = 36
)

const (
	// maxUnauthenticated is how many connections of a server may be on their way to being authenticated: at it, the one
	// that has taken longest gives way to the next, so that connections that never get there keep none out that do.
	maxUnauthenticated = 512
	// maxHandshakeBytes is what a peer may send before its TLS handshake is done.
	maxHandshakeBytes = 128 << 10
	// defaultAuthTimeout is how long a connection may take to be authenticated.
	defaultAuthTimeout = 30 * time.Second
)

var (
	errHandshakeBytes = errors.New("the handshake is too long")
	errUnnamed        = errors.New("no principal for the peer's certificate")
	// errUnauthenticated refuses what may not be asked before authentication.
	errUnauthenticated = errors.New("the connection is not authenticated")
)

// secure puts TLS onto a new connection. Nothing is read or written yet: the reader goroutine does the handshake.
func (c *Conn) secure(security *Security) {
	if security == nil {
		return
	}
	c.security = *security
	if security.TLS != nil {
		c.nc = newTLSConn(c.socket, security.TLS)
	}
	if security.SASL != nil {
		c.auth = &authentication{sasl: security.SASL.current()}
	}
	if security.TLS != nil || security.SASL != nil {
		c.unauthenticated.Store(true)
	}
}

// handshake does the handshake of TLS. Without SASL the connection is authenticated by it.
func (c *Conn) handshake() error {
	conn, ok := c.nc.(*tlsConn)
	if !ok {
		return nil
	}
	if err := conn.Handshake(); err != nil && (conn.limit.left == maxHandshakeBytes || cutByPeer(err)) {
		return err // a peer looked whether there is a listener, or is gone: Kafka counts neither as a failure
	} else if err != nil {
		c.failedAuthentication("TLS handshake: " + err.Error())
		return err
	}
	conn.limit.left = -1
	if name := c.security.Name; name != nil {
		p, err := name(conn.ConnectionState())
		if err != nil {
			c.failedAuthentication(err.Error())
			return errUnnamed
		}
		c.SetPrincipal(p)
	}
	if c.auth == nil {
		c.Authenticated(c.Principal())
	}
	return nil
}

// cutByPeer says that the peer has closed or reset its connection, or died.
func cutByPeer(err error) bool {
	for _, cut := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, cut) {
			return true
		}
	}
	return false
}

// failedAuthentication notes a failure, as a line of the log at most now and then.
func (c *Conn) failedAuthentication(reason string) {
	if c.server.isDraining() {
		return
	}
	if m := c.server.o.Metrics; m != nil {
		m.FailedAuthentication(c.Listener)
	}
	c.server.denials.Write(&c.server.o.Log, zerolog.WarnLevel, func(e *zerolog.Event) {
		e.Uint64("conn", c.ID).Str("listener", c.Listener).Stringer("remote", c.RemoteAddr).Str("reason", reason).Msg("authentication failed")
	})
}

// Authenticated says that the peer has proven to be p. From now on it may ask for anything, in frames of any length
// that is allowed. The reader goroutine calls it.
func (c *Conn) Authenticated(p Principal) {
	c.SetPrincipal(p)
	if !c.unauthenticated.Swap(false) {
		return
	}
	c.frames.maxBytes = c.server.o.MaxRequestBytes
	c.server.waiting.remove(c)
	if m := c.server.o.Metrics; m != nil {
		m.SucceededAuthentication(c.Listener)
	}
}

// ProvesPrincipal says whether the peer has proven to be its principal, by something else than a delegation token: such
// clients alone may handle delegation tokens (Kafka's allowTokenRequests).
func (c *Conn) ProvesPrincipal() bool {
	if c.auth != nil {
		return !c.unauthenticated.Load() && !c.byToken.Load()
	}
	return c.security.TLS != nil && c.Principal() != *anonymous
}

// mayPass says whether a request of this key is served as far as the connection has got.
func (c *Conn) mayPass(key int16) bool {
	if c.auth != nil {
		return c.auth.admits(key)
	}
	return !c.unauthenticated.Load()
}

// serveRequest hands a request to who serves it. An error ends the connection.
func (c *Conn) serveRequest(r *Request) error {
	if c.auth != nil {
		if done, err := c.serveSASL(r); done {
			return err
		}
	}
	c.server.handler.Serve(c.ctx, r)
	return nil
}

// tlsConn is a TLS connection over a socket.
type tlsConn struct {
	*tls.Conn
	limit *limitedConn
}

func newTLSConn(socket net.Conn, config *tls.Config) *tlsConn {
	limit := &limitedConn{Conn: socket, left: maxHandshakeBytes}
	return &tlsConn{Conn: tls.Server(limit, config), limit: limit}
}

// CloseWrite tells the peer that no more comes, by TLS and by TCP.
func (c *tlsConn) CloseWrite() error {
	err := c.Conn.CloseWrite()
	if half, ok := c.limit.Conn.(halfCloser); ok && err == nil {
		return half.CloseWrite()
	}
	return err
}

// limitedConn gives at most left bytes to read; below 0 there is no limit. The reader goroutine alone reads.
type limitedConn struct {
	net.Conn
	left int
}

func (c *limitedConn) Read(p []byte) (int, error) {
	if c.left < 0 {
		return c.Conn.Read(p)
	}
	if c.left == 0 {
		return 0, errHandshakeBytes
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// waitingConns are the connections that are not authenticated yet, the oldest first.
type waitingConns struct {
	mu    sched.Mutex
	order list.List
	at    map[*Conn]*list.Element
}

// add enters a connection; it returns the one that has to give way, if any.
func (w *waitingConns) add(c *Conn) (oldest *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.order.Len() >= maxUnauthenticated {
		first := w.order.Front()
		oldest = w.order.Remove(first).(*Conn)
		delete(w.at, oldest)
	}
	if w.at == nil {
		w.at = map[*Conn]*list.Element{}
	}
	w.at[c] = w.order.PushBack(c)
	return oldest
}

func (w *waitingConns) remove(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.at[c]; e != nil {
		w.order.Remove(e)
		delete(w.at, c)
	}
}
