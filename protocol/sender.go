package protocol

import (
	"io"
	"net"
	"syscall"
)

const (
	// smallRegionBytes is the longest file region that is read and sent with the bytes around it: one write instead of
	// three calls and as many packets. BenchmarkRegion: reading wins up to 32 KiB, at 64 KiB they are even.
	smallRegionBytes = 32 << 10
	gatherBytes      = 32 << 10
	// maxWriteBytes is how much is written before progress is noted again.
	maxWriteBytes = 256 << 10
)

// sender writes results to one connection: bytes with few writes, file regions with sendfile where the connection is
// a plain socket and the file has a descriptor. It holds no buffer between calls.
type sender struct {
	nc       net.Conn
	raw      syscall.RawConn
	progress func()
	sent     func(n int) // counts bytes

	gather *buffer // small pieces are copied together here
	filled int
}

func newSender(nc net.Conn, progress func()) sender {
	return sender{nc: nc, raw: rawConn(nc), progress: progress}
}

// send writes results in order.
func (s *sender) send(results []result) error {
	if len(results) == 1 && len(results[0].parts) == 0 {
		return s.write(results[0].headBytes, false)
	}
	s.gather = getBuffer(gatherBytes)
	defer func() {
		s.gather.put()
		s.gather, s.filled = nil, 0
	}()
	for i := range results {
		if err := s.sendResult(&results[i]); err != nil {
			return err
		}
	}
	return s.flush(false)
}

func (s *sender) sendResult(r *result) error {
	if err := s.add(r.headBytes); err != nil {
		return err
	}
	for i := range r.parts {
		p := &r.parts[i]
		var err error
		if p.Bytes != nil {
			err = s.add(p.Bytes)
		} else if p.Region.SizeBytes > 0 {
			err = s.addRegion(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add sends b, or keeps a copy of it to be sent with what follows.
func (s *sender) add(b []byte) error {
	if s.filled+len(b) > len(s.gather.b) {
		if err := s.flush(true); err != nil {
			return err
		}
		if len(b) > len(s.gather.b) {
			return s.write(b, true)
		}
	}
	s.filled += copy(s.gather.b[s.filled:], b)
	return nil
}

// flush writes what is gathered; more says that something follows at once.
func (s *sender) flush(more bool) error {
	n := s.filled
	s.filled = 0
	return s.write(s.gather.b[:n], more)
}

func (s *sender) addRegion(p *Part) error {
	file := p.Region.File.OSFile()
	if s.raw == nil || file == nil || p.Region.SizeBytes <= smallRegionBytes {
		return s.copyRegion(p)
	}
	if err := s.flush(true); err != nil {
		return err
	}
	return s.sendFile(file, p.Region.OffsetBytes, p.Region.SizeBytes)
}

// copyRegion sends a region by way of the gather buffer.
func (s *sender) copyRegion(p *Part) error {
	at, left := p.Region.OffsetBytes, p.Region.SizeBytes
	for left > 0 {
		if s.filled == len(s.gather.b) || s.filled > 0 && left <= len(s.gather.b) && s.filled+left > len(s.gather.b) {
			if err := s.flush(true); err != nil {
				return err
			}
		}
		n, err := p.Region.File.ReadAt(s.gather.b[s.filled:min(s.filled+left, len(s.gather.b))], at)
		if n == 0 {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF // the length is already on the wire
			}
			return err
		}
		s.filled += n
		at += int64(n)
		left -= n
	}
	return nil
}

// write sends b whole.
func (s *sender) write(b []byte, more bool) error {
	if s.sent != nil {
		s.sent(len(b))
	}
	if more && s.raw != nil {
		return s.sendMore(b)
	}
	for len(b) > 0 {
		n, err := s.nc.Write(b[:min(len(b), maxWriteBytes)])
		if err != nil {
			return err
		}
		if b = b[n:]; len(b) > 0 {
			s.progress()
		}
	}
	return nil
}
