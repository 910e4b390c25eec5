package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// InitProducerID serves versions 0–5. A transactional id needs its coordinator, which this broker is not: clients look
// for it with FindCoordinator and try again.
func InitProducerID(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.InitProducerIDRequest)
	switch {
	case (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		respondProducerID(r, -1, -1, kerr.InvalidRequest.Code)
	case req.TransactionalID != nil && *req.TransactionalID == "":
		respondProducerID(r, -1, -1, kerr.InvalidRequest.Code)
	case req.TransactionalID != nil:
		respondProducerID(r, -1, -1, kerr.NotCoordinator.Code)
	default:
		b.ProducerIDs.Next(func(id int64, err error) {
			if err != nil {
				respondProducerID(r, -1, -1, kerr.CoordinatorLoadInProgress.Code)
				return
			}
			respondProducerID(r, id, 0, 0)
		})
	}
}

func respondProducerID(r *protocol.Request, id int64, epoch, code int16) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.Version, resp.ProducerID, resp.ProducerEpoch, resp.ErrorCode = r.Version, id, epoch, code
	r.Respond(resp)
}
