package sim

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"grete/internal/ports"
)

// network is an IP network in memory. A host is named, and its processes listen on ports; connections are streams: what
// is sent arrives late, in order, or not at all because the connection was reset. A cut holds back what is sent in one
// direction until it is mended, as TCP's repetitions do.
type network struct {
	mu        sync.Mutex
	rng       *rand.Rand
	listeners map[string]*listener
	ports     map[string]*packets // by host:port
	cuts      map[direction]bool
	dark      map[string]bool // hosts without power: nothing answers
	halves    map[*half]bool  // open ones
	slow      time.Duration   // the longest usual delay
	calm      bool            // nothing is cut, slow or lost

	lossPercent int // of packets

	sent    int64        // segments and packets
	arrived atomic.Int64 // packets
}

type direction struct{ from, to string }

// dialTimeout is how long the system tries to reach a host that does not answer.
const dialTimeout = 60 * time.Second

func newNetwork(seed uint64) *network {
	return &network{
		rng: rand.New(rand.NewPCG(seed, 2)), listeners: map[string]*listener{}, ports: map[string]*packets{}, cuts: map[direction]bool{},
		dark: map[string]bool{}, halves: map[*half]bool{}, slow: 4 * time.Millisecond,
	}
}

// delay is mostly short and sometimes long.
func (n *network) delay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent++
	if n.calm {
		return time.Millisecond
	}
	if n.rng.IntN(40) == 0 {
		return time.Duration(n.rng.Int64N(int64(30 * n.slow)))
	}
	return time.Duration(n.rng.Int64N(int64(n.slow)))
}

// cut stops, or lets pass, what from sends to to.
func (n *network) cut(from, to string, on bool) {
	n.mu.Lock()
	if on {
		n.cuts[direction{from, to}] = true
	} else {
		delete(n.cuts, direction{from, to})
	}
	n.mu.Unlock()
	n.wakeAll()
}

// mend ends all cuts; calm ends what is slow, too.
func (n *network) mend(calm bool) {
	n.mu.Lock()
	clear(n.cuts)
	n.calm = n.calm || calm
	n.mu.Unlock()
	n.wakeAll()
}

func (n *network) isCut(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cuts[direction{from, to}] || n.dark[to] || n.dark[from]
}

// isolated says whether anything from or to a host is cut.
func (n *network) isolated(host string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for d := range n.cuts {
		if d.from == host || d.to == host {
			return true
		}
	}
	return false
}

func (n *network) open(filter func(*half) bool) (out []*half) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for h := range n.halves {
		if filter(h) {
			out = append(out, h)
		}
	}
	return out
}

func (n *network) wakeAll() {
	for _, h := range n.open(func(*half) bool { return true }) {
		h.wake()
	}
}

// kill takes a host's processes away. With power on the system resets their connections; without it the others hear
// nothing until the host is back.
func (n *network) kill(host string, powerLoss bool) {
	n.mu.Lock()
	n.dark[host] = powerLoss
	for addr, l := range n.listeners {
		if l.host == host {
			l.shut()
			delete(n.listeners, addr)
		}
	}
	for addr, p := range n.ports {
		if p.host == host {
			p.shut()
			delete(n.ports, addr)
		}
	}
	n.mu.Unlock()
	for _, h := range n.open(func(h *half) bool { return h.from == host || h.to == host }) {
		if powerLoss {
			h.darken()
		} else {
			h.reset()
		}
	}
}

// boot gives a host power again; who still holds a connection to its former life hears that it is gone.
func (n *network) boot(host string) {
	n.mu.Lock()
	delete(n.dark, host)
	n.mu.Unlock()
	for _, h := range n.open(func(h *half) bool { return h.from == host || h.to == host }) {
		h.reset()
	}
}

// resetSome ends the connections between two hosts.
func (n *network) resetSome(a, b string) {
	for _, h := range n.open(func(h *half) bool { return h.from == a && h.to == b || h.from == b && h.to == a }) {
		h.reset()
	}
}

// dialer connects from a host for as long as alive says.
func (n *network) dialer(host string, alive func() bool) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		if !alive() {
			return nil, syscall.ENETDOWN
		}
		to, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if err := n.reach(ctx, host, hostOf(to)); err != nil {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
		}
		n.mu.Lock()
		l := n.listeners[address]
		n.mu.Unlock()
		if l == nil || !alive() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return l.connect(host)
	}
}

// reach waits for a round trip, or gives up on a host that cannot be reached.
func (n *network) reach(ctx context.Context, from, to string) error {
	limit := time.NewTimer(dialTimeout)
	defer limit.Stop()
	for n.isCut(from, to) || n.isCut(to, from) {
		again := time.NewTimer(time.Second)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		case <-limit.C:
			again.Stop()
			return syscall.ETIMEDOUT
		}
	}
	trip := time.NewTimer(n.delay())
	defer trip.Stop()
	select {
	case <-trip.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listener is a port of a host.
type listener struct {
	net           *network
	host, address string
	accepted      chan net.Conn
	closed        chan struct{}
	once          sync.Once
}

// listen opens a port of a host for a process that lives as long as alive says.
func (n *network) listen(host string, alive func() bool) func(network, address string) (net.Listener, error) {
	return func(_, address string) (net.Listener, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if !alive() || n.listeners[address] != nil {
			return nil, syscall.EADDRINUSE
		}
		l := &listener{net: n, host: host, address: address, accepted: make(chan net.Conn, 128), closed: make(chan struct{})}
		n.listeners[address] = l
		return l, nil
	}
}

// latePort is an address of a host that refuses connections until its process listens.
type latePort struct {
	listen  func(network, address string) (net.Listener, error)
	address string
}

func (n *network) bind(host string, alive func() bool) func(network, address string) (ports.Port, error) {
	return func(_, address string) (ports.Port, error) { return latePort{n.listen(host, alive), address}, nil }
}

func (p latePort) Addr() net.Addr                { return hostAddr(p.address) }
func (p latePort) Listen() (net.Listener, error) { return p.listen("tcp", p.address) }
func (p latePort) Close() error                  { return nil }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) shut() { l.once.Do(func() { close(l.closed) }) }

