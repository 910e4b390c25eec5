package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/coordinator/txn"
	"grete/protocol"
)

// DescribeTransactions serves version 0.
func DescribeTransactions(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DescribeTransactionsRequest)
	g := newGather(len(req.TransactionalIDs), func(states []kmsg.DescribeTransactionsResponseTransactionState) {
		resp := kmsg.NewPtrDescribeTransactionsResponse()
		resp.TransactionStates = states
		r.Respond(resp)
	})
	for i, id := range req.TransactionalIDs {
		b.Txns.Describe(id, func(d txn.Description, err error) { g.set(i, describedTransaction(id, d, err)) })
	}
}

func describedTransaction(id string, d txn.Description, err error) kmsg.DescribeTransactionsResponseTransactionState {
	s := kmsg.NewDescribeTransactionsResponseTransactionState()
	s.TransactionalID, s.ErrorCode = id, coordinator.Code(err)
	if err != nil {
		return s
	}
	s.State, s.TimeoutMillis, s.StartTimestamp = d.State.String(), d.TimeoutMs, d.StartMs
	s.ProducerID, s.ProducerEpoch = d.Producer.ID, d.Producer.Epoch
	for _, p := range d.Partitions {
		if n := len(s.Topics); n == 0 || s.Topics[n-1].Topic != p.Topic {
			s.Topics = append(s.Topics, kmsg.DescribeTransactionsResponseTransactionStateTopic{Topic: p.Topic})
		}
		t := &s.Topics[len(s.Topics)-1]
		t.Partitions = append(t.Partitions, p.Index)
	}
	return s
}

// ListTransactions serves versions 0–2: filters by producer and state, by duration from 1 on, by pattern from 2 on.
func ListTransactions(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.ListTransactionsRequest)
	list := txn.ListRequest{ProducerIDs: req.ProducerIDFilters, States: req.StateFilters, DurationMs: -1}
	if r.Version >= 1 {
		list.DurationMs = req.DurationFilterMillis
	}
	if req.TransactionalIDPattern != nil {
		list.Pattern = *req.TransactionalIDPattern
	}
	b.Txns.List(list, func(ids []txn.Listed, unknownStates []string, err error) {
		resp := kmsg.NewPtrListTransactionsResponse()
		resp.Version, resp.ErrorCode, resp.UnknownStateFilters = r.Version, coordinator.Code(err), unknownStates
		for _, l := range ids {
			resp.TransactionStates = append(resp.TransactionStates, kmsg.ListTransactionsResponseTransactionState{
				TransactionalID: l.ID, ProducerID: l.ProducerID, TransactionState: l.State.String(),
			})
		}
		r.Respond(resp)
	})
}

// DescribeProducers serves version 0: what the leaders remember of producers.
func DescribeProducers(b *Broker, _ context.Context, r *protocol.Request) {
	resp := kmsg.NewPtrDescribeProducersResponse()
	for _, t := range r.Body.(*kmsg.DescribeProducersRequest).Topics {
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, b.describeProducers(t.Topic, p))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	r.Respond(resp)
}

func (b *Broker) describeProducers(topic string, index int32) kmsg.DescribeProducersResponseTopicPartition {
	rp := kmsg.NewDescribeProducersResponseTopicPartition()
	rp.Partition = index
	if wrong := checkTopicName(topic); wrong != "" {
		rp.ErrorCode, rp.ErrorMessage = kerr.InvalidTopicException.Code, &wrong
		return rp
	}
	if b.Image().Topic(topic) == nil {
		message := "This server does not host this topic-partition."
		rp.ErrorCode, rp.ErrorMessage = kerr.UnknownTopicOrPartition.Code, &message
		return rp
	}
	part, err := b.Replicas.Partition(topic, index)
	if err != nil {
		rp.ErrorCode = codeOf(err)
		return rp
	}
	producers, err := part.ActiveProducers()
	rp.ErrorCode = codeOf(err)
	for _, p := range producers {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch, a.LastSequence = p.ID, int32(p.Epoch), p.LastSequence
		a.LastTimestamp, a.CoordinatorEpoch, a.CurrentTxnStartOffset = p.LastTimestampMs, p.CoordinatorEpoch, p.TxnFirstOffset
		rp.ActiveProducers = append(rp.ActiveProducers, a)
	}
	return rp
}
