// Package protocol is the wire: frames, headers, version negotiation, bounded decoding, the connection with its
// reader and its ordered writer, and the client side that brokers use among themselves. It knows no handler.
package protocol

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"grete/internal/loglimit"
	"grete/internal/sched"
)

// VersionRange is one row of ApiVersions.
type VersionRange struct{ Key, Min, Max int16 }

// Handler serves decoded requests. Serve runs on the connection's reader goroutine and must not block on
// anything slower than a local append: it answers with Respond now, or keeps r and answers later from elsewhere.
type Handler interface {
	// Versions is the table of what is served; the server closes a connection that asks for anything else (except
	// ApiVersions of a too-new version, which reaches Serve with Body == nil).
	Versions() []VersionRange
	Serve(ctx context.Context, r *Request)
}

// ErrServerClosed is what Serve returns after Shutdown.
var ErrServerClosed = errors.New("server closed")

// Server serves one or more listeners.
type Server struct {
	handler                        Handler
	o                              Options
	limits                         *connLimits
	waiting                        waitingConns
	refusal, unaccepted            *loglimit.Limit
	denials                        *loglimit.Limit // of failed authentications, which nothing else is to hide
	acceptFailures, acceptFailedMs atomic.Int64
	acceptWaiting                  atomic.Int32
	schemas                        []servedSchema // by key
	weigher                        Weigher        // the handler, if it is one

	nextID   atomic.Uint64
	draining chan struct{} // closed by Shutdown: no more accepting and reading
	stopped  chan struct{} // closed when all connections are gone, for the reaper
	reaper   sync.WaitGroup
	running  sync.WaitGroup // acceptors and readers

	reaping sched.Mutex // one look at the connections at a time

	mu        sched.Mutex
	shutdown  bool
	listeners map[net.Listener]struct{}
	conns     map[*Conn]struct{}
}

// servedSchema is what of a key is served.
type servedSchema struct {
	schema   *requestSchema
	versions versionSpan
}

// NewServer makes a server of what h serves. Versions that have no wire format any more (Produce 0–2 are advertised for
// librdkafka's sake) are refused as unknown ones.
func NewServer(h Handler, o Options) *Server {
	o.setDefaults()
	s := &Server{
		handler: h, o: o, limits: newConnLimits(o), refusal: loglimit.New(o.Clock, troubleLogEvery), denials: loglimit.New(o.Clock, troubleLogEvery), unaccepted: loglimit.New(o.Clock, troubleLogEvery),
		draining: make(chan struct{}), stopped: make(chan struct{}),
		listeners: map[net.Listener]struct{}{}, conns: map[*Conn]struct{}{},
	}
	s.weigher, _ = h.(Weigher)
	for _, v := range h.Versions() {
		s.addSchema(v)
	}
	if o.Metrics != nil {
		o.Metrics.SetBudget(func() (used, limit int64) { return s.o.Memory.Requests.UsedBytes(), s.o.Memory.Requests.ShareBytes() })
	}
	s.reaper.Go(s.reap)
	return s
}

func (s *Server) addSchema(v VersionRange) {
	schema := requestSchemas()[v.Key]
	if schema == nil {
		panic(fmt.Sprintf("protocol: api key %d has no schema", v.Key)) // a row of the program's own table
	}
	for len(s.schemas) <= int(v.Key) {
		s.schemas = append(s.schemas, servedSchema{})
	}
	last := min(v.Max, schema.versions.max, newRequest(v.Key).MaxVersion())
	s.schemas[v.Key] = servedSchema{schema, versionSpan{max(v.Min, schema.versions.min), last}}
}

// served returns the schema of a key at a version that is served, else nil.
func (s *Server) served(key, version int16) *requestSchema {
	if key < 0 || int(key) >= len(s.schemas) || s.schemas[key].schema == nil || !s.schemas[key].versions.has(version) {
		return nil
	}
	return s.schemas[key].schema
}