func (l *listener) Close() error {
	l.net.mu.Lock()
	if l.net.listeners[l.address] == l {
		delete(l.net.listeners, l.address)
	}
	l.net.mu.Unlock()
	l.shut()
	return nil
}

func (l *listener) Addr() net.Addr { return hostAddr(l.address) }

// hostAddr is host:port.
type hostAddr string

func (hostAddr) Network() string  { return "tcp" }
func (a hostAddr) String() string { return string(a) }

func (l *listener) connect(from string) (net.Conn, error) {
	there, back := newHalf(l.net, from, l.host), newHalf(l.net, l.host, from)
	client := &conn{in: back, out: there, local: hostAddr(from + ":1"), remote: hostAddr(l.address)}
	server := &conn{in: there, out: back, local: hostAddr(l.address), remote: hostAddr(from + ":1")}
	select {
	case l.accepted <- server:
		return client, nil
	case <-l.closed:
	default: // the backlog is full
	}
	there.reset()
	back.reset()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ETIMEDOUT}
}

// conn is one end of a connection.
type conn struct {
	in, out       *half
	local, remote net.Addr
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *conn) CloseWrite() error           { c.out.end(); return nil }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

// Close lets what was sent arrive.
func (c *conn) Close() error {
	c.out.end()
	c.in.abandon()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error     { return c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error  { return nil } // the system buffers all that is written
func (c *conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }

// half is one direction of a connection.
type half struct {
	net      *network
	from, to string

	mu        sync.Mutex
	changed   sync.Cond
	queue     []segment
	last      time.Time // when the newest segment is due
	alarm     *time.Timer
	deadline  time.Time
	expiry    *time.Timer
	darkened  bool  // one of the hosts has lost power: nothing arrives any more
	ended     bool  // the writer is done
	abandoned bool  // the reader is gone
	err       error // reset
}

type segment struct {
	at   time.Time
	data []byte // nil: the end
}

func newHalf(n *network, from, to string) *half {
	h := &half{net: n, from: from, to: to}
	h.changed.L = &h.mu
	n.mu.Lock()
	n.halves[h] = true
	n.mu.Unlock()
	return h
}

func (h *half) wake() {
	h.mu.Lock()
	h.changed.Broadcast()
	h.mu.Unlock()
}

func (h *half) write(p []byte) (int, error) {
	d := h.net.delay()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.err != nil:
		return 0, h.err
	case h.ended:
		return 0, net.ErrClosed
	case h.abandoned:
		return 0, syscall.EPIPE
	case len(p) > 0 && !h.darkened:
		h.push(append([]byte(nil), p...), d)
	}
	return len(p), nil
}

func (h *half) push(data []byte, d time.Duration) {
	at := time.Now().Add(d)
	if at.Before(h.last) {
		at = h.last
	}
	h.last = at
	h.queue = append(h.queue, segment{at, data})
	if len(h.queue) == 1 {
		h.changed.Broadcast()
	}
}

func (h *half) end() {
	d := h.net.delay()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended && h.err == nil && !h.darkened {
		h.push(nil, d)
	}
	h.ended = true
	h.forget()
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case h.abandoned:
			return 0, net.ErrClosed
		case h.err != nil:
			return 0, h.err
		case !h.deadline.IsZero() && !now.Before(h.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(h.queue) > 0 && !h.net.isCut(h.from, h.to):
			s := &h.queue[0]
			if now.Before(s.at) {
				h.wakeAt(s.at.Sub(now))
				break
			}
			if s.data == nil {
				return 0, io.EOF
			}
			n := copy(p, s.data)
			if s.data = s.data[n:]; len(s.data) == 0 {
				h.queue = h.queue[1:]
			}
			return n, nil
		}
		h.changed.Wait()
	}
}

// wakeAt wakes the reader when the first segment is due.
func (h *half) wakeAt(d time.Duration) {
	if h.alarm == nil {
		h.alarm = time.AfterFunc(d, h.wake)
	} else {
		h.alarm.Reset(d)
	}
}

func (h *half) setDeadline(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deadline = t
	if h.expiry != nil {
		h.expiry.Stop()
		h.expiry = nil
	}
	if !t.IsZero() {
		h.expiry = time.AfterFunc(time.Until(t), h.wake)
	}
	h.changed.Broadcast()
}

// abandon: the reader closes its end.
func (h *half) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.abandoned, h.queue = true, nil
	h.stopTimers()
	h.changed.Broadcast()
	h.forget()
}

func (h *half) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = errors.Join(syscall.ECONNRESET)
	}
	h.queue = nil
	h.stopTimers()
	h.changed.Broadcast()
	h.forget()
}

// darken: what was sent is lost, nothing follows, and nobody hears of it.
func (h *half) darken() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.darkened, h.queue = true, nil
}

func (h *half) stopTimers() {
	for _, t := range []*time.Timer{h.alarm, h.expiry} {
		if t != nil {
			t.Stop()
		}
	}
}

// forget takes a half out of the network's once nobody uses it. h.mu is held.
func (h *half) forget() {
	if h.err != nil || h.ended && h.abandoned {
		h.net.mu.Lock()
		delete(h.net.halves, h)
		h.net.mu.Unlock()
	}
}
