package protocol

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxSendfileBytes is the kernel's limit of one call.
const maxSendfileBytes = 0x7ffff000

// sendMore writes b and tells the kernel that more follows at once, so that no packet is sent for a remainder.
func (s *sender) sendMore(b []byte) error {
	return s.loop(func(fd int) (done bool, err error) {
		if len(b) == 0 {
			return true, nil
		}
		n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
		if n > 0 {
			b = b[n:]
		}
		return len(b) == 0, err
	})
}

// sendFile moves a region from the page cache to the socket. The position in f is not used.
func (s *sender) sendFile(f *os.File, offsetBytes int64, sizeBytes int) error {
	if s.sent != nil {
		s.sent(sizeBytes)
	}
	in := int(f.Fd())
	err := s.loop(func(fd int) (bool, error) {
		n, err := unix.Sendfile(fd, in, &offsetBytes, min(sizeBytes, maxSendfileBytes))
		if n > 0 {
			sizeBytes -= n
		} else if err == nil {
			err = io.ErrUnexpectedEOF // the file is shorter than the length that is on the wire
		}
		return sizeBytes == 0, err
	})
	runtime.KeepAlive(f)
	return err
}

// loop calls step until it is done or fails, waiting for the socket whenever it would block.
func (s *sender) loop(step func(fd int) (done bool, err error)) error {
	var stepErr error
	err := s.raw.Write(func(fd uintptr) bool {
		for {
			done, err := step(int(fd))
			switch {
			case done:
				return true
			case errors.Is(err, unix.EAGAIN):
				s.progress()
				return false
			case err != nil && !errors.Is(err, unix.EINTR):
				stepErr = err
				return true
			}
		}
	})
	if stepErr != nil {
		return stepErr
	}
	return err
}

// limitUnacknowledged sets TCP_USER_TIMEOUT.
func limitUnacknowledged(c syscall.RawConn, d time.Duration) (err error) {
	if refused := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	}); refused != nil {
		return refused
	}
	return err
}
