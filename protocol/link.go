package protocol

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/sched"
)

var (
	// ErrNoAddress: nobody has said yet where the node is.
	ErrNoAddress = errors.New("the node's address is not known")
	// ErrLinkClosed is what a Link answers after Close.
	ErrLinkClosed = errors.New("link closed")
)

// Refused says whether err is the answer of the node's machine that nobody listens there: the process is gone. Silence
// may mean anything.
func Refused(err error) bool { return errors.Is(err, errRefused) }

// Link is a connection to a node that is dialled when it is needed and again after it was lost.
type Link struct {
	address func() (string, bool)
	o       ClientOptions
	turn    chan struct{} // holds one: who may dial

	mu     sched.Mutex
	client *Client
	closed bool
}

// NewLink makes a link to where address says the node is at the moment; false: unknown.
func NewLink(address func() (string, bool), o ClientOptions) *Link {
	return &Link{address: address, o: o, turn: make(chan struct{}, 1)}
}

// Call sends req and waits for its response. When ctx ends first the connection is given up: the node may hang.
func (l *Link) Call(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { l.drop(c) })
	defer stop()
	resp, err := c.Call(ctx, req)
	if err != nil {
		l.drop(c)
		return nil, err
	}
	return resp, nil
}

// Lost is closed when the connection in use has ended; nil, which is never ready, when there is none.
func (l *Link) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil {
		return nil
	}
	return l.client.ended
}

// Reset has the next call dial.
func (l *Link) Reset() {
	if c, _ := l.current(); c != nil {
		l.drop(c)
	}
}

// Redial replaces a connection that has ended, before anybody needs it: what it answers says how the node is.
func (l *Link) Redial(ctx context.Context) error {
	l.Reset()
	_, err := l.connect(ctx)
	return err
}

func (l *Link) connect(ctx context.Context) (*Client, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c, err := l.current(); c != nil || err != nil {
		return c, err
	}
	address, ok := l.address()
	if !ok {
		return nil, ErrNoAddress
	}
	c, err := Dial(ctx, address, l.o)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Close()
		return nil, ErrLinkClosed
	}
	l.client = c
	return c, nil
}

// current is the connection in use, nil when there is none.
func (l *Link) current() (*Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrLinkClosed
	}
	return l.client, nil
}

// drop gives c up; other calls on it fail.
func (l *Link) drop(c *Client) {
	l.mu.Lock()
	if l.client == c {
		l.client = nil
	}
	l.mu.Unlock()
	c.Close()
}

// Close ends the link; calls under way fail.
func (l *Link) Close() {
	l.mu.Lock()
	c := l.client
	l.client, l.closed = nil, true
	l.mu.Unlock()
	if c != nil {
		c.Close()
	}
}
