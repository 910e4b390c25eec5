package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"grete/internal/config"
)

// sockets are the bound listeners: before anything is written, so that a port in use costs nothing.
type sockets struct {
	byName map[string][]net.Listener
}

func (n *Node) openSockets(context.Context) error {
	n.sockets = &sockets{byName: map[string][]net.Listener{}}
	n.onStop("listeners", func(context.Context) error { return n.sockets.close() })
	for _, l := range slices.Concat(n.o.Config.Listeners, n.o.Config.Controllers) {
		if err := n.sockets.open(n.o.Listen, l); err != nil {
			return err
		}
	}
	return nil
}

// open binds a listener. localhost is both loopback addresses where there are both.
func (s *sockets) open(listen func(network, address string) (net.Listener, error), l config.Listener) error {
	if l.Host != "localhost" {
		return s.bind(listen, l)
	}
	v4 := l
	v4.Host = "127.0.0.1"
	if err := s.bind(listen, v4); err != nil {
		return err
	}
	v6 := l
	v6.Host, v6.Port = "::1", s.port(l.Name)
	_ = s.bind(listen, v6) // the machine may have no IPv6
	return nil
}

func (s *sockets) bind(listen func(network, address string) (net.Listener, error), l config.Listener) error {
	socket, err := listen("tcp", l.Address())
	if err != nil {
		return fmt.Errorf("listener %s cannot listen on %s: %w", l.Name, l.Address(), cause(err))
	}
	s.byName[l.Name] = append(s.byName[l.Name], socket)
	return nil
}

// cause strips the address that a net.OpError repeats.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

func (s *sockets) port(name string) uint16 {
	_, port, _ := net.SplitHostPort(s.byName[name][0].Addr().String())
	p, _ := strconv.ParseUint(port, 10, 16)
	return uint16(p)
}

func (s *sockets) addr(name string) string {
	if len(s.byName[name]) == 0 {
		return ""
	}
	return s.byName[name][0].Addr().String()
}

// close is harmless to a listener that the server has closed already.
func (s *sockets) close() error {
	var errs []error
	for _, sockets := range s.byName {
		for _, socket := range sockets {
			if err := socket.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// advertised are the endpoints for the registration: the port of a listener that took any is known by now.
func (n *Node) advertised() []config.Listener {
	out := make([]config.Listener, len(n.o.Config.Advertised))
	for i, l := range n.o.Config.Advertised {
		if l.Port == 0 {
			l.Port = n.sockets.port(l.Name)
		}
		out[i] = l
	}
	return out
}
