package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
	"grete/protocol"
)

// Forwarder carries a request to the node that leads. end is from where on an image has what came of the request.
type Forwarder interface {
	Forward(ctx context.Context, leader int32, p protocol.Principal, req kmsg.Request) (resp kmsg.Response, end int64, err error)
}

// retryAfter is the pause after an attempt that found no leader where one was expected.
const retryAfter = 20 * time.Millisecond

// Do has the active controller, wherever it is, decide req, and returns once this node's image has what came of it and
// OnImage has returned for it. When the leader moves meanwhile, it tries again with the next one, as Kafka's forwarding
// does: a change that was committed but not answered is then decided twice. When the request's patience ends it gives
// up with context.DeadlineExceeded.
func (n *Node) Do(ctx context.Context, p protocol.Principal, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := clock.WithTimeout(ctx, n.o.Clock, n.patience(req))
	defer cancel()
	for {
		out, again := n.attempt(ctx, n.lead.Load(), p, req)
		if !again {
			return out.response, out.err
		}
		if n.ctx.Err() != nil {
			return nil, ErrStopped
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("no active controller answered: %w", context.DeadlineExceeded)
		}
	}
}

// patience is how long a request may take: as long as it allows, and no longer than request.timeout.ms.
func (n *Node) patience(req kmsg.Request) time.Duration {
	limit := n.o.Config.Int("request.timeout.ms")
	if t, ok := req.(kmsg.TimeoutRequest); ok && t.Timeout() > 0 {
		limit = min(limit, int64(t.Timeout()))
	}
	return time.Duration(limit) * time.Millisecond
}

// attempt tries the leader of one term; again says that another attempt may fare better.
func (n *Node) attempt(ctx context.Context, t *term, p protocol.Principal, req kmsg.Request) (out outcome, again bool) {
	switch {
	case t.NodeID == n.o.NodeID:
		out = n.decideHere(ctx, t, p, req)
		again = errors.Is(out.err, ErrNotController)
	case t.NodeID == -1:
		select {
		case <-t.over:
		case <-ctx.Done():
		case <-n.ctx.Done():
		}
		return outcome{}, true
	case n.o.Forward == nil:
		return outcome{err: ErrNotController}, false
	default:
		out, again = n.decideThere(ctx, t, p, req)
	}
	if again {
		select {
		case <-t.over:
		default:
			_ = clock.Pause(ctx, n.o.Clock, retryAfter)
		}
	}
	return out, again
}

// Decide decides req on this node, for another that forwards it: ErrNotController when this one does not lead. end is
// from where on an image has what came of it. conn ends with the connection that the request came in on.
func (n *Node) Decide(conn context.Context, p protocol.Principal, req kmsg.Request) (resp kmsg.Response, end int64, err error) {
	ctx, cancel := clock.WithTimeout(conn, n.o.Clock, n.patience(req))
	defer cancel()
	t := n.lead.Load()
	if t.NodeID != n.o.NodeID {
		return nil, 0, ErrNotController
	}
	out := n.decideHere(ctx, t, p, req)
	if r, ok := out.response.(*kmsg.BrokerHeartbeatResponse); ok && out.err == nil && r.ErrorCode == 0 {
		n.presence.heard(req.(*kmsg.BrokerHeartbeatRequest).BrokerID, conn)
	}
	return out.response, out.end, out.err
}

// decideHere decides as the leader of t: what is about the quorum at once; anything else it queues for the decider, and
// waits for the outcome.
func (n *Node) decideHere(ctx context.Context, t *term, p protocol.Principal, req kmsg.Request) outcome {
	if resp, ok, err := n.decideQuorum(ctx, t, req); ok {
		return outcome{response: resp, err: err}
	}
	out := n.decideMetadata(ctx, p, req)
	n.followUp(ctx, t, req, out)
	return out
}

// followUp has a node leave the quorum with its last registration, or when that is gone already: it may have been heard
// of too lately then.
func (n *Node) followUp(ctx context.Context, t *term, req kmsg.Request, out outcome) {
	id := int32(-1)
	switch resp := out.response.(type) {
	case *kmsg.UnregisterBrokerResponse:
		if resp.ErrorCode == 0 || resp.ErrorCode == kerr.BrokerIDNotRegistered.Code {
			id = req.(*kmsg.UnregisterBrokerRequest).BrokerID
		}
	case *kmsg.UnregisterControllerResponse:
		if resp.ErrorCode == 0 || resp.ErrorCode == kerr.ControllerIDNotRegistered.Code {
			id = req.(*kmsg.UnregisterControllerRequest).ControllerID
		}
	}
	if im := n.Image(); id >= 0 && im.Broker(id) == nil && im.Controller(id) == nil {
		n.forgetMember(ctx, t, id)
	}
}

func (n *Node) decideMetadata(ctx context.Context, p protocol.Principal, req kmsg.Request) outcome {
	reply := make(chan outcome, 1)
	o := &op{principal: p, request: req, gone: ctx.Done(), reply: reply}
	select {
	case n.ops <- o:
	case <-ctx.Done():
		return outcome{err: ctx.Err()}
	case <-n.ctx.Done():
		return outcome{err: ErrStopped}
	}
	return n.await(ctx, reply)
}

func (n *Node) await(ctx context.Context, reply <-chan outcome) outcome {
	select {
	case out := <-reply:
		return out
	case <-ctx.Done():
		return outcome{err: ctx.Err()}
	case <-n.ctx.Done():
		return outcome{err: ErrStopped}
	}
}

// decideThere forwards to the leader of t, for as long as t lasts, and waits for this node's image.
func (n *Node) decideThere(ctx context.Context, t *term, p protocol.Principal, req kmsg.Request) (out outcome, again bool) {
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	var watch sync.WaitGroup
	defer watch.Wait()
	answered := make(chan struct{})
	defer close(answered)
	watch.Go(func() {
		select {
		case <-t.over:
		case <-n.ctx.Done():
		case <-answered:
		}
		cancel()
	})
	resp, end, err := n.o.Forward.Forward(during, t.NodeID, p, req)
	var code *kerr.Error
	switch {
	case err == nil:
		return n.awaitImage(ctx, end, resp), false
	case errors.As(err, &code) && code != kerr.NotController:
		return outcome{err: err}, false
	}
	return outcome{err: err}, true
}

// awaitImage answers resp once the image has everything below end.
func (n *Node) awaitImage(ctx context.Context, end int64, resp kmsg.Response) outcome {
	reply := make(chan outcome, 1)
	n.arrivals.add(waiter{end: end, response: resp, reply: reply})
	return n.await(ctx, reply)
}
