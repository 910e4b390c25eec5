package txn

import (
	"errors"

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
	m, unsent, epoch := e.metadata, e.unsent, tx.Epoch
	tx.Reply(func(err error) {
		if err != nil {
			sh.s.submit(e.id, func(sh *shard, tx *coordinator.Tx) { sh.resendLater(tx, e.id) }, gone)
			return
		}
		sh.s.writeMarkers(e.id, &m, unsent, epoch)
	})
}

// gone: the shard is led elsewhere, or loads anew: there the transaction is taken up again.
func gone(error) {}

func (s *Service) writeMarkers(id string, m *metadata, partitions []Partition, coordinatorEpoch int32) {
	producer := m.producer()
	done := func(results []error) {
		s.submit(id, func(sh *shard, tx *coordinator.Tx) { sh.written(tx, id, producer, partitions, results) }, gone)
	}
	if len(partitions) == 0 {
		done(nil)
		return
	}
	s.o.Markers.WriteMarkers(coordinator.Marker{
		Producer:         coordinator.Producer{ID: m.producerID, Epoch: m.epoch},
		CoordinatorEpoch: coordinatorEpoch, Commit: m.state == PrepareCommit, TransactionVersion: int8(m.clientVersion),
	}, partitions, done)
}

// written takes note of markers, and completes the transaction after the last.
func (sh *shard) written(tx *coordinator.Tx, id string, p ProducerEpoch, partitions []Partition, results []error) {
	e := sh.ids[id]
	if e == nil || !e.state.ending() || e.producer() != p {
		return // of an attempt before the shard was loaded anew
	}
	var missing []Partition
	for i, err := range results {
		switch {
		case err == nil || obsolete(err):
		case errors.Is(err, kerr.TransactionCoordinatorFenced):
			return // a newer coordinator ends this transaction; leadership is about to be lost here
		default:
			sh.s.o.Log.Info().Err(err).Str("transactionalId", id).Str("topic", partitions[i].Topic).
				Int32("partition", partitions[i].Index).Msg("transaction marker failed, and is sent again")
			missing = append(missing, partitions[i])
		}
	}
	if e.unsent = missing; len(missing) > 0 {
		sh.resendLater(tx, id)
		return
	}
	sh.complete(tx, e)
}

// obsolete: the partition has seen a newer epoch of the producer, so that this transaction has ended there.
func obsolete(err error) bool { return errors.Is(err, kerr.InvalidProducerEpoch) }

func (sh *shard) resendLater(tx *coordinator.Tx, id string) {
	e := sh.ids[id]
	if e == nil || !e.state.ending() {
		return
	}
	e.retry.Fire = func(tx *coordinator.Tx) {
		if e.state.ending() {
			sh.send(tx, e)
		}
	}
	tx.Schedule(&e.retry, sh.s.o.Config.MarkerRetryMs)
}

func (sh *shard) complete(tx *coordinator.Tx, e *entry) {
	sh.transit(tx, e.id, e.metadata.complete(tx.NowMs), func(tx *coordinator.Tx, e *entry) { sh.release(tx, e) })
	tx.OnFailed(func(tx *coordinator.Tx, _ error) { sh.resendLater(tx, e.id) })
}
