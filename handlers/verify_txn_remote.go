package handlers

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator/txn"
	"grete/internal/clock"
)

// Others are the other brokers, where a handler asks them something. Call answers or fails within Timeout.
type Others struct {
	Call    func(ctx context.Context, broker int32, req kmsg.Request) (kmsg.Response, error)
	Timeout time.Duration
}

// transactionCoordinatorElsewhere is the broker that coordinates a transactional id, unless that is this one or nobody.
func (b *Broker) transactionCoordinatorElsewhere(id string) (leader int32, elsewhere bool) {
	t, partition := b.Image().Topic(transactionsTopic), b.Txns.PartitionFor(id)
	if !has(t, partition) {
		return -1, false
	}
	leader = t.Partitions[partition].Leader
	return leader, leader >= 0 && leader != b.NodeID
}

// askCoordinator has another broker's coordinator verify or add the partitions. It waits, as its callers do.
func (b *Broker) askCoordinator(leader int32, r txn.AddRequest, support txnSupport) []error {
	ctx, cancel := clock.WithTimeout(context.Background(), b.Clock, b.Others.Timeout)
	defer cancel()
	resp, err := b.Others.Call(ctx, leader, verificationRequest(r, support))
	errs := make([]error, len(r.Partitions))
	for i, p := range r.Partitions {
		errs[i] = kerr.NetworkException
		if err == nil {
			errs[i] = verificationError(verificationAnswer(resp.(*kmsg.AddPartitionsToTxnResponse), p), support)
		}
	}
	return errs
}

func verificationRequest(r txn.AddRequest, support txnSupport) *kmsg.AddPartitionsToTxnRequest {
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.ProducerID, t.ProducerEpoch = r.ID, r.Producer.ID, r.Producer.Epoch
	t.VerifyOnly = support != addsPartitionsToo
	places := map[string]int{}
	for _, p := range r.Partitions {
		i, ok := places[p.Topic]
		if !ok {
			i = len(t.Topics)
			places[p.Topic] = i
			t.Topics = append(t.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: p.Topic})
		}
		t.Topics[i].Partitions = append(t.Topics[i].Partitions, p.Index)
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Transactions = append(req.Transactions, t)
	return req
}

func verificationAnswer(resp *kmsg.AddPartitionsToTxnResponse, p txn.Partition) error {
	if resp.ErrorCode != 0 {
		return kerr.ErrorForCode(resp.ErrorCode)
	}
	for _, t := range resp.Transactions {
		for _, topic := range t.Topics {
			for _, a := range topic.Partitions {
				if topic.Topic == p.Topic && a.Partition == p.Index {
					return kerr.ErrorForCode(a.ErrorCode)
				}
			}
		}
	}
	return kerr.NetworkException
}
