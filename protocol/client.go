package protocol

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
	"grete/internal/sched"
)

// ErrNoVersion means that client and broker share no version of a request.
var ErrNoVersion = errors.New("the peer serves no version of the request that we know")

// ClientOptions configure a connection to another broker.
type ClientOptions struct {
	ClientID         string
	MaxResponseBytes int // a longer response ends the connection; 0: no limit but the frame's
	MaxInFlight      int // Call waits beyond that many unanswered requests; 0: defaultMaxInFlight
	// Dial connects; nil: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Login, if not nil, authenticates the connection before anything else but ApiVersions is sent, and again before
	// the session ends.
	Login *Login
	Clock clock.Clock // for sessions; nil: the system's
	// Greet, if not nil, introduces us before the connection is used; its error ends it.
	Greet func(ctx context.Context, c *Client) error
}

// Client is one connection to a broker with pipelined calls. When the connection fails, all calls fail, and later ones
// too: the owner dials again.
type Client struct {
	nc        net.Conn
	formatter *kmsg.RequestFormatter
	maxBytes  int
	slots     chan struct{} // in-flight calls
	versions  map[int16]VersionRange
	reader    sync.WaitGroup
	ended     chan struct{} // closed when the connection has ended
	login     *Login
	host      string // that was dialed
	clock     clock.Clock

	writing sched.Mutex // order of calls is the order of writes; taken before mu
	renewAt time.Time   // when to authenticate again; zero: never. Guarded by writing

	mu      sched.Mutex // never held across a write: the reader needs it while the peer reads nothing
	pending []*call
	nextID  int32
	err     error // why the connection ended
}

type call struct {
	id       int32
	resp     kmsg.Response
	done     chan error
	slotless bool // of a login: it has taken none of slots
}

// Dial connects to addr and asks for the versions that the broker serves.
func Dial(ctx context.Context, addr string, o ClientOptions) (*Client, error) {
	dial := o.Dial
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	setDefault(&o.MaxInFlight, defaultMaxInFlight)
	if o.Clock == nil {
		o.Clock = clock.System
	}
	nc, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c := &Client{
		nc: nc, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(o.ClientID)), maxBytes: o.MaxResponseBytes,
		slots: make(chan struct{}, o.MaxInFlight), ended: make(chan struct{}), login: o.Login, clock: o.Clock,
	}
	c.host, _, _ = net.SplitHostPort(addr) // it has been dialed
	c.reader.Go(c.readResponses)
	if err := c.begin(ctx, o.Greet); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	return c, nil
}

// begin does what comes before the first call.
func (c *Client) begin(ctx context.Context, greet func(context.Context, *Client) error) error {
	err := c.negotiate(ctx)
	if err == nil && c.login != nil {
		c.writing.Lock()
		err = c.logIn(ctx)
		c.writing.Unlock()
	}
	if err == nil && greet != nil {
		err = greet(ctx, c)
	}
	return err
}

// negotiate learns the broker's versions; an older broker answers a version it does not know in version 0, with its
// range.
func (c *Client) negotiate(ctx context.Context) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = req.MaxVersion()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "grete", "1"
	resp := kmsg.NewPtrApiVersionsResponse()
	for {
		resp.Version = req.Version
		if err := c.call(ctx, req, resp); err != nil {
			return err
		}
		if resp.ErrorCode == 0 {
			break
		}
		if resp.ErrorCode != unsupportedVersionCode || req.Version == 0 {
			return fmt.Errorf("ApiVersions answered error %d", resp.ErrorCode)
		}
		req.Version = 0
	}
	c.versions = make(map[int16]VersionRange, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		c.versions[k.ApiKey] = VersionRange{k.ApiKey, k.MinVersion, k.MaxVersion}
	}
	return nil
}

const unsupportedVersionCode = 35

// Call sends req at the highest version that both sides know and waits for its response. Several calls may be under
// way at once; when ctx ends first, the response is dropped when it comes.
func (c *Client) Call(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if isOwn(req.Key()) {
		resp := req.ResponseKind()
		return resp, c.call(ctx, req, resp)
	}
	if err := c.choose(req); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	return resp, c.call(ctx, req, resp)
}

