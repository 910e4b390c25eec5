//go:build unix

package protocol

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// errRefused is the error of a dial to a port on which nobody listens.
const errRefused = unix.ECONNREFUSED

// rawConn returns the descriptor's handle when nc is a plain socket.
func rawConn(nc net.Conn) syscall.RawConn {
	switch c := nc.(type) {
	case *net.TCPConn:
		raw, _ := c.SyscallConn()
		return raw
	case *net.UnixConn:
		raw, _ := c.SyscallConn()
		return raw
	}
	return nil
}

// readReady tries to read without waiting; false makes the runtime wait until the socket is readable, and until then
// the buffer is back in its pool.
func (f *frameReader) readReady(fd uintptr) bool {
	f.prepare()
	for {
		f.readN, f.readErr = unix.Read(int(fd), f.buf.b[f.w:f.limit])
		switch {
		case errors.Is(f.readErr, unix.EINTR):
			continue
		case errors.Is(f.readErr, unix.EAGAIN):
			f.reset()
			return false
		}
		return true
	}
}
