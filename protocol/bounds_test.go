package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestBadFramesCloseAndAllocateNothing(t *testing.T) {
	tests := map[string][]byte{
		"negative length":  {0xff, 0xff, 0xff, 0xff, 0, 0},
		"over the maximum": {0x7f, 0xff, 0xff, 0xff, 0, 0},
		"under a header":   {0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0},
		"HTTP":             []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"HTTP/2":           []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		"unknown key":      frameOf(0x7000, 0),
		"negative key":     frameOf(-1, 0),
		"removed key":      frameOf(4, 0),
		"unknown version":  frameOf(heartbeatKey, 99),
		"negative version": frameOf(heartbeatKey, -1),
		"produce v2":       frameOf(produceKey, 2),
		"ApiVersions, unknown version, no tags in its header": frameOf(apiVersionsKey, 77),
		"header only":      frameOf(heartbeatKey, 4),
		"client id beyond": append(frameOf(heartbeatKey, 0)[:12], 0x7f, 0xff),
	}
	s := startServer(t, &testHandler{}, Options{})
	for name, raw := range tests {
		t.Run(name, func(t *testing.T) {
			p := s.dial()
			p.t = t
			if got := allocated(func() { p.sendRaw(raw); p.expectClosed() }); got > 256<<10 {
				t.Errorf("%d bytes were allocated", got)
			}
			good := s.dial()
			good.t = t
			good.send(1, heartbeat("a"))
			good.expect(1)
		})
	}
	if n := s.log.lines(); n > 2 {
		t.Errorf("%d log lines for a flood of bad requests:\n%s", n, s.log)
	}
}

// frameOf is a frame of a header without client id or body.
func frameOf(key, version int16) []byte {
	b := binary.BigEndian.AppendUint32(nil, minHeaderBytes+2)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return append(b, 0, 0, 0, 9, 0xff, 0xff)
}

func TestMalformedBodyAnswersWhatCameBefore(t *testing.T) {
	p := startServer(t, &testHandler{}, Options{}).dial()
	bad := encodeRequest(heartbeat("abc"), 2)
	bad = bad[:len(bad)-2]
	binary.BigEndian.PutUint32(bad, uint32(len(bad)-lengthBytes))
	p.sendRaw(append(encodeRequest(heartbeat("a"), 1), bad...))
	p.expect(1)
	p.expectClosed()
}

func TestApiVersionsOfUnknownVersion(t *testing.T) {
	h := (&testHandler{}).on(apiVersionsKey, func(r *Request) {
		if r.Body != nil || r.Version != 77 {
			t.Errorf("version %d, body %v", r.Version, r.Body)
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ErrorCode = 35
		r.Respond(resp)
	})
	p := startServer(t, h, Options{}).dial()
	raw := frameOf(apiVersionsKey, 77)
	for _, junk := range []string{"\x00", "\x00anything at all", "\x00\xff\xff\xff\xff\xff"} {
		b := append(raw[:len(raw):len(raw)], junk...)
		binary.BigEndian.PutUint32(b, uint32(len(b)-lengthBytes))
		p.sendRaw(b)
		corr, body := p.frame()
		// Version 0: error and an array, no tags anywhere.
		if want := []byte{0, 35, 0, 0, 0, 0}; corr != 9 || !bytes.Equal(body, want) {
			t.Errorf("after %q: response %d % x", junk, corr, body)
		}
	}
}

func TestResponseHeaders(t *testing.T) {
	p := startServer(t, &testHandler{}, Options{}).dial()
	flexible := heartbeat("a")
	p.send(1, flexible)
	if _, body := p.frame(); len(body) != 1+4+2+1 || body[0] != 0 {
		t.Errorf("a flexible response has a tag section in its header: % x", body)
	}
	old := heartbeat("a")
	old.Version = 3
	p.send(2, old)
	if _, body := p.frame(); len(body) != 4+2 {
		t.Errorf("an old response has none: % x", body)
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version = 3
	p.send(3, versions)
	if _, body := p.frame(); len(body) != 2+1+4+1 {
		t.Errorf("ApiVersions never has one: % x", body)
	}
}

func TestSlowFrameIsCutOff(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{FrameTimeout: 60 * time.Millisecond, MaxIdle: 40 * time.Millisecond * 1000, MaxRequestBytes: 1 << 30})
	s.reapFast(t)
	half := s.dial()
	half.sendRaw([]byte{0, 0})
	large := s.dial()
	large.sendRaw(binary.BigEndian.AppendUint32(nil, 1<<29))
	eventually(t, "a large claim is charged by what has come", func() bool {
		used := s.lent()
		return used > 0 && used <= firstGrowthBytes
	})
	half.expectClosed()
	large.expectClosed()
}

// reapFast looks for overdue connections more often than the server itself does.
func (s *testServer) reapFast(t *testing.T) {
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				s.reapOnce(time.Now())
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

func TestIdleConnectionIsClosedAndBusyOneIsNot(t *testing.T) {
	parked := make(chan *Request, 1)
	h := (&testHandler{}).on(fetchKey, func(r *Request) { parked <- r })
	s := startServer(t, h, Options{MaxIdle: 200 * time.Millisecond})
	idle, busy := s.dial(), s.dial()
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 12
	busy.send(1, fetch)
	idle.expectClosed()
	r := <-parked
	time.Sleep(300 * time.Millisecond)
	r.Respond(kmsg.NewPtrFetchResponse())
	busy.expect(1)
	busy.expectClosed()
}

func TestSlowReaderHoldsBoundedMemoryAndIsClosed(t *testing.T) {
	big := make([]byte, 256<<10)
	var held, peak atomic.Int64
	h := (&testHandler{}).on(fetchKey, func(r *Request) {
		if n := held.Add(1); n > peak.Load() {
			peak.Store(n) // Serve is on one goroutine
		}
		go r.RespondParts([]Part{{Bytes: big}}, func() { held.Add(-1) })
	})
	s := startServer(t, h, Options{SendTimeout: 300 * time.Millisecond, SendBufferBytes: 64 << 10})
	s.reapFast(t)
	p := s.dial()
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 12
	raw := encodeRequest(fetch, 1)
	for range 2000 {
		if _, err := p.Write(raw); err != nil {
			break
		}
	}
	eventually(t, "the connection is cut", func() bool { return s.open() == 0 })
	// Requests in flight, and the responses that may wait.
	if n := peak.Load(); int(n) > defaultMaxInFlight+maxUnsentBytes/len(big)+1 {
		t.Errorf("%d responses of 256 KiB were held for a peer that reads nothing", n)
	}
}

func (s *testServer) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func TestMaxConnectionsPerIP(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{Limits: Limits{PerIP: 2}})
	a, b := s.dial(), s.dial()
	a.send(1, heartbeat("a"))
	b.send(1, heartbeat("a"))
	a.expect(1)
	b.expect(1)
	s.dial().expectClosed()
	a.Close()
	eventually(t, "one left", func() bool { return s.open() == 1 })
	c := s.dial()
	c.send(1, heartbeat("a"))
	c.expect(1)
}

func TestMaxConnectionsPerIPOverride(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{Limits: Limits{PerIP: 1, PerIPOverrides: map[string]int{"127.0.0.1": 3}}})
	for range 3 {
		p := s.dial()
		p.send(1, heartbeat("a"))
		p.expect(1)
	}
	s.dial().expectClosed()
}