// choose sets the highest version that both sides know.
func (c *Client) choose(req kmsg.Request) error {
	theirs, ok := c.versions[req.Key()]
	version := min(theirs.Max, req.MaxVersion())
	if !ok || version < theirs.Min {
		return fmt.Errorf("api key %d: %w", req.Key(), ErrNoVersion)
	}
	req.SetVersion(version)
	return nil
}

func (c *Client) call(ctx context.Context, req kmsg.Request, resp kmsg.Response) error {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	done, err := c.write(ctx, req, resp)
	if err != nil {
		<-c.slots
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write sends a request and enters its call among the pending, after another login where one is due. The slot that was
// taken is the call's from then on.
func (c *Client) write(ctx context.Context, req kmsg.Request, resp kmsg.Response) (<-chan error, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.renewsSession() {
		if err := c.logIn(ctx); err != nil {
			return nil, err
		}
	}
	k, err := c.send(req, resp, false)
	if err != nil {
		return nil, err
	}
	return k.done, nil
}

// send enters a call and writes its request. writing is held.
func (c *Client) send(req kmsg.Request, resp kmsg.Response, slotless bool) (*call, error) {
	k, err := c.enter(resp, slotless)
	if err != nil {
		return nil, err
	}
	if _, err := c.nc.Write(c.formatter.AppendRequest(nil, req, k.id)); err != nil {
		c.nc.Close() // the reader fails the pending calls, this one too
	}
	return k, nil
}

// enter gives a call its place, unless the connection has ended.
func (c *Client) enter(resp kmsg.Response, slotless bool) (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	c.nextID++
	k := &call{id: c.nextID, resp: resp, done: make(chan error, 1), slotless: slotless}
	c.pending = append(c.pending, k)
	return k, nil
}

// readResponses is the client's goroutine; it ends with the connection.
func (c *Client) readResponses() {
	defer close(c.ended)
	r := bufio.NewReader(c.nc)
	for {
		err := c.readResponse(r)
		if err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *Client) readResponse(r *bufio.Reader) error {
	var head [lengthBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := int(int32(binary.BigEndian.Uint32(head[:])))
	if n < 4 || c.maxBytes > 0 && n > c.maxBytes {
		return fmt.Errorf("response of %d bytes: %w", n, ErrMalformed)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	k := c.first()
	if k == nil || k.id != int32(binary.BigEndian.Uint32(body)) {
		return fmt.Errorf("response out of order: %w", ErrMalformed)
	}
	err := decodeResponse(k.resp, body[4:])
	c.finish(k, err)
	return err
}

// first returns the call whose response is due.
func (c *Client) first() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return nil
	}
	return c.pending[0]
}

func (c *Client) finish(k *call, err error) {
	c.mu.Lock()
	c.pending = c.pending[1:]
	c.mu.Unlock()
	c.complete(k, err)
}

// complete ends a call and gives its slot back.
func (c *Client) complete(k *call, err error) {
	k.done <- err
	if !k.slotless {
		<-c.slots
	}
}

// decodeResponse decodes a body after its header. ApiVersions may answer in version 0 whatever was asked.
func decodeResponse(resp kmsg.Response, b []byte) error {
	if resp.Key() == apiVersionsKey {
		if len(b) >= 2 && binary.BigEndian.Uint16(b) == unsupportedVersionCode {
			resp.SetVersion(0)
		}
		return resp.ReadFrom(b)
	}
	if resp.IsFlexible() {
		var err error
		if b, err = skipHeaderTags(b); err != nil {
			return err
		}
	}
	return resp.ReadFrom(b)
}

// fail ends the connection and all calls with err.
func (c *Client) fail(err error) {
	c.nc.Close()
	c.mu.Lock()
	if c.err == nil {
		c.err = fmt.Errorf("connection lost: %w", err)
	}
	failed := c.pending
	c.pending = nil
	err = c.err
	c.mu.Unlock()
	for _, k := range failed {
		c.complete(k, err)
	}
}

// Close ends the connection and waits for its goroutine.
func (c *Client) Close() error {
	err := c.nc.Close()
	c.reader.Wait()
	return err
}
