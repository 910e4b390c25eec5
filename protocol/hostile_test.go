package protocol

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/security/sasl"
)

// A door is a kind of listener, at which hostile input arrives.
type door struct {
	name      string
	tls, sasl bool
}

var doors = []door{{"PLAINTEXT", false, false}, {"SSL", true, false}, {"SASL_PLAINTEXT", false, true}, {"SASL_SSL", true, true}}

// A phase is how far a hostile connection has come.
type phase int

const (
	beforeTLS    phase = iota // a listener with TLS, and nothing of a handshake
	beforeSASL                // TLS, if any, and nothing of a login
	withinSASL                // a token of SASL is due
	asToken                   // a token is due that is a frame of its own
	authenticate              // logged in, or nothing to log in by
)

// phases are those of a door.
func (d door) phases() (out []phase) {
	if d.tls {
		out = append(out, beforeTLS)
	}
	if d.sasl {
		out = append(out, beforeSASL, withinSASL, asToken)
	}
	return append(out, authenticate)
}

func (p phase) String() string {
	return [...]string{"before TLS", "before SASL", "within SASL", "as a token", "authenticated"}[p]
}

// visited is a server with one door, and what its good clients need.
type visited struct {
	*testServer
	door
	config *tls.Config
}

func (d door) open(t *testing.T, o Options) *visited {
	v := &visited{door: d}
	security := &Security{}
	if d.sasl {
		security = withSASL(func(s *SASL) { s.MaxReceiveBytes, s.FailureDelay = 512<<10, time.Millisecond }).Security["PLAINTEXT"]
	}
	if d.tls {
		security.TLS, v.config = testTLS(t)
	}
	o.Security = map[string]*Security{"PLAINTEXT": security}
	v.testServer = startServer(t, &testHandler{}, o)
	return v
}

// come connects, as far as the phase.
func (v *visited) come(t *testing.T, to phase) *testPeer {
	t.Helper()
	p := v.dial()
	p.t = t
	if to == beforeTLS {
		return p
	}
	if v.tls {
		p.Conn = tls.Client(p.Conn, v.config)
		if err := p.Conn.(*tls.Conn).Handshake(); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case !v.sasl: // the server may not have seen the end of the handshake yet
		p.send(1, heartbeat("first"))
		p.expect(1)
	case to == beforeSASL:
	case to == asToken:
		p.send(1, saslHandshakeRequest(0, sasl.Plain))
		p.expect(1)
	default:
		p.handshake(sasl.Plain)
		if to == authenticate {
			p.logIn(annsToken)
		}
	}
	return p
}

// serves checks that a client which means well is served.
func (v *visited) serves(t *testing.T) {
	t.Helper()
	p := v.come(t, authenticate)
	p.send(1, heartbeat("good"))
	p.expect(1)
	p.Close()
}

// rest reads until the end, which must come. A listener with TLS sends nothing but records of TLS.
func (p *testPeer) rest() []byte {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(10 * time.Second))
	got, err := io.ReadAll(p)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		p.t.Fatalf("not closed; %x came", got)
	}
	return got
}

// onlyAlerts says whether bytes are records of TLS that carry an alert.
func onlyAlerts(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 7 || b[0] != 21 || b[3] != 0 || b[4] != 2 {
			return false
		}
		b = b[7:]
	}
	return true
}

