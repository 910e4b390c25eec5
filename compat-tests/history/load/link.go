package load

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
)

// link is a client's network: cutting it is the client's crash, as the brokers see it. No goodbye passes.
type link struct {
	mu    sync.Mutex
	cut   bool
	tls   *tls.Config // nil: the brokers have a plain listener
	conns map[net.Conn]bool
}

var errCut = errors.New("the client has crashed")

func newLink(secured *tls.Config) *link { return &link{tls: secured, conns: map[net.Conn]bool{}} }

func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	k, err := l.hold(c)
	if err != nil || l.tls == nil {
		return k, err
	}
	secured := tls.Client(k, l.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return secured, nil
}

// hold has a connection end with the client.
func (l *link) hold(c net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.Join(errCut, c.Close())
	}
	k := &linkConn{Conn: c, link: l}
	l.conns[k] = true
	return k, nil
}

// crash closes every connection, and lets none be opened.
func (l *link) crash() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		_ = c.(*linkConn).Conn.Close()
	}
}

// linkConn leaves its link when it is closed.
type linkConn struct {
	net.Conn
	link *link
}

func (c *linkConn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
