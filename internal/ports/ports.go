// Package ports takes TCP ports before anybody can connect to them: a broker learns at once that a port is in use, and
// which one it was given, but it lets clients in when it can serve them.
package ports

import "net"

// Port is a TCP port of this process. Until Listen the machine refuses connections to it.
type Port interface {
	Addr() net.Addr
	// Listen lets connections in, once; from then on the port is the listener's.
	Listen() (net.Listener, error)
	// Close gives the port back; after Listen it does nothing.
	Close() error
}

// Listening makes ports of sockets that listen from the beginning: for worlds and systems that know no others.
func Listening(listen func(network, address string) (net.Listener, error)) func(network, address string) (Port, error) {
	return func(network, address string) (Port, error) {
		l, err := listen(network, address)
		if err != nil {
			return nil, err
		}
		return &listening{l: l}, nil
	}
}

type listening struct {
	l     net.Listener
	taken bool
}

func (p *listening) Addr() net.Addr { return p.l.Addr() }

func (p *listening) Listen() (net.Listener, error) {
	p.taken = true
	return p.l, nil
}

func (p *listening) Close() error {
	if p.taken {
		return nil
	}
	return p.l.Close()
}
