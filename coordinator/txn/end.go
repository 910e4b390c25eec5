package txn

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
)

// EndRequest commits or aborts.
type EndRequest struct {
	ID       string
	Producer ProducerEpoch
	Commit   bool
	// ClientVersion is the client's transaction.version: from 2 on the answer has the producer's next epoch.
	ClientVersion int16
}

// End answers once the outcome is decided; the markers follow.
func (s *Service) End(r EndRequest, answer func(ProducerEpoch, error)) {
	if r.ID == "" {
		answer(NoProducer, kerr.InvalidRequest)
		return
	}
	s.end(r, noProducerID, answer)
}

// end decides with freshID, a producer id that nobody has; without one it comes back with one when it needs it.
func (s *Service) end(r EndRequest, freshID int64, answer func(ProducerEpoch, error)) {
	failed := func(err error) { answer(NoProducer, err) }
	s.submit(r.ID, func(sh *shard, tx *coordinator.Tx) {
		e := sh.ids[r.ID]
		done, err := e.checkEnd(r)
		switch {
		case err != nil:
			replyError(tx, err, failed)
		case done:
			sh.replyProducer(tx, e.producer(), answer)
		default:
			if sh.end(tx, e, r, freshID, answer) == errNeedsID {
				s.withID(func(id int64) { s.end(r, id, answer) }, failed)
			}
		}
	}, failed)
}

func (sh *shard) end(tx *coordinator.Tx, e *entry, r EndRequest, freshID int64, answer func(ProducerEpoch, error)) error {
	nextID := noProducerID
	if r.ClientVersion >= epochBumpVersion && epochExhausted(e.epoch) {
		if freshID == noProducerID {
			return errNeedsID
		}
		nextID = freshID
	}
	m := e.metadata.prepare(r.Commit, r.ClientVersion, nextID, tx.NowMs)
	completed := m.complete(tx.NowMs)
	sh.prepared(tx, e, m)
	sh.replyProducer(tx, completed.producer(), answer)
	return nil
}

func (sh *shard) replyProducer(tx *coordinator.Tx, p ProducerEpoch, answer func(ProducerEpoch, error)) {
	tx.Reply(func(err error) {
		if err != nil {
			p = NoProducer
		}
		answer(p, err)
	})
}

// checkEnd tells whether the transaction is done already as the producer asks, or why it cannot be ended so.
func (e *entry) checkEnd(r EndRequest) (done bool, err error) {
	if r.ClientVersion >= epochBumpVersion {
		return e.checkEndBumping(r)
	}
	if err := e.check(r.Producer); err != nil {
		return false, err
	}
	switch e.state {
	case Ongoing:
		return false, nil
	case PrepareCommit, PrepareAbort:
		return false, kerr.ConcurrentTransactions
	case CompleteCommit:
		done = r.Commit
	case CompleteAbort:
		done = !r.Commit
	}
	if !done {
		return false, kerr.InvalidTxnState
	}
	return true, nil
}

// checkEndBumping is checkEnd for clients whose epoch grows with each transaction: a repeated request is known by the
// epoch before, and an abort where nothing is open is a transaction of its own, so that the client gets a new epoch.
func (e *entry) checkEndBumping(r EndRequest) (done bool, err error) {
	if e == nil {
		return false, kerr.InvalidProducerIDMapping
	}
	if e.state.ending() {
		return false, kerr.ConcurrentTransactions
	}
	overflown := e.prevProducerID == r.Producer.ID && r.Producer.Epoch == math.MaxInt16-1 && e.epoch == 0
	repeated := overflown || int32(e.epoch) == int32(r.Producer.Epoch)+1
	switch {
	case e.producerID != r.Producer.ID && !overflown:
		return false, kerr.InvalidProducerIDMapping
	case e.epoch != r.Producer.Epoch && !(repeated && e.completed()):
		return false, kerr.ProducerFenced
	case e.state == Ongoing:
		return false, nil
	case repeated && e.state == CompleteCommit:
		return r.Commit, invalidUnless(r.Commit)
	case repeated && e.state == CompleteAbort:
		return !r.Commit, invalidUnless(!r.Commit)
	}
	return false, invalidUnless(!r.Commit)
}

func (e *entry) completed() bool { return e.state == CompleteCommit || e.state == CompleteAbort }

func invalidUnless(ok bool) error {
	if ok {
		return nil
	}
	return kerr.InvalidTxnState
}
