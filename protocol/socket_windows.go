package protocol

import (
	"net"
	"syscall"

	"golang.org/x/sys/windows"
)

// errRefused is the error of a dial to a port on which nobody listens.
const errRefused = windows.WSAECONNREFUSED

// rawConn returns nil: Windows has no read that tells whether a socket is ready, so every connection is read as any
// net.Conn is.
func rawConn(net.Conn) syscall.RawConn { return nil }

// readReady is never called, as there is no raw connection.
func (f *frameReader) readReady(uintptr) bool { return true }