// hostileFrames are bytes that no client which means well sends. The server closes an authenticated connection, or
// answers where Kafka answers; it closes one that is not authenticated.
var hostileFrames = []struct {
	name     string
	sent     []byte
	answered bool // once authenticated: trailing bytes and strange tags are none of Kafka's errors
}{
	{"a negative length", []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, false},
	{"the smallest length", []byte{0x80, 0, 0, 0, 0, 0, 0, 0}, false},
	{"an empty frame", []byte{0, 0, 0, 0, 0, 0, 0, 0}, false},
	{"a length over the limit", []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}, false},
	{"a frame under a header", []byte{0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0}, false},
	{"HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false},
	{"HTTP/2", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), false},
	{"a hello of TLS", append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 506)...), false},
	{"an unknown key", frameOf(0x7000, 0), false},
	{"a negative key", frameOf(-1, 0), false},
	{"a removed key", frameOf(4, 0), false},
	{"an unknown version", frameOf(heartbeatKey, 99), false},
	{"a negative version", frameOf(heartbeatKey, -1), false},
	{"a header alone", frameOf(heartbeatKey, 4), false},
	{"a client id beyond the frame", append(frameOf(heartbeatKey, 0)[:12], 0x7f, 0xff), false},
	{"a cut body", reframed(func(b []byte) []byte { return b[:len(b)-2] }), false},
	{"trailing bytes", reframed(func(b []byte) []byte { return append(b, 1, 2, 3) }), true},
	{"tags twice", reframed(func(b []byte) []byte { return append(b[:len(b)-1], 2, 90, 0, 90, 0) }), true},
	{"too many tags", reframed(func(b []byte) []byte { return append(b[:len(b)-1], manyTags(maxTags+1)...) }), false},
	{"a tag beyond the frame", reframed(func(b []byte) []byte { return append(b[:len(b)-1], 1, 5, 0xff, 0xff, 0xff, 0xff, 7) }), false},
	{"as many elements as bytes", elements(300<<10, 300<<10), false},
	{"2^31 elements", elements(1<<31-1, 16), false},
	{"an endless varint", reframed(func(b []byte) []byte { return append(b[:len(b)-1], bytes.Repeat([]byte{0x80}, 64)...) }), false},
}

// reframed is a Heartbeat that was changed, in a frame of the right length.
func reframed(change func([]byte) []byte) []byte {
	b := change(encodeRequest(heartbeat("a"), 7))
	binary.BigEndian.PutUint32(b, uint32(len(b)-lengthBytes))
	return b
}

func manyTags(n int) []byte {
	b := binary.AppendUvarint(nil, uint64(n))
	for i := range n {
		b = append(binary.AppendUvarint(b, uint64(100+i)), 0)
	}
	return b
}

// elements is CreateTopics with an array that claims n elements, in so many bytes.
func elements(n uint32, size int) []byte {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 4
	b := encodeRequest(req, 7)
	b = b[:len(b)-4-4-1] // the array's length, the timeout, and whether to validate only
	b = append(binary.BigEndian.AppendUint32(b, n), make([]byte, size)...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-lengthBytes))
	return b
}

// hostileAllocation bounds what a hostile frame has the process allocate, the client's side included, beside what the
// frame brings.
const hostileAllocation = 512 << 10

// Every row at every door in every phase: the server closes or answers as the row says, memory follows what was sent,
// nothing but an alert goes out before TLS, and a client that means well is served.
func TestHostileFrames(t *testing.T) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			v := d.open(t, Options{})
			v.serves(t)
			for _, ph := range d.phases() {
				for _, row := range hostileFrames {
					t.Run(ph.String()+"/"+row.name, func(t *testing.T) {
						p := v.come(t, ph)
						spent := allocated(func() {
							_, _ = p.Write(row.sent) // the server may close before all is sent
							if ph == authenticate && row.answered {
								p.expect(7)
								return
							}
							got := p.rest()
							if ph == beforeTLS && !onlyAlerts(got) || ph != beforeTLS && len(got) > 0 {
								t.Errorf("%x came", got)
							}
						})
						if limit := uint64(hostileAllocation + 8*len(row.sent)); spent > limit {
							t.Errorf("%d bytes were allocated, of %d", spent, limit)
						}
						v.serves(t)
					})
				}
			}
			eventually(t, "hostile connections end", func() bool { return v.connections() <= 2 }) // those that were answered
		})
	}
}

// Before authentication a frame has sasl.server.max.receive.size at most (CVE-2022-34917): a greater length closes the
// connection, and nothing of the frame is received or borrowed for.
func TestLargeFramesBeforeAuthentication(t *testing.T) {
	for _, d := range doors {
		if !d.sasl {
			continue
		}
		v := d.open(t, Options{})
		for _, ph := range []phase{beforeSASL, withinSASL, asToken} {
			for _, claimed := range []uint32{512<<10 + 1, 1 << 20, 100 << 20, 1<<31 - 1} {
				p := v.come(t, ph)
				_, _ = p.Write(binary.BigEndian.AppendUint32(nil, claimed))
				if got := p.rest(); len(got) > 0 {
					t.Errorf("%s %v: %d are claimed; %x came", d.name, ph, claimed, got)
				}
			}
			full := v.come(t, ph) // what may come is borrowed for as it comes
			full.sendRaw(append(binary.BigEndian.AppendUint32(nil, 512<<10), 0, 36, 0, 2))
			eventually(t, "a frame is begun", func() bool { return v.receiving() == 1 })
			if used := v.lent(); used > firstGrowthBytes {
				t.Errorf("%s %v: %d bytes are borrowed for eight", d.name, ph, used)
			}
			full.Close()
			eventually(t, "all is given back", func() bool { return v.lent() == 0 && v.receiving() == 0 })
		}
		v.serves(t)
	}
}

