package protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/sched"
)

// Links is a Link to each of several nodes, made when it is first needed.
type Links struct {
	address func(id int32) (string, bool)
	o       ClientOptions

	mu     sched.Mutex
	byID   map[int32]*Link // one per node that was ever called
	closed bool
}

// NewLinks makes links to where address says the nodes are at the moment; false: unknown.
func NewLinks(address func(id int32) (string, bool), o ClientOptions) *Links {
	return &Links{address: address, o: o, byID: map[int32]*Link{}}
}

// Call is Link.Call to node id.
func (l *Links) Call(ctx context.Context, id int32, req kmsg.Request) (kmsg.Response, error) {
	link := l.link(id)
	if link == nil {
		return nil, ErrLinkClosed
	}
	return link.Call(ctx, req)
}

// Reset has the next call to node id dial.
func (l *Links) Reset(id int32) {
	if link := l.link(id); link != nil {
		link.Reset()
	}
}

func (l *Links) link(id int32) *Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.byID[id] == nil {
		l.byID[id] = NewLink(func() (string, bool) { return l.address(id) }, l.o)
	}
	return l.byID[id]
}

// Close ends the connections; what is under way fails, and so does every later call.
func (l *Links) Close() {
	l.mu.Lock()
	l.closed = true
	links := l.byID
	l.mu.Unlock()
	for _, link := range links {
		link.Close()
	}
}
