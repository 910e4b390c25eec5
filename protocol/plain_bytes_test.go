package protocol

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/vfs"
)

// wire is the client's socket below TLS. It keeps all that the server has sent.
type wire struct {
	*net.TCPConn
	mu   sync.Mutex
	came []byte
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.TCPConn.Read(p)
	w.mu.Lock()
	w.came = append(w.came, p[:n]...)
	w.mu.Unlock()
	return n, err
}

// all reads what is left, and returns everything that came.
func (w *wire) all() []byte {
	_ = w.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.Copy(io.Discard, struct{ io.Reader }{w})
	return w.came
}

// planted is in every response, be it from memory or from a file.
var planted = []byte("planted: nobody but the peer of TLS reads this. ")

// onlyTLS says what is wrong with bytes of a server that are to be records of TLS, of which the last may be cut.
func onlyTLS(b []byte) error {
	if bytes.Contains(b, planted[:16]) {
		return fmt.Errorf("a response is among %d bytes", len(b))
	}
	for at := 0; at < len(b); {
		record := b[at:]
		if record[0] < 20 || record[0] > 23 || len(record) > 1 && record[1] != 3 || len(record) > 2 && record[2] > 4 {
			return fmt.Errorf("no record at byte %d of %d: %x", at, len(b), record[:min(len(record), 16)])
		}
		if len(record) < 5 {
			return nil
		}
		n := int(binary.BigEndian.Uint16(record[3:]))
		if n > 1<<14+2048 {
			return fmt.Errorf("a record of %d bytes at byte %d", n, at)
		}
		at += 5 + n
	}
	return nil
}

// spy plays events on one connection to a listener with TLS.
type spy struct {
	t      *testing.T
	rnd    *rand.Rand
	s      *testServer
	config *tls.Config
	reload func()
	w      *wire
	c      *tls.Conn
	told   []string
}

// The events, which the seed puts in order.
func (s *spy) events() map[string]func() {
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 12
	return map[string]func(){
		"handshake":           func() { _ = s.c.SetDeadline(time.Now().Add(2 * time.Second)); _ = s.c.Handshake() },
		"half a hello":        func() { _, _ = s.w.Write([]byte{22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 1, 2}) },
		"a plain request":     func() { _, _ = s.w.Write(encodeRequest(heartbeat("plain"), 1)) },
		"a request":           func() { _, _ = s.c.Write(encodeRequest(heartbeat("a"), 1)) },
		"a fetch":             func() { _, _ = s.c.Write(encodeRequest(fetch, 2)) },
		"a malformed request": func() { _, _ = s.c.Write(frameOf(0x7000, 0)) },
		"a bad record":        func() { _, _ = s.w.Write(append([]byte{23, 3, 3, 0, 40}, make([]byte, 40)...)) },
		"a plain alert":       func() { _, _ = s.w.Write([]byte{21, 3, 3, 0, 2, 2, 40}) },
		"close_notify":        func() { _ = s.c.CloseWrite() },
		"half-close":          func() { _ = s.w.CloseWrite() },
		"reading": func() {
			_ = s.c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			_, _ = io.CopyN(io.Discard, s.c, int64(s.rnd.IntN(1<<20)))
		},
		"a reload": s.reload,
		"a cut":    func() { s.s.reapOnce(time.Now().Add(time.Hour)) },
		"a pause":  func() { time.Sleep(time.Duration(s.rnd.IntN(3)) * time.Millisecond) },
		"shutdown": func() {
			if s.rnd.IntN(4) == 0 {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
				defer cancel()
				_ = s.s.Shutdown(ctx)
			}
		},
	}
}

var eventNames = []string{
	"handshake", "half a hello", "a plain request", "a request", "a fetch", "a malformed request", "a bad record", "a plain alert", "close_notify", "half-close",
	"reading", "a reload", "a cut", "a pause", "shutdown",
}

func (s *spy) play() {
	nc, err := net.Dial("tcp", s.s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	s.w = &wire{TCPConn: nc.(*net.TCPConn)}
	s.c = tls.Client(s.w, s.config)
	events := s.events()
	if s.rnd.IntN(3) > 0 { // most connections get somewhere
		s.told = append(s.told, "handshake", "a fetch")
		for range s.rnd.IntN(3) {
			s.told = append(s.told, "reading")
		}
	}
	for range 1 + s.rnd.IntN(10) {
		s.told = append(s.told, eventNames[s.rnd.IntN(len(eventNames))])
	}
	for _, name := range s.told {
		_ = s.c.SetDeadline(time.Now().Add(time.Second))
		events[name]()
	}
	_ = s.w.CloseWrite()
	s.s.reapOnce(time.Now().Add(time.Hour))
	if err := onlyTLS(s.w.all()); err != nil {
		s.t.Errorf("%q: %v", s.told, err)
	}
}

// Whatever comes in whatever order, the bytes that leave a listener with TLS are records of TLS: handshakes
// that fail, half-closes, alerts amid a response, reloads, cuts and the end of the server while a response goes out.
// Responses come from memory, and from a file that sendfile could send.
func TestNothingPlainLeavesATLSListener(t *testing.T) {
	seeds := 60
	if os.Getenv("GRETE_LONG") != "" {
		seeds = 3000
	}
	file, err := vfs.OS.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data := bytes.Repeat(planted, 20_000)
	if _, err := file.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	parts := []Part{{Bytes: data[:50_000]}, {Region: vfs.Region{File: file, SizeBytes: len(data)}}, {Bytes: planted}, {Region: vfs.Region{File: file, SizeBytes: 1000}}}
	var served atomic.Int64
	h := (&testHandler{}).on(fetchKey, func(r *Request) {
		served.Add(1)
		if r.Conn.ID%2 == 0 {
			go r.RespondParts(parts, nil)
			return
		}
		r.RespondParts(parts, nil)
	})
	server, client := testTLS(t)
	other, _ := testTLS(t)
	var now atomic.Pointer[tls.Config]
	now.Store(server)
	hooked := server.Clone()
	hooked.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return now.Load(), nil }
	client.InsecureSkipVerify = true // a reload shows another certificate
	reload := func() {
		if now.Load() == server {
			now.Store(other)
		} else {
			now.Store(server)
		}
	}
	var s *testServer
	for seed := range seeds {
		if s == nil || s.isDraining() {
			s = startServer(t, h, onTLS(hooked))
		}
		config := client.Clone()
		if seed%4 > 0 {
			config.Certificates = nil // one that the other configuration does not trust ends the handshake
		}
		(&spy{t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 1)), s: s, config: config, reload: reload}).play()
	}
	if served.Load() < int64(seeds/6) {
		t.Errorf("%d responses of %d connections: the test shows little", served.Load(), seeds)
	}
}
