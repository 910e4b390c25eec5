package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/coordinator/txn"
	"grete/protocol"
)

// AddPartitionsToTxn serves versions 0–5: one transaction up to 3, from clients; a batch of them from 4 on, between
// brokers, where partitions may also be only looked up.
func AddPartitionsToTxn(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.AddPartitionsToTxnRequest)
	txns := req.Transactions
	if r.Version < 4 {
		txns = []kmsg.AddPartitionsToTxnRequestTransaction{singleTransaction(req)}
	}
	g := newGather(len(txns), func(results []kmsg.AddPartitionsToTxnResponseTransaction) {
		r.Respond(addPartitionsResponse(r.Version, results))
	})
	for i := range txns {
		b.addPartitions(r.Version, &txns[i], func(topics []kmsg.AddPartitionsToTxnResponseTransactionTopic) {
			g.set(i, kmsg.AddPartitionsToTxnResponseTransaction{TransactionalID: txns[i].TransactionalID, Topics: topics})
		})
	}
}

func singleTransaction(req *kmsg.AddPartitionsToTxnRequest) kmsg.AddPartitionsToTxnRequestTransaction {
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.ProducerID, t.ProducerEpoch = req.TransactionalID, req.ProducerID, req.ProducerEpoch
	for _, topic := range req.Topics {
		t.Topics = append(t.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: topic.Topic, Partitions: topic.Partitions})
	}
	return t
}

func addPartitionsResponse(version int16, results []kmsg.AddPartitionsToTxnResponseTransaction) *kmsg.AddPartitionsToTxnResponse {
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	resp.Version = version
	if version >= 4 {
		resp.Transactions = results
		return resp
	}
	for _, t := range results[0].Topics {
		rt := kmsg.AddPartitionsToTxnResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p.Partition, ErrorCode: p.ErrorCode})
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// addPartitions: one partition that does not exist keeps all of them out.
func (b *Broker) addPartitions(version int16, t *kmsg.AddPartitionsToTxnRequestTransaction, answer func([]kmsg.AddPartitionsToTxnResponseTransactionTopic)) {
	partitions, known := b.txnPartitions(t)
	if known < len(partitions) {
		answer(addPartitionsResult(t, func(p txn.Partition) int16 {
			if !has(b.Image().Topic(p.Topic), p.Index) {
				return kerr.UnknownTopicOrPartition.Code
			}
			return kerr.OperationNotAttempted.Code
		}))
		return
	}
	r := txn.AddRequest{
		ID: t.TransactionalID, Producer: txn.ProducerEpoch{ID: t.ProducerID, Epoch: t.ProducerEpoch}, Partitions: partitions,
	}
	if t.VerifyOnly {
		b.Txns.VerifyPartitions(r, func(errs []error) {
			answer(addPartitionsResult(t, func(p txn.Partition) int16 { return verifiedCode(partitions, errs, p) }))
		})
		return
	}
	if version >= 4 {
		r.ClientVersion = bumpingClient
	}
	b.Txns.AddPartitions(r, func(err error) {
		code := fencedCode(err, version, 2)
		answer(addPartitionsResult(t, func(txn.Partition) int16 { return code }))
	})
}

func verifiedCode(partitions []txn.Partition, errs []error, p txn.Partition) int16 {
	for i := range partitions {
		if partitions[i] == p {
			return coordinator.Code(errs[i])
		}
	}
	return 0
}

// txnPartitions are the partitions of the request, and how many of them exist.
func (b *Broker) txnPartitions(t *kmsg.AddPartitionsToTxnRequestTransaction) (partitions []txn.Partition, known int) {
	im := b.Image()
	for _, topic := range t.Topics {
		for _, p := range topic.Partitions {
			partitions = append(partitions, txn.Partition{Topic: topic.Topic, Index: p})
			if has(im.Topic(topic.Topic), p) {
				known++
			}
		}
	}
	return partitions, known
}

func addPartitionsResult(t *kmsg.AddPartitionsToTxnRequestTransaction, code func(txn.Partition) int16) []kmsg.AddPartitionsToTxnResponseTransactionTopic {
	out := make([]kmsg.AddPartitionsToTxnResponseTransactionTopic, 0, len(t.Topics))
	for _, topic := range t.Topics {
		rt := kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: topic.Topic}
		for _, p := range topic.Partitions {
			rt.Partitions = append(rt.Partitions, kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{
				Partition: p, ErrorCode: code(txn.Partition{Topic: topic.Topic, Index: p}),
			})
		}
		out = append(out, rt)
	}
	return out
}