func TestMaxConnectionsMakesTheNextOneWait(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{Limits: Limits{Connections: 1}})
	a := s.dial()
	a.send(1, heartbeat("a"))
	a.expect(1)
	b := s.dial()
	b.send(1, heartbeat("a"))
	b.expectSilence()
	a.Close()
	b.expect(1)
}

// failingListener fails like one that has no descriptors left.
type failingListener struct {
	net.Listener
	failures atomic.Int32
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, fmt.Errorf("accept: too many open files")
	}
	return l.Listener.Accept()
}

func TestAcceptBacksOff(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &failingListener{Listener: inner}
	l.failures.Store(3)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve("OTHER", l) }()
	t.Cleanup(func() { l.Close(); <-done })
	start := time.Now()
	c, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &testPeer{t, c}
	p.send(1, heartbeat("a"))
	p.expect(1)
	c.Close()
	if d := time.Since(start); d < 7*minAcceptBackoff {
		t.Errorf("accepted again after %v, without backing off", d)
	}
	if !strings.Contains(s.log.String(), "too many open files") {
		t.Errorf("log: %q", s.log)
	}
}

func TestSomeFrameAlwaysFinishes(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{MaxQueuedBytes: 150_000})
	const peers = 8
	done := make(chan struct{}, peers)
	raw := encodeRequest(produce(1, make([]byte, 100_000)), 1)
	for range peers {
		p := s.dial()
		go func() {
			for at := 0; at < len(raw); at += 20_000 { // all at once, in pieces
				_, _ = p.Write(raw[at:min(at+20_000, len(raw))])
				time.Sleep(time.Millisecond)
			}
			p.expect(1)
			done <- struct{}{}
		}()
	}
	for range peers {
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Fatal("frames that wait for each other's memory")
		}
	}
}

func TestDroppedConnectionReturnsItsMemory(t *testing.T) {
	parked := make(chan *Request, 1)
	h := (&testHandler{}).on(produceKey, func(r *Request) { parked <- r })
	s := startServer(t, h, Options{})
	p := s.dial()
	p.send(1, produce(1, make([]byte, 1000)))
	r := <-parked
	p.Close()
	eventually(t, "the connection has ended", func() bool { return s.open() == 0 })
	if s.lent() == 0 {
		t.Error("a buffer that a parked request holds is lent to others")
	}
	r.Respond(kmsg.NewPtrProduceResponse())
	eventually(t, "the memory is given back", func() bool { return s.lent() == 0 })
}

func TestMaxConnectionsIsSharedByListeners(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{Limits: Limits{Connections: 1}})
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve("OTHER", other) }()
	t.Cleanup(func() { other.Close(); <-done })
	for _, addr := range []string{s.addr, other.Addr().String()} { // neither acceptor holds the slot while nobody calls
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		p := &testPeer{t, c}
		p.send(1, heartbeat("a"))
		p.expect(1)
		c.Close()
	}
}
