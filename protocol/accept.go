package protocol

import (
	"errors"
	"net"
	"net/netip"
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

// accept takes connections until Shutdown. At max.connections the one accepted last waits, unserved, and the rest in
// the system's backlog.
func (s *Server) accept(listener string, l net.Listener) error {
	backoff := minAcceptBackoff
	for {
		nc, err := l.Accept()
		if err == nil {
			if !s.limits.awaitSlot(s.draining) {
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
		s.limits.returnSlot()
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
		s.limits.release(addr)
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

// connLimits holds max.connections, where accepting waits, and max.connections.per.ip, where the connection is closed
// (Kafka's ConnectionQuotas).
type connLimits struct {
	slots     chan struct{} // nil: no limit
	perIP     int
	overrides map[netip.Addr]int

	mu   *sched.Mutex
	byIP map[netip.Addr]int
}

// maxSlots is the largest max.connections that is enforced; above, descriptors are the limit.
const maxSlots = 1 << 20

func newConnLimits(o Options) connLimits {
	l := connLimits{perIP: o.MaxConnectionsPerIP, overrides: map[netip.Addr]int{}, mu: new(sched.Mutex), byIP: map[netip.Addr]int{}}
	if o.MaxConnections <= maxSlots {
		l.slots = make(chan struct{}, o.MaxConnections)
	}
	for host, n := range o.ConnectionsPerIPOverrides {
		addrs, err := net.LookupHost(host)
		if err != nil {
			o.Log.Warn().Err(err).Str("host", host).Msg("max.connections.per.ip.overrides: host not found")
		}
		for _, a := range addrs {
			if ip, err := netip.ParseAddr(a); err == nil {
				l.overrides[ip.Unmap()] = n
			}
		}
	}
	return l
}

// awaitSlot takes one of max.connections; false when stop is closed first.
func (l *connLimits) awaitSlot(stop <-chan struct{}) bool {
	if l.slots == nil {
		return true
	}
	select {
	case l.slots <- struct{}{}:
		return true
	case <-stop:
		return false
	}
}

// returnSlot gives back what awaitSlot took.
func (l *connLimits) returnSlot() {
	if l.slots != nil {
		<-l.slots
	}
}

// admit counts a connection of an address unless it has as many as it may.
func (l *connLimits) admit(addr net.Addr) bool {
	ip := ipOf(addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	most, ok := l.overrides[ip]
	if !ok {
		most = l.perIP
	}
	if l.byIP[ip] >= most {
		return false
	}
	l.byIP[ip]++
	return true
}

// release gives back what admit and awaitSlot took.
func (l *connLimits) release(addr net.Addr) {
	ip := ipOf(addr)
	l.mu.Lock()
	if l.byIP[ip]--; l.byIP[ip] <= 0 {
		delete(l.byIP, ip)
	}
	l.mu.Unlock()
	l.returnSlot()
}

// ipOf is the address without port; connections that have none share the zero address.
func ipOf(addr net.Addr) netip.Addr {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
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
