//go:build unix

package ports

import (
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// backlog is more than any system allows: each takes the most that it is configured for (net.core.somaxconn).
const backlog = 65535

// bound is a socket that has its address and does not listen.
type bound struct {
	fd   int // -1: closed, or the listener's
	addr *net.TCPAddr
}

// Bind takes a port of address (host:port; port 0 chooses one). Like net.Listen it takes all addresses of both families
// where the host is empty or unspecified. Its errors are net.Listen's.
func Bind(network, address string) (Port, error) {
	to, err := net.ResolveTCPAddr(network, address)
	if err != nil {
		return nil, err
	}
	p, err := bindTo(to)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: to, Err: err}
	}
	return p, nil
}

func bindTo(to *net.TCPAddr) (*bound, error) {
	everywhere := to.IP == nil || to.IP.IsUnspecified()
	if v4 := to.IP.To4(); v4 != nil && !everywhere {
		return bindSocket(unix.AF_INET, &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(v4)})
	}
	zone, err := zoneID(to.Zone)
	if err != nil {
		return nil, err
	}
	v6 := &unix.SockaddrInet6{Port: to.Port, ZoneId: zone}
	copy(v6.Addr[:], to.IP.To16())
	if everywhere {
		v6.Addr = [16]byte{}
	}
	p, err := bindSocket(unix.AF_INET6, v6)
	if everywhere && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)) { // the machine has no IPv6
		return bindSocket(unix.AF_INET, &unix.SockaddrInet4{Port: to.Port})
	}
	return p, err
}

// zoneID is the index of an IPv6 zone's interface; 0: no zone.
func zoneID(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	ifi, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, err
	}
	return uint32(ifi.Index), nil
}

// bindSocket first binds without SO_REUSEADDR: then nobody else gets the port, though this socket does not listen yet.
// Where connections of an earlier process are in TIME_WAIT that fails, and SO_REUSEADDR is needed.
func bindSocket(family int, sa unix.Sockaddr) (*bound, error) {
	p, err := bindReusing(0, family, sa)
	if errors.Is(err, unix.EADDRINUSE) {
		p, err = bindReusing(1, family, sa)
	}
	return p, err
}

func bindReusing(reuse, family int, sa unix.Sockaddr) (*bound, error) {
	syscall.ForkLock.RLock()
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	p := &bound{fd: fd}
	if err := p.bind(reuse, family, sa); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *bound) bind(reuse, family int, sa unix.Sockaddr) error {
	if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, reuse); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if family == unix.AF_INET6 {
		only := 1
		if sa.(*unix.SockaddrInet6).Addr == [16]byte{} {
			only = 0
		}
		if err := unix.SetsockoptInt(p.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	if err := unix.Bind(p.fd, sa); err != nil {
		return os.NewSyscallError("bind", err)
	}
	own, err := unix.Getsockname(p.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		p.addr = &net.TCPAddr{IP: own.Addr[:], Port: own.Port}
	case *unix.SockaddrInet6:
		p.addr = &net.TCPAddr{IP: own.Addr[:], Port: own.Port}
	}
	return nil
}

func (p *bound) Addr() net.Addr { return p.addr }

// Listen sets SO_REUSEADDR in any case: connections inherit it, and the next process binds while they are in TIME_WAIT.
func (p *bound) Listen() (net.Listener, error) {
	f := os.NewFile(uintptr(p.fd), p.addr.String())
	p.fd = -1
	defer f.Close() // the listener has a descriptor of its own
	if err := unix.SetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, p.failed("setsockopt", err)
	}
	if err := unix.Listen(int(f.Fd()), backlog); err != nil {
		return nil, p.failed("listen", err)
	}
	return net.FileListener(f)
}

func (p *bound) failed(call string, err error) error {
	return &net.OpError{Op: "listen", Net: "tcp", Addr: p.addr, Err: os.NewSyscallError(call, err)}
}

func (p *bound) Close() error {
	if p.fd < 0 {
		return nil
	}
	fd := p.fd
	p.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}
