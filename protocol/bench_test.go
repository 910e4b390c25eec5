package protocol

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkEcho sends produce requests, five in flight, to the server and to the barest loop that decodes and answers them. Both
// figures hold the same client; compare them with each other (broker CPU alone: wirebench).
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
	defer c.Close()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	inFlight := make(chan struct{}, 5)
	done := make(chan struct{})
	n := b.N
	go func() {
		defer close(done)
		var head [4]byte
		body := make([]byte, 256)
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
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveBare(c)
		}
	}()
	return l.Addr().String()
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
