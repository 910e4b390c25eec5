package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster/metadata"
	"grete/protocol"
)

// Prober probes other brokers for the active controller (controller.Prober).
type Prober interface {
	Silent(ctx context.Context, id int32, epoch int64) (bool, error)
}

// Witness probes a broker for the node that leads the quorum. It runs on a goroutine of its own, which ends with the
// answer; the server bounds them as it bounds the requests in flight.
func Witness(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*protocol.WitnessRequest)
	if !mayAskWitness(b.Image(), r.Conn.Peer()) {
		r.Conn.Refused("a request to probe a broker from a node that does not lead the quorum")
		r.Respond(&protocol.WitnessResponse{ErrorCode: kerr.ClusterAuthorizationFailed.Code})
		return
	}
	go func() {
		defer b.contain(r)
		silent, err := b.Prober.Silent(ctx, req.BrokerID, req.BrokerEpoch)
		resp := &protocol.WitnessResponse{Silent: silent}
		if err != nil {
			resp.ErrorCode = codeOf(err)
		}
		r.Respond(resp)
	}()
}

// mayAskWitness: the node that leads the quorum as far as this broker knows. A leader that is no broker has no run to
// prove, and is believed: all that a forger gets is a probe of a broker where that is registered, once for everybody
// who asks at the time.
func mayAskWitness(im *metadata.Image, p *protocol.Peer) bool {
	if p == nil || p.NodeID != im.ControllerID() {
		return false
	}
	return p.Proven || isRun(im, p, p.NodeID) || im.Broker(p.NodeID) == nil
}
