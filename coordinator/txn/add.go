package txn

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
)

// maxWaiting bounds the requests that wait for one transaction to end; more get CONCURRENT_TRANSACTIONS at once.
const maxWaiting = 64

// AddRequest adds partitions to the transaction of a producer.
type AddRequest struct {
	ID         string
	Producer   ProducerEpoch
	Partitions []Partition
	// ClientVersion is the client's transaction.version.
	ClientVersion int16
	// Wait: while the transaction before is ending the request waits, for at most AddRetryMs.
	Wait bool
}

// waiter is an AddRequest that waits for the transaction before to end.
type waiter struct {
	timer  coordinator.Timer
	run    func(*coordinator.Tx)
	refuse func(error)
}

// AddPartitions begins a transaction, or lets more partitions take part in it.
func (s *Service) AddPartitions(r AddRequest, answer func(error)) {
	if r.ID == "" {
		answer(kerr.InvalidRequest)
		return
	}
	s.submit(r.ID, func(sh *shard, tx *coordinator.Tx) { sh.add(tx, r, answer) }, answer)
}

func (sh *shard) add(tx *coordinator.Tx, r AddRequest, answer func(error)) {
	e := sh.ids[r.ID]
	if e != nil && e.state.ending() {
		if r.Wait && len(e.waiting) < maxWaiting {
			sh.wait(tx, e, r, answer)
			return
		}
		replyError(tx, kerr.ConcurrentTransactions, answer)
		return
	}
	err := e.check(r.Producer)
	if err == nil && !(e.state == Ongoing && e.hasAll(r.Partitions)) {
		sh.transit(tx, r.ID, e.metadata.add(r.Partitions, r.ClientVersion, tx.NowMs), nil)
		sh.watchTimeouts(tx)
	}
	replyError(tx, err, answer)
}

// wait parks the request; complete runs it again.
func (sh *shard) wait(tx *coordinator.Tx, e *entry, r AddRequest, answer func(error)) {
	r.Wait = false
	w := &waiter{run: func(tx *coordinator.Tx) { sh.add(tx, r, answer) }, refuse: answer}
	w.timer.Fire = func(tx *coordinator.Tx) {
		if i := slices.Index(e.waiting, w); i >= 0 {
			e.waiting = slices.Delete(e.waiting, i, i+1)
			replyError(tx, kerr.ConcurrentTransactions, answer)
		}
	}
	tx.Schedule(&w.timer, sh.s.o.Config.AddRetryMs)
	e.waiting = append(e.waiting, w)
}

// release lets those go on who waited for the end of e's transaction.
func (sh *shard) release(tx *coordinator.Tx, e *entry) {
	for _, w := range e.waiting {
		tx.Cancel(&w.timer)
		tx.Then(e.id, w.run)
	}
	e.waiting = nil
}

// VerifyPartitions answers for each partition whether it is in the producer's transaction: nil, or
// TRANSACTION_ABORTABLE (KIP-890 part 1).
func (s *Service) VerifyPartitions(r AddRequest, answer func([]error)) {
	all := func(err error) { answer(slices.Repeat([]error{err}, len(r.Partitions))) }
	if r.ID == "" {
		all(kerr.InvalidRequest)
		return
	}
	s.submit(r.ID, func(sh *shard, tx *coordinator.Tx) {
		found, err := sh.ids[r.ID].verify(r)
		tx.Reply(func(failed error) {
			switch {
			case failed != nil:
				all(failed)
			case err != nil:
				all(err)
			default:
				answer(found)
			}
		})
	}, all)
}

func (e *entry) verify(r AddRequest) ([]error, error) {
	if err := e.check(r.Producer); err != nil {
		return nil, err
	}
	if e.state.ending() {
		return nil, kerr.ConcurrentTransactions
	}
	found := make([]error, len(r.Partitions))
	for i, p := range r.Partitions {
		if !e.has(p) {
			found[i] = kerr.TransactionAbortable
		}
	}
	return found, nil
}
