package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"grete/internal/config"
	"grete/internal/ports"
)

// sockets are the ports of the listeners: taken before anything is written, so that one in use costs nothing. Those of
// the controller listeners listen at once, those for clients when the broker can serve.
type sockets struct {
	byName    map[string][]ports.Port
	listening map[string][]net.Listener
}

func (n *Node) openSockets(context.Context) error {
	n.sockets = &sockets{byName: map[string][]ports.Port{}, listening: map[string][]net.Listener{}}
	n.onStop("listeners", func(context.Context) error { return n.sockets.close() })
	for _, l := range n.o.Config.Listeners {
		if err := n.sockets.open(n.o.Bind, l); err != nil {
			return err
		}
	}
	for _, l := range n.o.Config.Controllers {
		err := n.sockets.open(ports.Listening(n.o.Listen), l)
		if err == nil {
			err = n.sockets.listen(l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listen lets clients connect. They wait until serve, which follows soon.
func (n *Node) listen() error {
	for _, l := range n.o.Config.Listeners {
		if err := n.sockets.listen(l); err != nil {
			return err
		}
	}
	return nil
}

func (s *sockets) listen(l config.Listener) error {
	for _, port := range s.byName[l.Name] {
		socket, err := port.Listen()
		if err != nil {
			return cannotListen(l, err)
		}
		s.listening[l.Name] = append(s.listening[l.Name], socket)
	}
	return nil
}

// open takes the ports of a listener. localhost is both loopback addresses where there are both.
func (s *sockets) open(bind func(network, address string) (ports.Port, error), l config.Listener) error {
	if l.Host != "localhost" {
		return s.bind(bind, l)
	}
	v4 := l
	v4.Host = "127.0.0.1"
	if err := s.bind(bind, v4); err != nil {
		return err
	}
	v6 := l
	v6.Host, v6.Port = "::1", s.port(l.Name)
	_ = s.bind(bind, v6) // the machine may have no IPv6
	return nil
}

func (s *sockets) bind(bind func(network, address string) (ports.Port, error), l config.Listener) error {
	port, err := bind("tcp", l.Address())
	if err != nil {
		return cannotListen(l, err)
	}
	s.byName[l.Name] = append(s.byName[l.Name], port)
	return nil
}

// errListener begins the errors of listeners.
var errListener = errors.New("listener")

func cannotListen(l config.Listener, err error) error {
	return fmt.Errorf("%w %s cannot listen on %s: %w", errListener, l.Name, l.Address(), cause(err))
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
	for _, taken := range s.byName {
		for _, port := range taken {
			errs = append(errs, port.Close())
		}
	}
	for _, sockets := range s.listening {
		for _, socket := range sockets {
			if err := socket.Close(); !errors.Is(err, net.ErrClosed) {
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
