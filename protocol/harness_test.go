package protocol

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// testHandler serves every key at every version that has a schema, with a function per key or an empty response.
type testHandler struct {
	mu    sync.Mutex
	serve map[int16]func(*Request)
}

func (h *testHandler) Versions() []VersionRange {
	var out []VersionRange
	for key, s := range requestSchemas() {
		out = append(out, VersionRange{key, s.versions.min, s.versions.max})
	}
	return out
}

func (h *testHandler) on(key int16, f func(*Request)) *testHandler {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.serve == nil {
		h.serve = map[int16]func(*Request){}
	}
	h.serve[key] = f
	return h
}

func (h *testHandler) Serve(_ context.Context, r *Request) {
	h.mu.Lock()
	f := h.serve[r.Key]
	h.mu.Unlock()
	if f != nil {
		f(r)
		return
	}
	r.Respond(kmsg.ResponseForKey(r.Key))
}

// testServer runs a server on loopback until the test ends, and then checks that no goroutine of it is left.
type testServer struct {
	*Server
	t    testing.TB
	addr string
	log  *lockedBuffer
}

func startServer(t testing.TB, h Handler, o Options) *testServer {
	t.Helper()
	before := runtime.NumGoroutine()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &lockedBuffer{}
	o.Log = zerolog.New(log)
	s := &testServer{Server: NewServer(h, o), t: t, addr: l.Addr().String(), log: log}
	served := make(chan error, 1)
	go func() { served <- s.Serve("PLAINTEXT", l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		if err := <-served; err != ErrServerClosed {
			t.Errorf("Serve returned %v", err)
		}
		eventually(t, "all memory is given back", func() bool { return s.lent() == 0 })
		eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
	})
	return s
}

// lent is what the server has borrowed.
func (s *testServer) lent() (n int64) {
	for _, a := range s.o.Memory.Accounts() {
		n += a.UsedBytes()
	}
	return n
}

// eventually fails the test when cond does not become true within seconds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if cond() {
			return
		}
	}
	buf := make([]byte, 64<<10)
	t.Errorf("not in time: %s\n%s", what, buf[:runtime.Stack(buf, true)])
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *lockedBuffer) lines() int { return strings.Count(b.String(), "\n") }

// testPeer is a client that sees bytes.
type testPeer struct {
	t testing.TB
	net.Conn
}

func (s *testServer) dial() *testPeer {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return &testPeer{s.t, c}
}

var testFormatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))

func encodeRequest(req kmsg.Request, corr int32) []byte {
	return testFormatter.AppendRequest(nil, req, corr)
}

func (p *testPeer) send(corr int32, req kmsg.Request) { p.sendRaw(encodeRequest(req, corr)) }

func (p *testPeer) sendRaw(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// frame reads one response: its correlation id, and the rest.
func (p *testPeer) frame() (int32, []byte) {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(5 * time.Second))
	var head [4]byte
	if _, err := io.ReadFull(p, head[:]); err != nil {
		p.t.Fatalf("no response: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(p, b); err != nil {
		p.t.Fatalf("half a response: %v", err)
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:]
}

// expect reads responses and checks their order.
func (p *testPeer) expect(corrs ...int32) {
	p.t.Helper()
	for _, want := range corrs {
		if got, _ := p.frame(); got != want {
			p.t.Fatalf("response %d came when %d was due", got, want)
		}
	}
}

// expectClosed checks that the server closes without sending anything more.
func (p *testPeer) expectClosed() {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, err := p.Read(make([]byte, 1))
	if n > 0 {
		p.t.Fatal("a byte came where the end was due")
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		p.t.Fatal("the connection was not closed")
	}
}

// expectSilence checks that nothing comes for a little while.
func (p *testPeer) expectSilence() {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if n, err := p.Read(make([]byte, 1)); n > 0 || err == nil || !err.(net.Error).Timeout() {
		p.t.Fatalf("expected silence, got %d bytes, %v", n, err)
	}
}

func heartbeat(group string) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = 4
	req.Group = group
	return req
}

func produce(acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	req.Acks = acks
	t := kmsg.NewProduceRequestTopic()
	t.Topic = "t"
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

const (
	produceKey   = 0
	fetchKey     = 1
	heartbeatKey = 12
)
