package txn

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
)

// InitRequest is InitProducerId for a transactional id.
type InitRequest struct {
	ID        string
	TimeoutMs int32
	// Expected is the producer that wants to go on (KIP-360), nil for a new one.
	Expected *ProducerEpoch
	// TwoPhaseCommit and KeepPrepared are KIP-939's.
	TwoPhaseCommit, KeepPrepared bool
}

// InitProducer gives the id's producer a new epoch, which fences the one before. A transaction that is open is aborted
// first: CONCURRENT_TRANSACTIONS tells the client to come again.
func (s *Service) InitProducer(r InitRequest, answer func(ProducerEpoch, error)) {
	if err := s.checkInit(&r); err != nil {
		answer(NoProducer, err)
		return
	}
	s.initProducer(r, noProducerID, answer)
}

func (s *Service) checkInit(r *InitRequest) error {
	switch {
	case r.ID == "":
		return kerr.InvalidRequest
	case r.TwoPhaseCommit && !s.o.Config.TwoPhaseCommit:
		return kerr.TransactionalIDAuthorizationFailed
	case r.KeepPrepared:
		return kerr.UnsupportedVersion
	case r.TwoPhaseCommit:
		r.TimeoutMs = math.MaxInt32
	case r.TimeoutMs <= 0 || r.TimeoutMs > s.o.Config.MaxTimeoutMs:
		return kerr.InvalidTransactionTimeout
	}
	return nil
}

// initProducer decides with freshID, a producer id that nobody has; without one it comes back with one when it needs
// it.
func (s *Service) initProducer(r InitRequest, freshID int64, answer func(ProducerEpoch, error)) {
	s.submit(r.ID, func(sh *shard, tx *coordinator.Tx) {
		err := sh.initProducer(tx, r, freshID, answer)
		switch {
		case err == errNeedsID:
			s.withID(func(id int64) { s.initProducer(r, id, answer) }, func(err error) { answer(NoProducer, err) })
		case err != nil:
			replyError(tx, err, func(err error) { answer(NoProducer, err) })
		}
	}, func(err error) { answer(NoProducer, err) })
}

// initProducer answers, or returns why not.
func (sh *shard) initProducer(tx *coordinator.Tx, r InitRequest, freshID int64, answer func(ProducerEpoch, error)) error {
	e := sh.ids[r.ID]
	switch {
	case e == nil && freshID == noProducerID:
		return errNeedsID
	case e == nil:
		m := newMetadata(freshID)
		return sh.install(tx, r, &m, freshID, answer)
	case e.state.ending():
		return kerr.ConcurrentTransactions
	case r.Expected != nil && !e.accepts(*r.Expected):
		return kerr.ProducerFenced
	case e.state == Ongoing:
		return sh.fence(tx, e, freshID, func(err error) {
			if err == nil {
				err = kerr.ConcurrentTransactions
			}
			answer(NoProducer, err)
		})
	}
	return sh.install(tx, r, &e.metadata, freshID, answer)
}

// accepts tells whether the producer may go on, as far as its id says: the current one, or one whose epochs were used
// up and which has not heard of its new id. The epoch is checked where it is bumped.
func (e *entry) accepts(p ProducerEpoch) bool {
	return e.epoch == noEpoch || p.ID == e.producerID || p.ID == e.prevProducerID && epochExhausted(p.Epoch)
}

func (sh *shard) install(tx *coordinator.Tx, r InitRequest, from *metadata, freshID int64, answer func(ProducerEpoch, error)) error {
	var m metadata
	if epochExhausted(from.epoch) && (r.Expected == nil || r.Expected.Epoch == from.epoch) {
		if freshID == noProducerID {
			return errNeedsID
		}
		m = from.rotate(freshID, r.Expected != nil, r.TimeoutMs, tx.NowMs)
	} else {
		var err error
		if m, err = from.bumpEpoch(r.Expected, r.TimeoutMs, tx.NowMs); err != nil {
			return err
		}
	}
	sh.transit(tx, r.ID, m, nil)
	tx.Reply(func(err error) {
		if err != nil {
			answer(NoProducer, err)
			return
		}
		answer(m.producer(), nil)
	})
	return nil
}

// fence aborts a transaction that is open, under a new epoch; answer gets nil once that is decided.
func (sh *shard) fence(tx *coordinator.Tx, e *entry, freshID int64, answer func(error)) error {
	version := sh.s.o.TransactionVersion()
	nextID := noProducerID
	if version >= epochBumpVersion && epochExhausted(e.epoch) {
		if freshID == noProducerID {
			return errNeedsID
		}
		nextID = freshID
	}
	sh.prepared(tx, e, e.metadata.fence(version, nextID, tx.NowMs))
	tx.Reply(answer)
	return nil
}
