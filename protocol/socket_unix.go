//go:build unix

package protocol

import (
	"errors"

	"golang.org/x/sys/unix"
)

// readReady tries to read without waiting; false makes the runtime wait until the socket is readable, and until then the
// buffer is back in its pool.
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
