package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator/txn"
	"grete/protocol"
)

// AddOffsetsToTxn serves versions 0–4: the group's partition of __consumer_offsets joins the transaction.
func AddOffsetsToTxn(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.AddOffsetsToTxnRequest)
	add := txn.AddRequest{
		ID: req.TransactionalID, Producer: txn.ProducerEpoch{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		Partitions: []txn.Partition{{Topic: offsetsTopic, Index: b.Groups.PartitionFor(req.Group)}},
	}
	b.Txns.AddPartitions(add, func(err error) {
		resp := kmsg.NewPtrAddOffsetsToTxnResponse()
		resp.Version, resp.ErrorCode = r.Version, fencedCode(err, r.Version, 2)
		r.Respond(resp)
	})
}

// EndTxn serves versions 0–5; from 5 on the answer has the producer's next epoch (KIP-890 part 2).
func EndTxn(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.EndTxnRequest)
	end := txn.EndRequest{
		ID: req.TransactionalID, Producer: txn.ProducerEpoch{ID: req.ProducerID, Epoch: req.ProducerEpoch}, Commit: req.Commit,
	}
	if r.Version >= 5 {
		end.ClientVersion = bumpingClient
	}
	b.Txns.End(end, func(p txn.ProducerEpoch, err error) {
		resp := kmsg.NewPtrEndTxnResponse()
		resp.Version, resp.ErrorCode = r.Version, fencedCode(err, r.Version, 2)
		resp.ProducerID, resp.ProducerEpoch = p.ID, p.Epoch
		r.Respond(resp)
	})
}
