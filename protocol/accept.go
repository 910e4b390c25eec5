package protocol

import (
	"errors"
	"net"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/sched"
)

// Accepting backs off between these when it fails, as it does when descriptors run out.
const (
	minAcceptBackoff = 5 * time.Millisecond
	maxAcceptBackoff = time.Second
)

// accept takes connections until Shutdown. At max.connections or max.connection.creation.rate the one accepted last waits, unserved, and the rest
// in the system's backlog.
func (s *Server) accept(listener string, l net.Listener) error {
	backoff := minAcceptBackoff
	for {
		nc, err := l.Accept()
		if err == nil {
			if !s.limits.awaitSlot(listener, s.draining) {
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
		s.o.Log.Error().Err(err).Str("listener", listener).Msg("accepting failed")
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
		s.refusal.warn(func(e logEvent) {
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

type logEvent = *zerolog.Event

// refusalLogEvery is how often a line about refused input is written; a flood of it must not flood the log.
const refusalLogEvery = time.Second

// logLimit writes at most a line per refusalLogEvery and counts the rest.
type logLimit struct {
	log   zerolog.Logger
	clock clock.Clock

	mu         sched.Mutex
	last       time.Time
	suppressed int
}

func (l *logLimit) warn(write func(logEvent)) {
	now := l.clock.Now()
	l.mu.Lock()
	if now.Sub(l.last) < refusalLogEvery {
		l.suppressed++
		l.mu.Unlock()
		return
	}
	e := l.log.Warn()
	if l.suppressed > 0 {
		e = e.Int("suppressed", l.suppressed)
	}
	l.last, l.suppressed = now, 0
	l.mu.Unlock()
	write(e)
}
