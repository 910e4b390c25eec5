package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"grete/internal/clock"
)

// transport is memberlist.Transport over the sockets that the node was given, within bounds.
type transport struct {
	o       *GossipOptions
	packets chan *memberlist.Packet
	streams chan net.Conn
	open    atomic.Int32 // accepted connections
	rate    rate         // of packets; the reader's own
	stop    chan struct{}
	closing sync.Once
	wg      sync.WaitGroup
}

func newTransport(o *GossipOptions) *transport {
	t := &transport{
		o: o, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), stop: make(chan struct{}), rate: rate{clock: o.Clock},
	}
	t.wg.Go(t.readPackets)
	t.wg.Go(t.acceptStreams)
	return t
}

// FinalAdvertiseAddr is memberlist.Transport's.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	_, port, err := net.SplitHostPort(t.o.Streams.Addr().String())
	if err != nil {
		return nil, 0, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return t.o.Advertise, int(n), err
}

// WriteTo is memberlist.Transport's.
func (t *transport) WriteTo(b []byte, address string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.o.Packets.WriteTo(b, to)
	return t.o.Clock.Now(), err
}

// PacketCh is memberlist.Transport's.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh is memberlist.Transport's.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout is memberlist.Transport's.
func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := clock.WithTimeout(context.Background(), t.o.Clock, timeout)
	defer cancel()
	nc, err := t.o.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUndialled, err)
	}
	return t.guard(nc, func() {}), nil
}

func (t *transport) guard(nc net.Conn, onClose func()) net.Conn {
	return &stream{Conn: nc, left: maxStreamBytes, encrypted: t.o.Key != nil, onClose: onClose}
}

// Shutdown is memberlist.Transport's.
func (t *transport) Shutdown() error {
	var err error
	t.closing.Do(func() {
		close(t.stop)
		err = errors.Join(t.o.Streams.Close(), t.o.Packets.Close())
		t.wg.Wait()
	})
	return err
}

func (t *transport) readPackets() {
	buf := make([]byte, maxPacketBytes)
	for {
		n, from, err := t.o.Packets.ReadFrom(buf)
		if err != nil {
			if t.failed(err) {
				return
			}
			continue
		}
		if n == 0 || !t.rate.take() || t.o.Key == nil && !soundPacket(buf[:n]) {
			continue
		}
		p := &memberlist.Packet{Buf: append([]byte(nil), buf[:n]...), From: from, Timestamp: t.o.Clock.Now()}
		select {
		case t.packets <- p:
		case <-t.stop:
			return
		}
	}
}

func (t *transport) acceptStreams() {
	for {
		nc, err := t.o.Streams.Accept()
		if err != nil {
			if t.failed(err) {
				return
			}
			continue
		}
		if t.open.Load() >= maxStreams {
			nc.Close()
			continue
		}
		t.open.Add(1)
		select {
		case t.streams <- t.guard(nc, func() { t.open.Add(-1) }):
		case <-t.stop:
			nc.Close()
			return
		}
	}
}

// failed says whether a socket is closed; any other error passes, after a pause.
func (t *transport) failed(err error) bool {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return true
	}
	over := make(chan struct{})
	timer := t.o.Clock.AfterFunc(errorPause, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
		return false
	case <-t.stop:
		return true
	}
}

const errorPause = 50 * time.Millisecond

// rate counts in tenths of a second.
type rate struct {
	clock clock.Clock
	since time.Time
	taken int
}

func (r *rate) take() bool {
	if now := r.clock.Now(); now.Sub(r.since) >= time.Second/10 {
		r.since, r.taken = now, 0
	}
	r.taken++
	return r.taken <= packetsPerTenth
}

// stream is a connection of which no more than maxStreamBytes are read, and nothing that is compressed.
type stream struct {
	net.Conn
	left      int
	begun     bool
	encrypted bool
	closed    sync.Once
	onClose   func()
}

var errStream = fmt.Errorf("refused: compressed, of an unknown kind, or longer than %d bytes", maxStreamBytes)

func (s *stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, errStream
	}
	n, err := s.Conn.Read(p[:min(len(p), s.left)])
	if n > 0 && !s.begun {
		s.begun = true
		if !soundStream(p[0], s.encrypted) {
			s.left = 0
			return 0, errStream
		}
	}
	s.left -= n
	return n, err
}

func (s *stream) Close() error {
	s.closed.Do(s.onClose)
	return s.Conn.Close()
}
