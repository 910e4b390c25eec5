package protocol

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/vfs"
)

// testFile makes a file of random bytes on fs.
func testFile(t testing.TB, fs vfs.FS, dir string, sizeBytes int) (vfs.File, []byte) {
	t.Helper()
	data := make([]byte, sizeBytes)
	rnd := rand.New(rand.NewPCG(1, uint64(sizeBytes)))
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	f, err := fs.OpenFile(filepath.Join(dir, "log"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, data
}

// Parts of every size around the borders arrive whole, by sendfile and without.
func TestRespondParts(t *testing.T) {
	onOS, data := testFile(t, vfs.OS, t.TempDir(), 3<<20)
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/d", 0o755); err != nil {
		t.Fatal(err)
	}
	onMem, memData := testFile(t, mem, "/d", 3<<20)
	sizes := []int{0, 1, 100, smallRegionBytes, smallRegionBytes + 1, gatherBytes - 1, gatherBytes, gatherBytes + 1, 70_000, 300_000, 2 << 20}
	for _, file := range []struct {
		name string
		f    vfs.File
		data []byte
	}{{"sendfile", onOS, data}, {"copied", onMem, memData}} {
		t.Run(file.name, func(t *testing.T) {
			var want []byte
			var parts []Part
			rnd := rand.New(rand.NewPCG(7, 7))
			for i := range 60 {
				size := sizes[rnd.IntN(len(sizes))]
				at := rnd.IntN(len(file.data) - size)
				piece := file.data[at : at+size]
				if i%3 == 0 {
					parts = append(parts, Part{Bytes: piece})
				} else {
					parts = append(parts, Part{Region: vfs.Region{File: file.f, OffsetBytes: int64(at), SizeBytes: size}})
				}
				want = append(want, piece...)
			}
			var released atomic.Int32
			h := (&testHandler{}).on(fetchKey, func(r *Request) { r.RespondParts(parts, func() { released.Add(1) }) })
			s := startServer(t, h, Options{})
			p := s.dial()
			fetch := kmsg.NewPtrFetchRequest()
			fetch.Version = 12
			for i := range int32(3) {
				p.sendRaw(append(encodeRequest(fetch, 2*i), encodeRequest(heartbeat("a"), 2*i+1)...))
				corr, body := p.frame()
				if corr != 2*i || body[0] != 0 || !bytes.Equal(body[1:], want) {
					t.Fatalf("response %d: %d bytes, want %d", corr, len(body)-1, len(want))
				}
				p.expect(2*i + 1)
			}
			eventually(t, "parts are released", func() bool { return released.Load() == 3 })
		})
	}
}

func TestPartsAreReleasedWhenThePeerIsGone(t *testing.T) {
	parked := make(chan *Request, 1)
	h := (&testHandler{}).on(fetchKey, func(r *Request) { parked <- r })
	s := startServer(t, h, Options{})
	p := s.dial()
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 12
	p.send(1, fetch)
	r := <-parked
	p.Close()
	eventually(t, "closed", func() bool { return s.open() == 0 })
	released := make(chan struct{})
	r.RespondParts([]Part{{Bytes: []byte("late")}}, func() { close(released) })
	<-released
}

// A file that is shorter than its region must not leave the peer with half a response and the connection usable.
func TestShortFileEndsTheConnection(t *testing.T) {
	f, data := testFile(t, vfs.OS, t.TempDir(), 100_000)
	h := (&testHandler{}).on(fetchKey, func(r *Request) {
		r.RespondParts([]Part{{Region: vfs.Region{File: f, SizeBytes: len(data) + 1}}}, nil)
	})
	s := startServer(t, h, Options{FrameTimeout: 50 * time.Millisecond})
	s.reapFast(t)
	p := s.dial()
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 12
	p.send(1, fetch)
	_ = p.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.Copy(io.Discard, p); err != nil {
		t.Errorf("not closed: %v", err)
	}
}

// Without a descriptor (TLS, pipes) everything goes through the copying path.
func TestServerOnAPipe(t *testing.T) {
	f, data := testFile(t, vfs.OS, t.TempDir(), 100_000)
	h := (&testHandler{}).on(fetchKey, func(r *Request) {
		r.RespondParts([]Part{{Bytes: []byte("<")}, {Region: vfs.Region{File: f, SizeBytes: len(data)}}, {Bytes: []byte(">")}}, nil)
	})
	ours, theirs := net.Pipe()
	s := NewServer(h, Options{Log: zerolog.Nop()})
	if !s.limits.awaitSlot("PIPE", nil) {
		t.Fatal("no slot")
	}
	s.admit("PIPE", theirs)
	p := &testPeer{t, ours}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 12
	go p.sendRaw(append(encodeRequest(fetch, 1), encodeRequest(heartbeat("a"), 2)...))
	if corr, body := p.frame(); corr != 1 || string(body) != "\x00<"+string(data)+">" {
		t.Errorf("response %d of %d bytes", corr, len(body))
	}
	p.expect(2)
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// The border between reading a region and sendfile: see smallRegionBytes.
func BenchmarkRegion(b *testing.B) {
	f, _ := testFile(b, vfs.OS, b.TempDir(), 1<<20)
	for _, size := range []int{1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10} {
		part := &Part{Region: vfs.Region{File: f, SizeBytes: size}}
		for name, send := range map[string]func(*sender) error{
			"copy":     func(s *sender) error { return s.copyRegion(part) },
			"sendfile": func(s *sender) error { _ = s.flush(true); return s.sendFile(f.OSFile(), 0, size) },
		} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				s := newSender(discardPeer(b), func() {})
				s.gather = getBuffer(gatherBytes)
				head := make([]byte, 100)
				b.SetBytes(int64(size))
				for b.Loop() {
					_ = s.add(head)
					if err := send(&s); err != nil {
						b.Fatal(err)
					}
					_ = s.add(head[:3])
					_ = s.flush(false)
				}
			})
		}
	}
}

// discardPeer is the server's end of a loopback connection whose other end reads everything.
func discardPeer(b *testing.B) net.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		buf := make([]byte, 1<<20)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	}()
	accepted, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { accepted.Close(); c.Close() })
	return accepted
}
