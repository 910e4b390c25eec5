//go:build !linux

package protocol

import (
	"io"
	"os"
	"syscall"
	"time"
)

// sendMore writes b; the hint that more follows is Linux's.
func (s *sender) sendMore(b []byte) error {
	_, err := s.nc.Write(b)
	return err
}

// sendFile copies a region; sendfile is used on Linux only.
func (s *sender) sendFile(f *os.File, offsetBytes int64, sizeBytes int) error {
	_, err := io.Copy(s.nc, io.NewSectionReader(f, offsetBytes, int64(sizeBytes)))
	return err
}

// limitUnacknowledged: these systems have no such limit that is alike everywhere; keep-alives find out about a
// connection that waits.
func limitUnacknowledged(syscall.RawConn, time.Duration) error { return nil }
