package txn

import (
	"errors"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
)

// prepared appends m, the decided outcome of e's transaction; the markers go out once that is committed.
func (sh *shard) prepared(tx *coordinator.Tx, e *entry, m metadata) {
	sh.transit(tx, e.id, m, func(tx *coordinator.Tx, e *entry) {
		e.unsent = e.partitions
		sh.send(tx, e)
	})
}

// send writes the markers that are missing, once the outcome is committed. Whatever keeps it from that, it tries again.
func (sh *shard) send(tx *coordinator.Tx, e *entry) {
	e.attempt++
	a := attempt{sh, e, e.attempt, e.unsent}
	m, epoch := e.metadata, tx.Epoch
	tx.Reply(func(err error) {
		if err != nil {
			a.submit(func(tx *coordinator.Tx) { sh.resendLater(tx, e) })
			return
		}
		a.write(&m, epoch)
	})
}

// attempt is one try to write a transaction's markers. An answer that comes when another coordinator, or the next
// transaction, is at work means nothing any more.
type attempt struct {
	sh         *shard
	e          *entry
	number     int64
	partitions []Partition
}

func (a attempt) submit(run func(*coordinator.Tx)) {
	a.sh.proceed(a.e.id, func(tx *coordinator.Tx) {
		if a.sh.ids[a.e.id] == a.e && a.e.attempt == a.number {
			run(tx)
		}
	})
}

func (a attempt) write(m *metadata, coordinatorEpoch int32) {
	done := func(results []error) {
		a.submit(func(tx *coordinator.Tx) { a.sh.written(tx, a.e, a.partitions, results) })
	}
	if len(a.partitions) == 0 {
		done(nil)
		return
	}
	a.sh.s.o.Markers.WriteMarkers(coordinator.Marker{
		Producer:         coordinator.Producer{ID: m.producerID, Epoch: m.epoch},
		CoordinatorEpoch: coordinatorEpoch, Commit: m.state == PrepareCommit, TransactionVersion: int8(m.clientVersion),
	}, a.partitions, done)
}

// written takes note of markers, and completes the transaction after the last.
func (sh *shard) written(tx *coordinator.Tx, e *entry, partitions []Partition, results []error) {
	var missing []Partition
	for i, err := range results {
		switch {
		case err == nil || obsolete(err):
		case errors.Is(err, kerr.TransactionCoordinatorFenced):
			return // a newer coordinator ends this transaction; leadership is about to be lost here
		default:
			sh.s.unwritten.Write(&sh.s.o.Log, zerolog.InfoLevel, func(line *zerolog.Event) {
				line.Err(err).Str("transactionalId", e.id).Str("topic", partitions[i].Topic).
					Int32("partition", partitions[i].Index).Msg("transaction marker failed, and is sent again")
			})
			missing = append(missing, partitions[i])
		}
	}
	if e.unsent = missing; len(missing) > 0 {
		sh.resendLater(tx, e)
		return
	}
	sh.complete(tx, e)
}

// obsolete: the partition has seen a newer epoch of the producer, so that this transaction has ended there.
func obsolete(err error) bool { return errors.Is(err, kerr.InvalidProducerEpoch) }

func (sh *shard) resendLater(tx *coordinator.Tx, e *entry) {
	e.retry.Fire = func(tx *coordinator.Tx) { sh.send(tx, e) }
	tx.Schedule(&e.retry, sh.s.o.Config.MarkerRetryMs)
}

func (sh *shard) complete(tx *coordinator.Tx, e *entry) {
	sh.transit(tx, e.id, e.metadata.complete(tx.NowMs), func(tx *coordinator.Tx, e *entry) { sh.release(tx, e) })
	tx.OnFailed(func(tx *coordinator.Tx, _ error) { sh.resendLater(tx, e) })
}
