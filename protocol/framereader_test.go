package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"grete/internal/memory"
)

// chunkConn gives its bytes in pieces of random length.
type chunkConn struct {
	net.Conn
	rnd  *rand.Rand
	data []byte
}

func (c *chunkConn) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := min(1+c.rnd.IntN(20_000), len(p), len(c.data))
	if c.rnd.IntN(4) == 0 {
		n = min(n, 1+c.rnd.IntN(5))
	}
	copy(p, c.data[:n])
	c.data = c.data[n:]
	return n, nil
}

// cutFrames reads all frames of a stream, checks them against the plain way, and that memory comes back.
func cutFrames(t *testing.T, stream []byte, seed uint64, maxBytes int) {
	t.Helper()
	ledger := memory.New(1 << 40)
	f := newFrameReader(&chunkConn{rnd: rand.New(rand.NewPCG(seed, 0)), data: stream}, maxBytes, ledger, new(atomic.Bool), nil, nil, time.Now)
	rest := stream
	for {
		got, err := f.read()
		if err != nil {
			checkEnd(t, rest, err, maxBytes)
			break
		}
		n := int(binary.BigEndian.Uint32(rest))
		if want := rest[lengthBytes : lengthBytes+n]; !bytes.Equal(got.bytes, want) {
			t.Fatalf("a frame of %d bytes is not what was sent", n)
		}
		if got.loan.Bytes() < int64(n) {
			t.Fatalf("a frame of %d bytes borrowed %d", n, got.loan.Bytes())
		}
		rest = rest[lengthBytes+n:]
		got.loan.Return()
		got.buf.put()
	}
	f.close()
	if used := ledger.Requests.UsedBytes(); used != 0 {
		t.Fatalf("%d bytes were not given back", used)
	}
}

// checkEnd checks the error against what is left of the stream.
func checkEnd(t *testing.T, rest []byte, err error, maxBytes int) {
	t.Helper()
	if len(rest) < lengthBytes {
		if !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v", err)
		}
		return
	}
	if _, want := frameLength(rest, maxBytes); want != nil && !errors.Is(err, want) {
		t.Fatalf("%v for a length % x", err, rest[:lengthBytes])
	} else if want == nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("in the middle of a frame: %v", err)
	}
}

func TestFramesOfAllSizesInPieces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var stream []byte
	for range 300 {
		size := minHeaderBytes + rnd.IntN(1<<rnd.IntN(18))
		stream = binary.BigEndian.AppendUint32(stream, uint32(size))
		for range size {
			stream = append(stream, byte(rnd.Uint32()))
		}
	}
	for seed := range uint64(5) {
		cutFrames(t, stream, seed, 1<<20)
		cutFrames(t, stream[:rnd.IntN(len(stream))], seed, 1<<20)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(append(encodeRequest(heartbeat("a"), 1), encodeRequest(produce(1, make([]byte, 100)), 2)...), uint64(1))
	f.Add([]byte("GET / HTTP/1.1\r\n"), uint64(2))
	f.Add([]byte{0, 0, 0, 9, 1, 2, 3}, uint64(3))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) { cutFrames(t, stream, seed, 1<<16) })
}

func TestBufferClasses(t *testing.T) {
	for n := 1; n <= maxPooledBytes; n += 1 + n/7 {
		class := classFor(n)
		if size := classBytes(class); size < n || class > 0 && classBytes(class-1) >= n {
			t.Fatalf("%d bytes in class %d of %d", n, class, size)
		}
	}
	if b := getBuffer(maxPooledBytes + 1); b.class >= 0 || len(b.b) != maxPooledBytes+1 {
		t.Error("a buffer over the largest class is pooled")
	}
	if got := classBytes(classFor(maxPooledBytes)); got != maxPooledBytes {
		t.Errorf("the largest class has %d bytes", got)
	}
}
