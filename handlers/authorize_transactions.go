package handlers

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol"
)

// authorizeInitProducer: idempotence needs no right of its own beside that to write to some topic (KIP-679).
func authorizeInitProducer(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.InitProducerIDRequest)
	code := int16(0)
	switch {
	case req.TransactionalID != nil && !b.mayTransaction(r, kmsg.ACLOperationWrite, *req.TransactionalID):
		code = transactionUnauthorized
	case req.TransactionalID == nil && !b.clusterAllows(r, kmsg.ACLOperationIdempotentWrite) &&
		!b.mayAny(r, kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTopic):
		code = clusterUnauthorized
	default:
		return true
	}
	return refusal(r, func(resp *kmsg.InitProducerIDResponse) {
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code, -1, -1
	})
}

// authorizeAddPartitions: batches of transactions are for brokers. A partition that a client may not write to keeps all
// others out.
func authorizeAddPartitions(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.AddPartitionsToTxnRequest)
	if r.Version >= 4 {
		if b.mayCluster(r, kmsg.ACLOperationClusterAction) {
			return true
		}
		return refusal(r, func(resp *kmsg.AddPartitionsToTxnResponse) { resp.ErrorCode = clusterUnauthorized })
	}
	t := singleTransaction(req)
	code := func(topic string) int16 { return transactionUnauthorized }
	if b.mayTransaction(r, kmsg.ACLOperationWrite, req.TransactionalID) {
		if !slices.ContainsFunc(t.Topics, func(t kmsg.AddPartitionsToTxnRequestTransactionTopic) bool { return !b.mayAddTopic(r, t.Topic) }) {
			return true
		}
		code = func(topic string) int16 {
			if !b.mayAddTopic(r, topic) {
				return topicUnauthorized
			}
			return kerr.OperationNotAttempted.Code
		}
	}
	return refusal(r, func(resp *kmsg.AddPartitionsToTxnResponse) {
		for _, topic := range req.Topics {
			rt := kmsg.AddPartitionsToTxnResponseTopic{Topic: topic.Topic}
			for _, p := range topic.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p, ErrorCode: code(topic.Topic)})
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
}

func (b *Broker) mayAddTopic(r *protocol.Request, topic string) bool {
	return !isInternal(topic) && b.mayTopic(r, kmsg.ACLOperationWrite, topic)
}

func authorizeAddOffsets(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.AddOffsetsToTxnRequest)
	code := int16(0)
	switch {
	case !b.mayTransaction(r, kmsg.ACLOperationWrite, req.TransactionalID):
		code = transactionUnauthorized
	case !b.mayGroup(r, kmsg.ACLOperationRead, req.Group):
		code = groupUnauthorized
	default:
		return true
	}
	return refusal(r, func(resp *kmsg.AddOffsetsToTxnResponse) { resp.ErrorCode = code })
}

func authorizeEndTxn(b *Broker, r *protocol.Request) bool {
	if b.mayTransaction(r, kmsg.ACLOperationWrite, r.Body.(*kmsg.EndTxnRequest).TransactionalID) {
		return true
	}
	return refusal(r, func(resp *kmsg.EndTxnResponse) {
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = transactionUnauthorized, -1, -1
	})
}

// authorizeMarkers: markers are for brokers, and for administrators who abort a transaction that hangs (KIP-664).
func authorizeMarkers(b *Broker, r *protocol.Request) bool {
	if b.clusterAllows(r, kmsg.ACLOperationAlter) || b.mayCluster(r, kmsg.ACLOperationClusterAction) {
		return true
	}
	req := r.Body.(*kmsg.WriteTxnMarkersRequest)
	return refusal(r, func(resp *kmsg.WriteTxnMarkersResponse) {
		for _, m := range req.Markers {
			rm := kmsg.WriteTxnMarkersResponseMarker{ProducerID: m.ProducerID}
			for _, t := range m.Topics {
				rt := kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: t.Topic}
				for _, p := range t.Partitions {
					rt.Partitions = append(rt.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: p, ErrorCode: clusterUnauthorized})
				}
				rm.Topics = append(rm.Topics, rt)
			}
			resp.Markers = append(resp.Markers, rm)
		}
	})
}

func authorizeTxnOffsetCommit(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.TxnOffsetCommitRequest)
	answer := func(topics []kmsg.TxnOffsetCommitRequestTopic, code int16) (out []kmsg.TxnOffsetCommitResponseTopic) {
		for _, t := range topics {
			rt := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
			}
			out = append(out, rt)
		}
		return out
	}
	code := int16(0)
	switch {
	case !b.mayTransaction(r, kmsg.ACLOperationWrite, req.TransactionalID):
		code = transactionUnauthorized
	case !b.mayGroup(r, kmsg.ACLOperationRead, req.Group):
		code = groupUnauthorized
	}
	if code != 0 {
		return refusal(r, func(resp *kmsg.TxnOffsetCommitResponse) { resp.Topics = answer(req.Topics, code) })
	}
	im := b.Image()
	kept, refused := withhold(req.Topics, func(t *kmsg.TxnOffsetCommitRequestTopic) bool {
		if t.TopicID == (metadata.UUID{}) {
			return b.mayTopic(r, kmsg.ACLOperationRead, t.Topic)
		}
		known := im.TopicByID(t.TopicID)
		return known == nil || b.mayTopic(r, kmsg.ACLOperationRead, known.Name)
	})
	req.Topics = kept
	if len(refused) > 0 {
		amend(r, func(resp *kmsg.TxnOffsetCommitResponse) {
			resp.Topics = append(resp.Topics, answer(refused, topicUnauthorized)...)
		})
	}
	return true
}

// authorizeDescribeTransactions leaves out the topics that the client may not describe.
func authorizeDescribeTransactions(b *Broker, r *protocol.Request) bool {
	req := r.Body.(*kmsg.DescribeTransactionsRequest)
	kept, refused := withhold(req.TransactionalIDs, func(id *string) bool { return b.mayTransaction(r, kmsg.ACLOperationDescribe, *id) })
	req.TransactionalIDs = kept
	if b.Authorizer == nil {
		return true
	}
	amend(r, func(resp *kmsg.DescribeTransactionsResponse) {
		for i := range resp.TransactionStates {
			s := &resp.TransactionStates[i]
			s.Topics = slices.DeleteFunc(s.Topics, func(t kmsg.DescribeTransactionsResponseTransactionStateTopic) bool {
				return !b.mayTopic(r, kmsg.ACLOperationDescribe, t.Topic)
			})
		}
		for _, id := range refused {
			s := kmsg.NewDescribeTransactionsResponseTransactionState()
			s.TransactionalID, s.ErrorCode = id, transactionUnauthorized
			resp.TransactionStates = append(resp.TransactionStates, s)
		}
	})
	return true
}

func authorizeListTransactions(b *Broker, r *protocol.Request) bool {
	if b.Authorizer == nil {
		return true
	}
	amend(r, func(resp *kmsg.ListTransactionsResponse) {
		resp.TransactionStates = slices.DeleteFunc(resp.TransactionStates, func(s kmsg.ListTransactionsResponseTransactionState) bool {
			return !b.mayTransaction(r, kmsg.ACLOperationDescribe, s.TransactionalID)
		})
	})
	return true
}
