package controller

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// doubter is a leader that believes no hello on its first connections, and answers what is forwarded over any other.
type doubter struct {
	mu     sync.Mutex
	doubts int // connections that are not believed
	seen   map[uint64]bool
}

func (d *doubter) Versions() []protocol.VersionRange {
	return []protocol.VersionRange{{Key: 18, Max: 5}, {Key: protocol.ForwardKey}}
}

func (d *doubter) Serve(_ context.Context, r *protocol.Request) {
	if r.Key != protocol.ForwardKey {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: protocol.ForwardKey}}
		r.Respond(resp)
		return
	}
	d.mu.Lock()
	d.seen[r.Conn.ID] = true
	believed := len(d.seen) > d.doubts
	d.mu.Unlock()
	if !believed {
		r.Respond(&protocol.ForwardResponse{ErrorCode: kerr.ClusterAuthorizationFailed.Code})
		return
	}
	resp := kmsg.NewPtrAllocateProducerIDsResponse()
	resp.ProducerIDStart = 7
	r.Respond(&protocol.ForwardResponse{EndOffset: 3, Body: resp.AppendTo(nil)})
}

// A connection that began while the leader could not make sure of this node does not stay refused: once, another is
// tried.
func TestRefusedForwardTriesAnotherConnection(t *testing.T) {
	for doubts, want := range []error{nil, nil, kerr.ClusterAuthorizationFailed} {
		d := &doubter{doubts: doubts, seen: map[uint64]bool{}}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		server := protocol.NewServer(d, protocol.Options{Log: zerolog.Nop()})
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve("CONTROLLER", l) }()
		links := NewLinks("cluster", func(int32) (string, bool) { return l.Addr().String(), true }, protocol.ClientOptions{})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		resp, end, err := links.Forward(ctx, 1, protocol.Principal{}, kmsg.NewPtrAllocateProducerIDsRequest())
		if !errors.Is(err, want) || err == nil && (end != 3 || resp.(*kmsg.AllocateProducerIDsResponse).ProducerIDStart != 7) {
			t.Errorf("%d connections refused: %v, %d, %v", doubts, resp, end, err)
		}
		if len(d.seen) > 2 {
			t.Errorf("%d connections", len(d.seen))
		}
		links.Close()
		_ = server.Shutdown(ctx)
		cancel()
		<-served
	}
}
