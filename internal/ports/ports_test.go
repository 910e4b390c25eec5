package ports

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
)

func bind(t *testing.T, address string) Port {
	t.Helper()
	p, err := Bind("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// inUse fails unless neither a port that waits nor a listener may be made at an address.
func inUse(t *testing.T, what, address string) {
	t.Helper()
	if p, err := Bind("tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%s: bound again: %v, %v", what, p, err)
	}
	if l, err := net.Listen("tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%s: listened on by another: %v, %v", what, l, err)
	}
}

// A port is taken, and known, before it lets anybody in; and it is free again when it is given back.
func TestPortRefusesUntilItListens(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost", "", "0.0.0.0"} {
		p := bind(t, host+":0")
		port := p.Addr().(*net.TCPAddr).Port
		address := fmt.Sprint("127.0.0.1:", port)
		if port == 0 {
			t.Fatalf("%q: no port", host)
		}
		if c, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("%q: dialled before it listens: %v, %v", host, c, err)
		}
		inUse(t, "bound", fmt.Sprint(host, ":", port))
		l, err := p.Listen()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		inUse(t, "listening", fmt.Sprint(host, ":", port))
		exchange(t, l, address)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		exchange(t, l, address)
	}
	p := bind(t, "127.0.0.1:0")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	bind(t, p.Addr().String())
}

// exchange has the acceptor close a connection first, whose port is in TIME_WAIT then.
func exchange(t *testing.T, l net.Listener, address string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted.Close()
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}

// The next process gets the port though connections of the last one are in TIME_WAIT.
func TestPortComesBackAfterConnections(t *testing.T) {
	p := bind(t, "127.0.0.1:0")
	for range 3 {
		l, err := p.Listen()
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, l, p.Addr().String())
		l.Close()
		p = bind(t, p.Addr().String())
	}
}

func TestListeningPorts(t *testing.T) {
	p, err := Listening(net.Listen)("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Listen()
	if err != nil || l.Addr() != p.Addr() {
		t.Fatal(l, err)
	}
	exchange(t, l, p.Addr().String())
	if err := errors.Join(p.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if _, err := Bind("tcp", "no-port"); err == nil {
		t.Error("an address without a port")
	}
}
