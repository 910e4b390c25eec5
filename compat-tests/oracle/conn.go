package oracle

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// answerTimeout is how long a request may stay unanswered before its outcome is "silent"; longer than any
	// wait that a scenario asks for.
	answerTimeout = 12 * time.Second
	dialTimeout   = 5 * time.Second
	maxFrameBytes = 64 << 20
	frameBacklog  = 256 // answers of a connection that nobody waits for yet
)

// Conn is one connection of a scenario. Answers are expected in the order of the requests.
type Conn struct {
	s           *Session
	name        string
	clientID    string
	addr        string
	net         net.Conn
	correlation int32
	frames      chan frame
	pending     []*Call
	dead        bool // closed or silent: the next request goes over a new connection
}

type frame struct {
	body []byte // without the length
	err  error
	at   time.Time
}

// Call is a request that was sent.
type Call struct {
	c           *Conn
	label       string
	key         int16
	correlation int32
	kind        kmsg.Response // the response to decode into; nil: the answer is recorded as bytes
	sent        time.Time
	answered    *frame
	waitClass   time.Duration
	filter      func(any) any
	patience    time.Duration // until the outcome is "silent"
}

func dial(s *Session, name string) *Conn {
	c := &Conn{s: s, name: name, clientID: "oracle", addr: cmp.Or(s.target.At, s.target.Addr)}
	if name == setupClient {
		c.clientID, c.addr = setupClient, s.target.Addr
	}
	c.connect()
	return c
}

// dialAt connects to another listener of the broker's.
func dialAt(s *Session, addr string) *Conn {
	c := &Conn{s: s, clientID: "oracle", addr: addr}
	c.connect()
	return c
}

func (c *Conn) connect() {
	from := c.s.target.Guest
	if c.clientID == setupClient {
		from = ""
	}
	nc, err := dialFrom(from, c.addr)
	if err != nil {
		panic(fmt.Sprintf("dial: %v", err))
	}
	c.net, c.frames, c.dead = nc, make(chan frame, frameBacklog), false
	go read(nc, c.frames)
}

