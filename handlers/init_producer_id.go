package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/coordinator/txn"
	"grete/protocol"
)

// InitProducerID serves versions 0–5: an id of the broker's block, or the next epoch of a transactional id's producer.
func InitProducerID(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.InitProducerIDRequest)
	if (req.ProducerID == -1) != (req.ProducerEpoch == -1) {
		respondProducerID(r, txn.NoProducer, kerr.InvalidRequest.Code)
		return
	}
	if req.TransactionalID == nil {
		b.ProducerIDs.Next(func(id int64, err error) {
			if err != nil {
				respondProducerID(r, txn.NoProducer, kerr.CoordinatorLoadInProgress.Code)
				return
			}
			respondProducerID(r, txn.ProducerEpoch{ID: id}, 0)
		})
		return
	}
	init := txn.InitRequest{ID: *req.TransactionalID, TimeoutMs: req.TransactionTimeoutMillis}
	if req.ProducerID != -1 {
		init.Expected = &txn.ProducerEpoch{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	}
	b.Txns.InitProducer(init, func(p txn.ProducerEpoch, err error) {
		respondProducerID(r, p, fencedCode(err, r.Version, 4))
	})
}

func respondProducerID(r *protocol.Request, p txn.ProducerEpoch, code int16) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.Version, resp.ProducerID, resp.ProducerEpoch, resp.ErrorCode = r.Version, p.ID, p.Epoch, code
	r.Respond(resp)
}

// fencedCode is the code of a coordinator's answer; clients before version since do not know PRODUCER_FENCED.
func fencedCode(err error, version, since int16) int16 {
	code := coordinator.Code(err)
	if code == kerr.ProducerFenced.Code && version < since {
		return kerr.InvalidProducerEpoch.Code
	}
	return code
}
