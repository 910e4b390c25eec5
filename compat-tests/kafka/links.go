package kafka

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Links are the connections between the brokers of a cluster, through proxies that can be shut. What is sent through a
// shut link waits in the sockets, as with a network that loses every packet, and arrives when the link is opened again.
type Links struct {
	mu      sync.Mutex
	opened  *sync.Cond
	cut     map[linkKey]bool
	proxies []*proxy
	ended   bool
	running sync.WaitGroup

	sealed  bool      // what goes over the connections cannot be read: brokers are told by their sockets
	brokers processes // all that have been started
}

// Channel is one of the two ways that brokers have to each other.
type Channel int

const (
	// Replication carries fetches of followers, markers and other requests between brokers.
	Replication Channel = iota
	// Control carries Raft, registrations, heartbeats and forwarded requests.
	Control
)

// linkKey names both directions between two brokers.
type linkKey struct {
	channel   Channel
	low, high int32
}

func newLinks(sealed bool) *Links {
	l := &Links{cut: map[linkKey]bool{}, sealed: sealed}
	l.opened = sync.NewCond(&l.mu)
	return l
}

// Cut shuts the links of one channel between two brokers, in both directions.
func (l *Links) Cut(channel Channel, a, b int32) { l.set(channel, a, b, true) }

// Join opens what Cut shut.
func (l *Links) Join(channel Channel, a, b int32) { l.set(channel, a, b, false) }

func (l *Links) set(channel Channel, a, b int32, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut[linkKey{channel, min(a, b), max(a, b)}] = cut
	l.opened.Broadcast()
}

// Heal opens every link.
func (l *Links) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.cut)
	l.opened.Broadcast()
}

// await returns once the link is open; false: the links have ended.
func (l *Links) await(k linkKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.cut[k] && !l.ended {
		l.opened.Wait()
	}
	return !l.ended
}

// close ends every connection and waits for the proxies.
func (l *Links) close() {
	l.mu.Lock()
	l.ended = true
	l.opened.Broadcast()
	l.mu.Unlock()
	for _, p := range l.proxies {
		p.close()
	}
	l.running.Wait()
}

// proxy stands in front of one listener of one broker.
type proxy struct {
	links   *Links
	channel Channel
	broker  int32
	target  string
	socket  net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// open starts a proxy at port.
func (l *Links) open(channel Channel, broker int32, port int, target string) error {
	socket, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	p := &proxy{links: l, channel: channel, broker: broker, target: target, socket: socket, conns: map[net.Conn]bool{}}
	l.proxies = append(l.proxies, p)
	l.running.Go(p.accept)
	return nil
}

func (p *proxy) accept() {
	for {
		c, err := p.socket.Accept()
		if err != nil {
			return
		}
		p.links.running.Go(func() { p.carry(c) })
	}
}

func (p *proxy) close() {
	_ = p.socket.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// keep has c closed with the proxy; false: it is closed already.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// carry takes one connection to the broker.
func (p *proxy) carry(in net.Conn) {
	if !p.keep(in) {
		return
	}
	defer p.drop(in)
	r := bufio.NewReaderSize(in, 64<<10)
	from, err := p.links.dialler(in, r)
	if err != nil {
		return
	}
	key := linkKey{p.channel, min(from, p.broker), max(from, p.broker)}
	if !p.links.await(key) {
		return
	}
	out, err := net.Dial("tcp", p.target)
	if err != nil || !p.keep(out) {
		return
	}
	defer p.drop(out)
	var back sync.WaitGroup
	back.Go(func() { p.pump(in, out, key) })
	p.pump(out, r, key)
	back.Wait()
}

// pump moves bytes while the link is open, and ends both sides with one of them.
func (p *proxy) pump(to net.Conn, from io.Reader, key linkKey) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !p.links.await(key) { // an end waits too
			break
		}
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			break
		}
	}
	_ = to.Close()
	if c, ok := from.(net.Conn); ok {
		_ = c.Close()
	}
}

// errStranger: not a broker of ours has dialled.
var errStranger = errors.New("the first request does not say node-<id>")

// dialler is the broker that dialled c, which r reads.
func (l *Links) dialler(c net.Conn, r *bufio.Reader) (int32, error) {
	if l.sealed {
		return l.brokers.dialler(c)
	}
	return dialler(r)
}

// dialler is the broker whose connection begins with the bytes of r: our brokers call themselves node-<id>.
func dialler(r *bufio.Reader) (int32, error) {
	head, err := r.Peek(14) // length, key, version, correlation id, length of the client id
	if err != nil {
		return 0, err
	}
	n := int(int16(binary.BigEndian.Uint16(head[12:])))
	if n < 0 || n > 64 {
		return 0, errStranger
	}
	head, err = r.Peek(14 + n)
	if err != nil {
		return 0, err
	}
	id, found := strings.CutPrefix(string(head[14:]), "node-")
	node, err := strconv.ParseInt(id, 10, 32)
	if !found || err != nil {
		return 0, errStranger
	}
	return int32(node), nil
}
