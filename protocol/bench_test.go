package protocol

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/vfs"
)

// BenchmarkEcho sends produce requests, five in flight, to the server and to the barest loop that decodes and answers
// them. Both figures hold the same client; compare them with each other (broker CPU alone: wirebench).
func BenchmarkEcho(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		raw := encodeRequest(produce(1, make([]byte, size)), 1)
		b.Run(fmt.Sprintf("server/%dKiB", size>>10), func(b *testing.B) {
			s := startServer(b, &testHandler{}, Options{})
			pipeline(b, s.addr, raw)
		})
		b.Run(fmt.Sprintf("bare/%dKiB", size>>10), func(b *testing.B) { pipeline(b, bareLoop(b), raw) })
	}
}

// pipeline sends raw b.N times with five requests in flight.
func pipeline(b *testing.B, addr string, raw []byte) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	pipelineOn(b, c, raw)
}

// pipelineOn is pipeline on a connection.
func pipelineOn(b *testing.B, c net.Conn, raw []byte) {
	defer c.Close()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	inFlight := make(chan struct{}, 5)
	done := make(chan struct{})
	n := b.N
	go func() {
		defer close(done)
		var head [4]byte
		body := make([]byte, 2<<20)
		for range n {
			if _, err := io.ReadFull(c, head[:]); err != nil {
				b.Error(err)
				return
			}
			if _, err := io.ReadFull(c, body[:binary.BigEndian.Uint32(head[:])]); err != nil {
				b.Error(err)
				return
			}
			<-inFlight
		}
	}()
	b.ResetTimer()
	for range n {
		inFlight <- struct{}{}
		if _, err := c.Write(raw); err != nil {
			b.Fatal(err)
		}
	}
	<-done
}

// bareLoop serves one connection as wirebench's floor does: length, body, decode, answer.
func bareLoop(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	acceptBare(l, serveBare)
	return l.Addr().String()
}

func acceptBare(l net.Listener, serve func(net.Conn)) {
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
}

// BenchmarkTLS compares the server with the barest loops over Go's TLS: produces of 64 KiB, and file regions of 1 MiB.
// Both figures hold the same client.
func BenchmarkTLS(b *testing.B) {
	server, client := testTLS(b)
	dial := func(addr string) net.Conn {
		c, err := tls.Dial("tcp", addr, client)
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	bare := func(serve func(net.Conn)) string {
		l, err := tls.Listen("tcp", "127.0.0.1:0", server)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { l.Close() })
		acceptBare(l, serve)
		return l.Addr().String()
	}
	file, err := vfs.OS.OpenFile(filepath.Join(b.TempDir(), "log"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	region := vfs.Region{File: file, SizeBytes: 1 << 20}
	if err := file.Truncate(int64(region.SizeBytes)); err != nil {
		b.Fatal(err)
	}
	h := (&testHandler{}).on(heartbeatKey, func(r *Request) { r.RespondParts([]Part{{Region: region}}, nil) })
	small := encodeRequest(heartbeat("a"), 1)
	large := encodeRequest(produce(1, make([]byte, 64<<10)), 1)
	b.Run("produce/server", func(b *testing.B) { pipelineOn(b, dial(startServer(b, h, onTLS(server)).addr), large) })
	b.Run("produce/bare", func(b *testing.B) { pipelineOn(b, dial(bare(serveBare)), large) })
	b.Run("fetch/server", func(b *testing.B) {
		c := dial(startServer(b, h, onTLS(server)).addr)
		pipelineOn(b, c, small)
	})
	b.Run("fetch/bare", func(b *testing.B) {
		c := dial(bare(func(c net.Conn) { sendBare(c, region) }))
		pipelineOn(b, c, small)
	})
}

// sendBare answers every small request with a region.
func sendBare(c net.Conn, region vfs.Region) {
	defer c.Close()
	buf := make([]byte, 32<<10)
	for {
		if _, err := io.ReadFull(c, buf[:4]); err != nil {
			return
		}
		if _, err := io.ReadFull(c, buf[:binary.BigEndian.Uint32(buf)]); err != nil {
			return
		}
		out := appendResponseHeader(buf[:0], heartbeatKey, 1, true)
		binary.BigEndian.PutUint32(out, uint32(len(out)-lengthBytes+region.SizeBytes))
		if _, err := c.Write(out); err != nil {
			return
		}
		for at := int64(0); at < int64(region.SizeBytes); {
			n, _ := region.File.ReadAt(buf, at)
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
			at += int64(n)
		}
	}
}

func serveBare(c net.Conn) {
	defer c.Close()
	var head [4]byte
	var buf []byte
	for {
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(head[:]))
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		if _, err := io.ReadFull(c, buf[:n]); err != nil {
			return
		}
		_, body, err := parseClientID(buf[minHeaderBytes:n], nil)
		if err != nil {
			return
		}
		req := kmsg.NewPtrProduceRequest()
		req.Version = 9
		if req.ReadFrom(body[1:]) != nil {
			return
		}
		out := appendResponseHeader(make([]byte, 0, 256), produceKey, 1, true)
		out = req.ResponseKind().AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-lengthBytes))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