func read(nc net.Conn, frames chan<- frame) {
	defer close(frames)
	for {
		body, err := readFrame(nc)
		frames <- frame{body, err, time.Now()}
		if err != nil {
			return
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrameBytes {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}

// Close closes our side.
func (c *Conn) Close() { c.net.Close() }

// Do sends a request and waits for its answer, which becomes a step. It returns nil when there was no response to
// decode; a scenario that needs one then ends by its failed type assertion, which is a step too.
func (c *Conn) Do(version int16, req kmsg.Request) kmsg.Response { return c.Send(version, req).Wait() }

// Send sends a request; its answer becomes a step where Wait is called.
func (c *Conn) Send(version int16, req kmsg.Request) *Call {
	call := c.newCall(version, req)
	c.write(frameOf(requestBytes(req, version, call.correlation, c.clientID)))
	c.pending = append(c.pending, call)
	return call
}

// SendNoAnswer sends a request that takes no slot in the order of answers.
func (c *Conn) SendNoAnswer(version int16, req kmsg.Request) {
	c.correlation++
	c.write(frameOf(requestBytes(req, version, c.correlation, c.clientID)))
}

// SendBody sends hand-made body bytes behind the right header for req's key and version.
func (c *Conn) SendBody(version int16, req kmsg.Request, body []byte) *Call {
	call := c.newCall(version, req)
	c.write(frameOf(append(requestHeader(req, version, call.correlation, c.clientID), body...)))
	c.pending = append(c.pending, call)
	return call
}

// SendRaw sends bytes as they are, length included; the answer is recorded undecoded.
func (c *Conn) SendRaw(label string, raw []byte) *Call {
	call := &Call{c: c, label: label, patience: answerTimeout, sent: time.Now()}
	c.write(raw)
	c.pending = append(c.pending, call)
	return call
}

func (c *Conn) newCall(version int16, req kmsg.Request) *Call {
	c.correlation++
	req.SetVersion(version)
	kind := req.ResponseKind()
	kind.SetVersion(version)
	label := fmt.Sprintf("%s v%d", kmsg.NameForKey(req.Key()), version)
	return &Call{c: c, label: label, key: req.Key(), correlation: c.correlation, kind: kind, patience: answerTimeout, sent: time.Now()}
}

func (c *Conn) write(b []byte) {
	if c.dead {
		c.net.Close()
		c.connect()
	}
	c.net.SetWriteDeadline(time.Now().Add(answerTimeout))
	c.net.Write(b) // an error shows as the closed connection that it is
}

// requestBytes is header and body.
func requestBytes(req kmsg.Request, version int16, correlation int32, clientID string) []byte {
	req.SetVersion(version)
	return req.AppendTo(requestHeader(req, version, correlation, clientID))
}

func requestHeader(req kmsg.Request, version int16, correlation int32, clientID string) []byte {
	req.SetVersion(version)
	b := binary.BigEndian.AppendUint16(nil, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
	b = append(b, clientID...)
	if req.IsFlexible() {
		b = append(b, 0)
	}
	return b
}

func frameOf(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// Timed records whether the answer came at once or only when maxWait was over.
func (k *Call) Timed(maxWait time.Duration) *Call { k.waitClass = maxWait; return k }

// Soon gives up sooner than usual, for a request that Kafka may never answer.
func (k *Call) Soon() *Call { k.patience = 5 * time.Second; return k }

// OwnOnly leaves elements out that belong to topics or groups of other scenarios.
func (k *Call) OwnOnly() *Call { k.filter = k.c.s.ownOnly; return k }

// Summary leaves out of fetched batches what depends on a broker's own compression or clock.
func (k *Call) Summary() *Call {
	k.filter = func(tree any) any { return without(tree, "Payload", "PayloadBytes", "PayloadCRC") }
	return k
}

// Alive records of a response only that there was one: for requests that ask nothing in particular.
func (k *Call) Alive() *Call {
	k.filter = func(tree any) any {
		if _, ok := tree.(string); ok {
			return tree
		}
		return "a response"
	}
	return k
}

// Note adds words to the step's label.
func (k *Call) Note(note string) *Call { k.label += " " + note; return k }

// Wait waits for the answer and records it.
func (k *Call) Wait() kmsg.Response {
	resp, out := k.await()
	if k.filter != nil {
		out = k.filter(out)
	}
	if k.waitClass > 0 {
		out = map[string]any{"when": whenClass(k.answered.at.Sub(k.sent), k.waitClass), "answer": out}
	}
	k.c.s.record(k.c.name, k.label, out)
	return resp
}

// Quiet waits for the answer without recording it: for set-up.
func (k *Call) Quiet() kmsg.Response {
	resp, _ := k.await()
	return resp
}

func (k *Call) await() (kmsg.Response, any) {
	for k.answered == nil {
		head := k.c.pending[0]
		k.c.pending = k.c.pending[1:]
		head.answered = k.c.next(head.patience)
		k.c.dead = head.answered.err != nil
	}
	return k.decode()
}

func (c *Conn) next(timeout time.Duration) *frame {
	select {
	case f, ok := <-c.frames:
		if !ok {
			return &frame{err: io.EOF, at: time.Now()}
		}
		return &f
	case <-time.After(timeout):
		return &frame{err: errSilent, at: time.Now()}
	}
}

var errSilent = errors.New("silent")

// Silence records whether nothing at all comes within d: neither an answer nor a close.
func (c *Conn) Silence(d time.Duration) {
	f := c.next(d)
	c.s.record(c.name, "listen", outcomeOf(f))
}

func outcomeOf(f *frame) string {
	switch {
	case f.err == errSilent:
		return "silent"
	case f.err != nil:
		return "closed"
	}
	return "answered"
}

func whenClass(took, maxWait time.Duration) string {
	switch {
	case took < maxWait*6/10:
		return "before the wait was over"
	case took >= maxWait*9/10:
		return "when the wait was over"
	}
	return "in between"
}

func (k *Call) decode() (kmsg.Response, any) {
	f := k.answered
	if f.err != nil {
		return nil, outcomeOf(f)
	}
	if k.kind == nil {
		return nil, fmt.Sprintf("answered %x", f.body)
	}
	if len(f.body) < 4 {
		return nil, "answered without a header"
	}
	if got := int32(binary.BigEndian.Uint32(f.body)); got != k.correlation {
		return nil, fmt.Sprintf("answered out of order: correlation id is %d away", got-k.correlation)
	}
	resp, err := decodeResponse(k.kind, k.key, f.body[4:])
	if err != nil {
		return nil, fmt.Sprintf("undecodable: %v", err)
	}
	out := k.c.s.tree(resp)
	if !bytes.Equal(encodeResponse(resp, k.key), f.body[4:]) {
		return resp, map[string]any{"response": out, "encoding": "not the canonical one"}
	}
	return resp, out
}

// decodeResponse reads what follows the correlation id into kind, whose version is set. An ApiVersions
// response with error 35 is in the encoding of version 0.
func decodeResponse(kind kmsg.Response, key int16, b []byte) (kmsg.Response, error) {
	const apiVersions, unsupportedVersion = 18, 35
	if key == apiVersions && len(b) > 2 && binary.BigEndian.Uint16(b) == unsupportedVersion {
		kind.SetVersion(0)
	}
	if kind.IsFlexible() && key != apiVersions {
		if len(b) == 0 || b[0] != 0 {
			return nil, errors.New("tags in the response header")
		}
		b = b[1:]
	}
	return kind, kind.ReadFrom(b)
}

// encodeResponse is decodeResponse's inverse.
func encodeResponse(resp kmsg.Response, key int16) []byte {
	var b []byte
	if resp.IsFlexible() && key != 18 {
		b = append(b, 0)
	}
	return resp.AppendTo(b)
}
