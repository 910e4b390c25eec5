package txn

import (
	"math"

	"grete/coordinator"
)

// maxTombstones bounds what one append of expiry holds.
const maxTombstones = 1000

// watchTimeouts looks for transactions that have timed out, as long as one is open.
func (sh *shard) watchTimeouts(tx *coordinator.Tx) {
	if !sh.timeouts.Set() {
		sh.timeouts.Fire = sh.abortTimedOut
		tx.Schedule(&sh.timeouts, sh.s.o.Config.AbortIntervalMs)
	}
}

func (sh *shard) abortTimedOut(tx *coordinator.Tx) {
	open := false
	for id, e := range sh.ids {
		if e.state != Ongoing {
			continue
		}
		open = true
		if e.timedOut(tx.NowMs) {
			sh.s.o.Log.Info().Str("transactionalId", id).Int64("producerId", e.producerID).Msg("transaction timed out, and is aborted")
			tx.Then(id, func(tx *coordinator.Tx) { sh.abort(tx, id, e.producer(), noProducerID) })
		}
	}
	if open {
		tx.Schedule(&sh.timeouts, sh.s.o.Config.AbortIntervalMs)
	}
}

// timedOut: transactions of a two-phase commit have no timeout (KIP-939).
func (e *entry) timedOut(nowMs int64) bool {
	return e.timeoutMs != math.MaxInt32 && e.startMs+int64(e.timeoutMs) < nowMs
}

// abort ends a transaction of p that is still open.
func (sh *shard) abort(tx *coordinator.Tx, id string, p ProducerEpoch, freshID int64) {
	e := sh.ids[id]
	if e == nil || e.state != Ongoing || e.producer() != p {
		return
	}
	// A failure leaves it open: the next round tries again.
	if sh.fence(tx, e, freshID, func(error) {}) == errNeedsID {
		sh.s.withID(func(fresh int64) {
			sh.proceed(id, func(tx *coordinator.Tx) { sh.abort(tx, id, p, fresh) })
		}, func(error) {})
	}
}

// expire forgets transactional ids that nobody has used for transactional.id.expiration.ms.
func (sh *shard) expire(tx *coordinator.Tx) {
	n := 0
	for id, e := range sh.ids {
		if n == maxTombstones {
			tx.OnApplied(func(tx *coordinator.Tx) { tx.Then("", sh.expire) })
			break
		}
		if e.state.idle() && len(e.waiting) == 0 && e.updateMs <= tx.NowMs-sh.s.o.Config.IDExpirationMs {
			tx.Append(recordKey(id), nil)
			n++
		}
	}
	tx.Schedule(&sh.expiry, sh.s.o.Config.ExpiryIntervalMs)
}
