package protocol

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/quota"
	"grete/internal/sched"
)

// Limits bound the connections of a server (Kafka's ConnectionQuotas). In numbers, 0 means no limit, and below 0 that
// none is let in.
type Limits struct {
	Descriptors    int            // of the process, for connections: binds Protected too
	Connections    int            // max.connections: at it, accepting waits
	PerIP          int            // max.connections.per.ip: at it, a connection is closed
	PerIPOverrides map[string]int // max.connections.per.ip.overrides: by host, and here 0 lets none in
	CreationRate   int            // max.connection.creation.rate, a second: at it, accepting waits
	// Listeners are the bounds of single ones (listener.name.<listener>.*).
	Listeners map[string]ListenerLimits
	// Protected is the listener of brokers, "" for none: neither Connections nor CreationRate hold it up.
	Protected string
}

// ListenerLimits are max.connections and max.connection.creation.rate of one listener.
type ListenerLimits struct{ Connections, CreationRate int }

// below says whether n is less than a limit.
func below(n, limit int) bool { return limit == 0 || n < limit }

// hostLookupTimeout bounds how long a change of max.connections.per.ip.overrides waits for names of hosts.
const hostLookupTimeout = time.Second

// connLimits holds a server's Limits, and counts.
type connLimits struct {
	clock clock.Clock
	log   zerolog.Logger

	mu        sched.Mutex
	limits    Limits
	overrides map[netip.Addr]int // limits.PerIPOverrides
	rate      *quota.Rate
	total     int
	listeners map[string]*listenerCount
	byIP      map[netip.Addr]int
	changed   chan struct{} // closed when an acceptor that waits should look again
}

type listenerCount struct {
	connections int
	rate        *quota.Rate
}

func newConnLimits(o Options) *connLimits {
	l := &connLimits{
		clock: o.Clock, log: o.Log, rate: quota.NewRate(o.Clock), listeners: map[string]*listenerCount{}, byIP: map[netip.Addr]int{}, changed: make(chan struct{}),
	}
	l.set(o.Limits)
	return l
}

// set replaces the limits. Those who wait for a place look again.
func (l *connLimits) set(limits Limits) {
	overrides := l.lookup(limits.PerIPOverrides)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits, l.overrides = limits, overrides
	l.rate.Set(perSecond(limits.CreationRate))
	for name, count := range l.listeners {
		count.rate.Set(perSecond(limits.Listeners[name].CreationRate))
	}
	l.wake()
}

func perSecond(limit int) int64 {
	if limit == 0 {
		return quota.Unlimited
	}
	return int64(max(limit, 0))
}

// lookup finds the addresses of hosts.
func (l *connLimits) lookup(hosts map[string]int) map[netip.Addr]int {
	ctx, cancel := context.WithTimeout(context.Background(), hostLookupTimeout)
	defer cancel()
	out := map[netip.Addr]int{}
	for host, n := range hosts {
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			l.log.Warn().Err(err).Str("host", host).Msg("max.connections.per.ip.overrides: host not found")
		}
		for _, ip := range addrs {
			out[ip.Unmap()] = n
		}
	}
	return out
}

// wake has mu held.
func (l *connLimits) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// awaitSlot waits until the listener may have another connection, and counts it; false when stop is closed first.
func (l *connLimits) awaitSlot(listener string, stop <-chan struct{}) bool {
	for {
		pause, changed := l.take(listener)
		if changed == nil {
			return true
		}
		timer := (<-chan struct{})(nil)
		var stopTimer func() bool
		if pause > 0 {
			over := make(chan struct{})
			timer, stopTimer = over, l.clock.AfterFunc(pause, func() { close(over) }).Stop
		}
		select {
		case <-changed:
		case <-timer:
		case <-stop:
		}
		if stopTimer != nil {
			stopTimer()
		}
		select {
		case <-stop:
			return false
		default:
		}
	}
}

// take counts a connection of the listener and returns nil, or returns what to wait for: a change, and for pause > 0 as
// long at most.
func (l *connLimits) take(listener string) (pause time.Duration, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := l.of(listener)
	bound := l.limits.Listeners[listener]
	free := below(l.total, l.limits.Descriptors) && below(count.connections, bound.Connections)
	pause = count.rate.Wait()
	if l.holds(listener) {
		free = free && below(l.total, l.limits.Connections)
		pause = max(pause, l.rate.Wait())
	}
	if !free || pause > 0 {
		return pause, l.changed
	}
	l.total++
	count.connections++
	count.rate.Record(1)
	if l.holds(listener) {
		l.rate.Record(1)
	}
	return 0, nil
}

// of has mu held.
func (l *connLimits) of(listener string) *listenerCount {
	count := l.listeners[listener]
	if count == nil {
		count = &listenerCount{rate: quota.NewRate(l.clock)}
		count.rate.Set(perSecond(l.limits.Listeners[listener].CreationRate))
		l.listeners[listener] = count
	}
	return count
}

// holds says whether max.connections and max.connection.creation.rate hold a listener up; mu is held.
func (l *connLimits) holds(listener string) bool {
	return l.limits.Protected == "" || listener != l.limits.Protected
}

func (l *connLimits) protects(listener string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.holds(listener)
}

// returnSlot gives back what awaitSlot took.
func (l *connLimits) returnSlot(listener string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	l.of(listener).connections--
	l.wake()
}

// admit counts a connection of an address unless it has as many as it may.
func (l *connLimits) admit(addr net.Addr) bool {
	ip := ipOf(addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	most, overridden := l.overrides[ip]
	if !overridden && !below(l.byIP[ip], l.limits.PerIP) || overridden && l.byIP[ip] >= most {
		return false
	}
	l.byIP[ip]++
	return true
}

// release gives back what admit and awaitSlot took.
func (l *connLimits) release(listener string, addr net.Addr) {
	ip := ipOf(addr)
	l.mu.Lock()
	if l.byIP[ip]--; l.byIP[ip] <= 0 {
		delete(l.byIP, ip)
	}
	l.mu.Unlock()
	l.returnSlot(listener)
}

// excess is how many connections there are above max.connections, as after it was lowered.
func (l *connLimits) excess() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limits.Connections == 0 {
		return 0
	}
	return max(l.total-max(l.limits.Connections, 0), 0)
}

// ipOf is the address without port; connections that have none share the zero address.
func ipOf(addr net.Addr) netip.Addr {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// Limit changes the limits while the server serves.
func (s *Server) Limit(limits Limits) {
	s.limits.set(limits)
	s.closeExcess()
}

// Limits are those in force.
func (s *Server) Limits() Limits {
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	return s.limits.limits
}

// closeExcess closes those connections above max.connections that have been silent longest, as Kafka does, but none of
// the protected listener.
func (s *Server) closeExcess() {
	excess := s.limits.excess()
	if excess == 0 {
		return
	}
	s.mu.Lock()
	conns := s.connList()
	s.mu.Unlock()
	conns = slices.DeleteFunc(conns, func(c *Conn) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			excess-- // it is on its way out
		}
		return c.closed || s.limits.protects(c.Listener)
	})
	slices.SortFunc(conns, func(a, b *Conn) int { return cmp.Compare(a.lastActive.Load(), b.lastActive.Load()) })
	for _, c := range conns[:max(min(excess, len(conns)), 0)] {
		s.o.Log.Info().Uint64("conn", c.ID).Str("listener", c.Listener).Msg("connection closed: there are more than max.connections")
		c.cut()
	}
}
