package handlers

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster/replica"
	"grete/coordinator/txn"
)

// txnSupport is what a client's version of Produce or TxnOffsetCommit knows of transactions (Kafka's
// TransactionSupportedOperation).
type txnSupport int8

const (
	oldTxnErrors      txnSupport = iota
	knowsAbortable               // TRANSACTION_ABORTABLE is understood (KIP-890 part 1)
	addsPartitionsToo            // the request itself adds its partitions to the transaction (part 2)
)

func produceSupport(version int16) txnSupport {
	switch {
	case version >= 12:
		return addsPartitionsToo
	case version == 11:
		return knowsAbortable
	}
	return oldTxnErrors
}

func txnOffsetCommitSupport(version int16) txnSupport {
	switch {
	case version >= 5:
		return addsPartitionsToo
	case version == 4:
		return knowsAbortable
	}
	return oldTxnErrors
}

// verifyTransaction asks the coordinator whether the partitions are in the producer's transaction, or adds them; answer
// gets an error or nil for each (Kafka's AddPartitionsToTxnManager).
func (b *Broker) verifyTransaction(r txn.AddRequest, support txnSupport, answer func([]error)) {
	all := func(err error) { answer(slices.Repeat([]error{err}, len(r.Partitions))) }
	leader, elsewhere := b.transactionCoordinatorElsewhere(r.ID)
	switch {
	case elsewhere:
		answer(b.askCoordinator(leader, r, support))
	case b.Image().Topic(transactionsTopic) == nil:
		all(kerr.CoordinatorNotAvailable)
	case support == addsPartitionsToo:
		r.ClientVersion, r.Wait = bumpingClient, true
		b.Txns.AddPartitions(r, func(err error) { all(verificationError(err, support)) })
	default:
		b.Txns.VerifyPartitions(r, func(errs []error) {
			for i, err := range errs {
				errs[i] = verificationError(err, support)
			}
			answer(errs)
		})
	}
}

// denyVerification ends the verification in part's log when why says that asking again is of no use. An error that the
// client retries keeps it: the log must know the lowest sequence that was verified when the retries come in another
// order.
func denyVerification(part *replica.Partition, p txn.ProducerEpoch, guard uint64, why error) {
	var code *kerr.Error
	if errors.As(why, &code) && !code.Retriable && code != kerr.ConcurrentTransactions {
		part.DenyVerification(p.ID, p.Epoch, guard)
	}
}

// asksCoordinator: requests that add their partitions always do; others as transaction.partition.verification.enable
// says.
func (b *Broker) asksCoordinator(support txnSupport) bool {
	return support == addsPartitionsToo || b.VerifyTransactions()
}

// bumpingClient is the transaction.version of clients whose requests add partitions by themselves.
const bumpingClient = 2

// verificationError gives a coordinator's error the form that Produce and TxnOffsetCommit know.
func verificationError(err error, support txnSupport) error {
	switch {
	case errors.Is(err, kerr.ProducerFenced):
		return kerr.InvalidProducerEpoch
	case errors.Is(err, kerr.TransactionAbortable) && support == oldTxnErrors:
		return kerr.InvalidTxnState
	}
	return err
}
