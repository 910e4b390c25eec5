package protocol

import (
	"errors"
	"net"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
)

// Accepting backs off between these when it fails, as it does when descriptors run out.
const (
	minAcceptBackoff = 5 * time.Millisecond
	maxAcceptBackoff = time.Second
)

// accept takes connections until Shutdown. At max.connections or max.connection.creation.rate the one accepted last
// waits, unserved, and the rest in the system's backlog.
func (s *Server) accept(listener string, l net.Listener) error {
	backoff := minAcceptBackoff
	for {
		nc, err := l.Accept()
		if err == nil {
			if !s.awaitSlot(listener) {
				nc.Close()
				return ErrServerClosed
			}
			backoff = minAcceptBackoff
			s.admit(listener, nc)
			continue
		}
		if s.isDraining() || errors.Is(err, net.ErrClosed) {
			return ErrServerClosed
		}
		s.acceptFailed(listener, err)
		if !s.pause(backoff) {
			return ErrServerClosed
		}
		backoff = min(2*backoff, maxAcceptBackoff)
	}
}

// pause waits for d; false when the server is shut down meanwhile.
func (s *Server) pause(d time.Duration) bool {
	over := make(chan struct{})
	timer := s.o.Clock.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
		return true
	case <-s.draining:
		return false
	}
}

// admit starts a connection, or closes it where its address has too many.
func (s *Server) admit(listener string, nc net.Conn) {
	addr := nc.RemoteAddr()
	if !s.limits.admit(addr) {
		nc.Close()
		s.limits.returnSlot(listener)
		s.refusal.Write(&s.o.Log, zerolog.WarnLevel, func(e *zerolog.Event) {
			e.Str("listener", listener).Stringer("remote", addr).Msg("too many connections from this address (max.connections.per.ip)")
		})
		return
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		s.setBuffers(tcp)
	}
	if !s.start(listener, nc) {
		nc.Close()
		s.limits.release(listener, addr)
	} else if s.limits.protects(listener) {
		s.closeExcess()
	}
}

// setBuffers applies the socket options; Go has set TCP_NODELAY.
func (s *Server) setBuffers(tcp *net.TCPConn) {
	if s.o.SendBufferBytes > 0 {
		_ = tcp.SetWriteBuffer(s.o.SendBufferBytes)
	}
	if s.o.ReceiveBufferBytes > 0 {
		_ = tcp.SetReadBuffer(s.o.ReceiveBufferBytes)
	}
	_ = tcp.SetKeepAlive(true)
}

// troubleLogEvery is how often a line about refused input, or about connections that cannot be accepted, is written; a
// flood of it must not flood the log.
const troubleLogEvery = time.Second

// AcceptState is what keeps connections out.
type AcceptState struct {
	Failures    int64     // of accept, since the start, as when descriptors run out
	LastFailure time.Time // zero: never
	Waiting     int       // listeners of which one connection waits for a bound on connections, and the rest behind it
}

// AcceptState tells it of now.
func (s *Server) AcceptState() AcceptState {
	a := AcceptState{Failures: s.acceptFailures.Load(), Waiting: int(s.acceptWaiting.Load())}
	if ms := s.acceptFailedMs.Load(); ms > 0 {
		a.LastFailure = time.UnixMilli(ms)
	}
	return a
}

func (s *Server) acceptFailed(listener string, err error) {
	s.acceptFailures.Add(1)
	s.acceptFailedMs.Store(clock.Millis(s.o.Clock))
	s.unaccepted.Write(&s.o.Log, zerolog.ErrorLevel, func(e *zerolog.Event) { e.Err(err).Str("listener", listener).Msg("accepting failed") })
}

// awaitSlot waits for the limits to let one more connection in; false when the server is shut down meanwhile.
func (s *Server) awaitSlot(listener string) bool {
	if _, changed := s.limits.take(listener); changed == nil {
		return true
	}
	s.acceptWaiting.Add(1)
	defer s.acceptWaiting.Add(-1)
	s.unaccepted.Write(&s.o.Log, zerolog.WarnLevel, func(e *zerolog.Event) {
		e.Str("listener", listener).Int("descriptors", s.Limits().Descriptors).Int("max.connections", s.Limits().Connections).
			Msg("a connection waits to be served: there are as many as may be, for the process's file descriptors or max.connections, or come too fast")
	})
	return s.limits.awaitSlot(listener, s.draining)
}
