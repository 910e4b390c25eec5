package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// relay makes the handler of a request that the active controller answers, and whose response has one place for an
// error: fail sets it when there is no answer.
func relay[R kmsg.Response](fail func(resp R, code int16)) func(*Broker, context.Context, *protocol.Request) {
	return func(b *Broker, ctx context.Context, r *protocol.Request) {
		req := r.Body
		resp, err := b.change(ctx, r, req)
		if err != nil {
			failed := req.ResponseKind().(R)
			fail(failed, codeOf(err))
			resp = failed
		}
		r.Respond(resp)
	}
}

// What clients ask of the quorum and of the controller.
var (
	DescribeQuorum       = relay(func(r *kmsg.DescribeQuorumResponse, code int16) { r.ErrorCode = code })
	AddRaftVoter         = relay(func(r *kmsg.AddRaftVoterResponse, code int16) { r.ErrorCode = code })
	RemoveRaftVoter      = relay(func(r *kmsg.RemoveRaftVoterResponse, code int16) { r.ErrorCode = code })
	UnregisterBroker     = relay(func(r *kmsg.UnregisterBrokerResponse, code int16) { r.ErrorCode = code })
	UnregisterController = relay(func(r *kmsg.UnregisterControllerResponse, code int16) { r.ErrorCode = code })
	UpdateFeatures       = relay(func(r *kmsg.UpdateFeaturesResponse, code int16) { r.ErrorCode = code })
)

// local is Controller for a controller listener: what this node does not lead it does not pass on, so that who asks
// looks for the leader, as with Kafka's controllers.
type local struct{ quorum Quorum }

// NewLocalController answers with NOT_CONTROLLER on a node that does not lead.
func NewLocalController(q Quorum) Controller { return local{q} }

// Do is Controller's.
func (l local) Do(ctx context.Context, p protocol.Principal, req kmsg.Request) (kmsg.Response, error) {
	resp, _, err := l.quorum.Decide(ctx, p, req)
	return resp, err
}