// What never comes to its end is cut, at every door in every phase: nothing at all, half a hello, half a length, a
// large frame that is claimed, and a byte a second. The test moves the time.
func TestSlowPeersAreCut(t *testing.T) {
	hello := append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 40)...)
	rows := []struct {
		name string
		sent []byte
	}{
		{"idle", nil}, {"half a hello", hello}, {"half a length", []byte{0, 0}}, {"half a frame", []byte{0, 0, 1, 0, 0, 36, 0, 2}},
		{"a large claim", append(binary.BigEndian.AppendUint32(nil, 400<<10), 0, 36, 0, 2)},
	}
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			v := d.open(t, Options{MaxIdle: 2 * time.Minute})
			for _, ph := range d.phases() {
				for _, row := range rows {
					if (row.name == "half a hello") != (ph == beforeTLS && row.sent != nil) { // other bytes are no hello, and a hello no frame
						continue
					}
					p := v.come(t, ph)
					p.sendRaw(row.sent)
					limit := defaultFrameTimeout // and of authentication
					if ph == authenticate && row.sent == nil {
						limit = 2 * time.Minute
					}
					v.reapAt(limit - 5*time.Second)
					p.t = t
					p.expectSilence()
					if row.sent != nil {
						_, _ = p.Write([]byte{0}) // a byte is no progress
						p.expectSilence()
					}
					v.reapAt(limit + 5*time.Second)
					p.expectCut(row.name + ", " + ph.String())
				}
			}
			v.serves(t)
			eventually(t, "all is given back", func() bool { return v.lent() == 0 })
		})
	}
}

// reapAt looks for overdue connections as if so much time had gone by.
func (s *testServer) reapAt(d time.Duration) {
	eventually(s.t, "responses are sent", func() bool { return s.sending() == 0 })
	s.reapOnce(time.Now().Add(d))
}

func (p *testPeer) expectCut(what string) {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, err := p.Read(make([]byte, 1))
	if ne, ok := err.(net.Error); n > 0 || ok && ne.Timeout() {
		p.t.Fatalf("%s: %d bytes, %v", what, n, err)
	}
}

// A login has one deadline: a step that goes well gives no more time.
func TestStepsOfALoginGiveNoTime(t *testing.T) {
	for _, d := range doors {
		if !d.sasl {
			continue
		}
		v := d.open(t, Options{})
		p := v.come(t, beforeSASL)
		for i, req := range []kmsg.Request{kmsg.NewPtrApiVersionsRequest(), saslHandshakeRequest(1, sasl.ScramSHA256), saslToken(2, "n,,n=bob,r=x")} {
			p.send(int32(i), req)
			p.expect(int32(i))
			v.reapAt(defaultAuthTimeout - 5*time.Second)
		}
		v.reapAt(defaultAuthTimeout + 5*time.Second)
		p.expectCut(d.name)
	}
}

// Failures of logins look alike (CVE-2021-38153): the log has no secret, and the answer has the same bytes for known
// and unknown names.
func TestFailuresLookAlike(t *testing.T) {
	for _, d := range doors {
		if !d.sasl {
			continue
		}
		v := d.open(t, Options{})
		var answers [][]byte
		for _, token := range []string{"\x00ann\x00planted-1", "\x00nobody\x00planted-2", "\x00eve\x00" + strings.Repeat("planted", 1000)} {
			p := v.come(t, withinSASL)
			p.send(3, saslToken(2, token))
			_, b := p.frame()
			answers = append(answers, b)
			p.expectClosed()
		}
		if !bytes.Equal(answers[0], answers[1]) || !bytes.Equal(answers[1], answers[2]) {
			t.Errorf("%s: %q", d.name, answers)
		}
		if log := v.log.String(); strings.Contains(log, "planted") {
			t.Error(log)
		}
		if !slices.ContainsFunc(answers, func(b []byte) bool { return binary.BigEndian.Uint16(b[1:]) == 58 }) {
			t.Errorf("%s: %x", d.name, answers[0])
		}
	}
}
