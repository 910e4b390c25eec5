package handlers

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator/txn"
	"grete/protocol/batch"
)

// verifyTransactions makes sure that the transactional batches of the request belong to an open transaction, before any
// is written (KIP-890). It waits for the coordinator, and the connection's later requests with it, as in Kafka: a
// producer's batches must stay in order. It reports that the whole request is refused.
func (p *produce) verifyTransactions() (refused bool) {
	producer, found, same := p.transactionalProducer()
	if !same {
		message := "Transactional records contained more than one producer ID"
		p.failAll(kerr.InvalidProducerIDMapping.Code, &message)
		return true
	}
	if found && p.b.asksCoordinator(produceSupport(p.r.Version)) {
		p.verify(producer)
	}
	return false
}

// transactionalProducer finds the producer of the transactional batches; there may be one only.
func (p *produce) transactionalProducer() (producer txn.ProducerEpoch, found, same bool) {
	for i := range p.entries {
		e := &p.entries[i]
		if !e.transactional {
			continue
		}
		b := batch.Batch(e.records)
		this := txn.ProducerEpoch{ID: b.ProducerID(), Epoch: b.ProducerEpoch()}
		if found && this != producer {
			return producer, true, false
		}
		producer, found = this, true
	}
	return producer, found, true
}

func (p *produce) verify(producer txn.ProducerEpoch) {
	r := txn.AddRequest{ID: *p.req.TransactionID, Producer: producer}
	var asked []*produceEntry
	for i := range p.entries {
		if e := &p.entries[i]; e.transactional && p.startVerification(e) {
			asked = append(asked, e)
			r.Partitions = append(r.Partitions, txn.Partition{Topic: e.partition.Topic, Index: e.partition.Index})
		}
	}
	if len(asked) == 0 {
		return
	}
	answered := make(chan []error, 1)
	p.b.verifyTransaction(r, produceSupport(p.r.Version), func(errs []error) { answered <- errs })
	for i, err := range <-answered {
		if err != nil {
			e := asked[i]
			e.unverified = p.produceError(err)
			denyVerification(e.partition, producer, e.guard, e.unverified)
		}
	}
}

// startVerification tells whether the coordinator has to be asked about e.
func (p *produce) startVerification(e *produceEntry) bool {
	if e.refused != nil {
		return false
	}
	if err := p.find(e); err != nil {
		return false // append finds the same
	}
	b := batch.Batch(e.records)
	bumps := produceSupport(p.r.Version) == addsPartitionsToo
	guard, open, err := e.partition.StartVerification(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), bumps)
	e.guard, e.unverified = guard, err
	return err == nil && !open
}

// explainedError is one whose text the client is told.
type explainedError struct {
	code *kerr.Error
	text string
}

func (e *explainedError) Error() string { return e.text }
func (e *explainedError) Unwrap() error { return e.code }

// produceError is the answer for a partition that the coordinator did not confirm (Kafka's ReplicaManager): what old
// clients would not retry becomes an error that they do.
func (p *produce) produceError(err error) error {
	var code *kerr.Error
	if !errors.As(err, &code) {
		return err
	}
	switch code {
	case kerr.InvalidTxnState:
		return &explainedError{code, "Partition was not added to the transaction"}
	case kerr.ConcurrentTransactions:
		if produceSupport(p.r.Version) == addsPartitionsToo {
			return err
		}
	case kerr.NetworkException, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator:
	default:
		return err
	}
	return &explainedError{kerr.NotEnoughReplicas,
		fmt.Sprintf("Unable to verify the partition has been added to the transaction. Underlying error: %s", code.Message)}
}
