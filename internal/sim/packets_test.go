package sim

import (
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// gossipPort is where every host gossips, on streams and on packets. Gossip names hosts by their addresses, 10.0.0.1
// for n1.
const gossipPort = "7946"

const addressPrefix = "10.0.0."

// hostOf is the host that has an address, or the name itself.
func hostOf(name string) string {
	if id, ok := strings.CutPrefix(name, addressPrefix); ok {
		return "n" + id
	}
	return name
}

// datagram is a packet on its way.
type datagram struct {
	from *net.UDPAddr
	data []byte
}

const inboxLength = 128 // packets that a host keeps; more are dropped

// packets is a port for packets: each may be lost, late, overtaken by others, or come twice.
type packets struct {
	net     *network
	host    string
	address *net.UDPAddr
	alive   func() bool
	inbox   chan datagram
	closed  chan struct{}
	once    sync.Once
}

// packetPorts opens ports of a host for a process that lives as long as alive says.
func (n *network) packetPorts(host string, alive func() bool) func(network, address string) (net.PacketConn, error) {
	return func(_, address string) (net.PacketConn, error) {
		at, err := net.ResolveUDPAddr("udp", address)
		if err != nil {
			return nil, err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if !alive() || n.ports[address] != nil {
			return nil, syscall.EADDRINUSE
		}
		p := &packets{net: n, host: host, address: at, alive: alive, inbox: make(chan datagram, inboxLength), closed: make(chan struct{})}
		n.ports[address] = p
		return p, nil
	}
}

// WriteTo sends a packet and cannot tell what becomes of it.
func (p *packets) WriteTo(b []byte, to net.Addr) (int, error) {
	if !p.alive() {
		return 0, net.ErrClosed
	}
	d := datagram{p.address, append([]byte(nil), b...)}
	for range p.net.copies() {
		time.AfterFunc(p.net.delay(), func() { p.net.deliver(d, p.host, to.String()) })
	}
	return len(b), nil
}

// copies is how often a packet arrives.
func (n *network) copies() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch dice := n.rng.IntN(100); {
	case n.calm:
		return 1
	case dice < n.lossPercent:
		return 0
	case dice >= 98:
		return 2
	}
	return 1
}

func (n *network) deliver(d datagram, from, address string) {
	host, _, _ := net.SplitHostPort(address)
	if n.isCut(from, hostOf(host)) {
		return
	}
	n.mu.Lock()
	p := n.ports[address]
	n.mu.Unlock()
	if p == nil {
		return
	}
	select {
	case p.inbox <- d:
		n.arrived.Add(1)
	default:
	}
}

// ReadFrom waits for a packet.
func (p *packets) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case d := <-p.inbox:
		return copy(b, d.data), d.from, nil
	case <-p.closed:
		return 0, nil, net.ErrClosed
	}
}

func (p *packets) shut() { p.once.Do(func() { close(p.closed) }) }

// Close ends the port.
func (p *packets) Close() error {
	p.net.mu.Lock()
	if p.net.ports[p.address.String()] == p {
		delete(p.net.ports, p.address.String())
	}
	p.net.mu.Unlock()
	p.shut()
	return nil
}

// LocalAddr is net.PacketConn's.
func (p *packets) LocalAddr() net.Addr { return p.address }

// SetDeadline and the other deadlines are not kept: gossip sets none on packets.
func (p *packets) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (p *packets) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (p *packets) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