// Serve accepts on l, named listener, until Shutdown.
func (s *Server) Serve(listener string, l net.Listener) error {
	s.mu.Lock()
	if s.shutdown {
		s.mu.Unlock()
		l.Close()
		return ErrServerClosed
	}
	s.listeners[l] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	return s.accept(listener, l)
}

func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// start runs a connection that was accepted; false when the server is shutting down.
func (s *Server) start(listener string, nc net.Conn) bool {
	c := s.newConn(listener, nc)
	oldest, ok := s.enter(c)
	if oldest != nil {
		s.refused(oldest, "too many connections that are not authenticated", "connection closed")
		oldest.cut()
	}
	return ok
}

// enter has a connection run; the one that it returns has to give way.
func (s *Server) enter(c *Conn) (oldest *Conn, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutdown {
		return nil, false
	}
	s.conns[c] = struct{}{}
	if m := s.o.Metrics; m != nil {
		m.ConnectionOpened(c.Listener)
	}
	if c.unauthenticated.Load() {
		c.waitingSince.Store(s.o.Clock.Now().UnixNano())
		oldest = s.waiting.add(c)
	}
	s.running.Go(c.run)
	return oldest, true
}

func (s *Server) newConn(listener string, nc net.Conn) *Conn {
	c := &Conn{
		ID: s.nextID.Add(1), Listener: listener, RemoteAddr: nc.RemoteAddr(), LocalAddr: nc.LocalAddr(), server: s, nc: nc, socket: nc,
		gone: make(chan struct{}),
	}
	c.secure(s.o.Security[listener])
	maxBytes := s.o.MaxRequestBytes
	if c.auth != nil {
		maxBytes = c.maxReceiveBytes()
	}
	c.frames = newFrameReader(c.nc, maxBytes, s.o.Memory, &c.trusted, s.draining, c.gone, s.o.Clock.Now)
	c.sender = newSender(c.nc, func() { c.progress() })
	if m := s.o.Metrics; m != nil {
		c.frames.received, c.sender.sent = m.BytesReceived, m.BytesSent
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.principal.Store(anonymous)
	c.changed.L = &c.mu
	c.lastActive.Store(s.o.Clock.Now().UnixNano())
	return c
}

// remove forgets a connection that has ended.
func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.waiting.remove(c)
	s.limits.release(c.Listener, c.RemoteAddr)
	if m := s.o.Metrics; m != nil {
		m.ConnectionClosed(c.Listener)
	}
}

// refused notes what became of a connection, or of a request on it, for what came on it.
func (s *Server) refused(c *Conn, reason, outcome string) {
	s.refusal.Write(&s.o.Log, zerolog.WarnLevel, func(e *zerolog.Event) {
		e.Uint64("conn", c.ID).Str("listener", c.Listener).Stringer("remote", c.RemoteAddr).Str("reason", reason).Msg(outcome)
	})
}

// Shutdown stops accepting and reading, finishes what was accepted, sends its responses, closes; ctx bounds it.
// Requests that handlers have parked are waited for: who shuts down ends their parking first, or lets ctx run out.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	first := !s.shutdown
	s.shutdown = true
	if first {
		close(s.draining)
	}
	for l := range s.listeners {
		l.Close()
	}
	conns := s.connList()
	s.mu.Unlock()
	for _, c := range conns {
		c.stopReading()
		c.wake()
	}
	return s.awaitEnd(ctx, first)
}

// connList copies the connections; s.mu is held.
func (s *Server) connList() []*Conn {
	conns := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// awaitEnd waits for acceptors and readers; when ctx ends first it cuts the connections.
func (s *Server) awaitEnd(ctx context.Context, first bool) error {
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
		s.mu.Lock()
		conns := s.connList()
		s.mu.Unlock()
		for _, c := range conns {
			c.cut()
		}
		<-ended
	}
	if first {
		close(s.stopped)
	}
	s.reaper.Wait()
	return err
}

// cut ends the connection now, whatever is unanswered. It waits for nothing, as the end of TLS would.
func (c *Conn) cut() {
	c.socket.Close()
	c.markGone()
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
}
