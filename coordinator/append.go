package coordinator

import (
	"sync/atomic"

	"grete/protocol/batch"
)

// pending is the operations that have decided and wait for their common append.
type pending[M Machine] struct {
	txs       []*Tx
	keys      map[string]bool // true: only blind operations touched it
	sizeBytes int
}

// conflicts tells whether an operation on key could miss what is pending.
func (p *pending[M]) conflicts(key string, blind bool) bool {
	if len(p.txs) == 0 {
		return false
	}
	if _, whole := p.keys[""]; whole || key == "" {
		return true
	}
	onlyBlind, touched := p.keys[key]
	return touched && (!blind || !onlyBlind)
}

func (p *pending[M]) add(tx *Tx, key string, blind bool) {
	if p.keys == nil {
		p.keys = make(map[string]bool)
	}
	onlyBlind, touched := p.keys[key]
	p.keys[key] = blind && (!touched || onlyBlind)
	p.txs = append(p.txs, tx)
	p.sizeBytes += tx.sizeBytes
}

func (p *pending[M]) take() []*Tx {
	txs := p.txs
	clear(p.keys)
	p.txs, p.sizeBytes = nil, 0
	return txs
}

// flushAll appends what is pending, and what that leads to.
func (s *shard[M]) flushAll() {
	for len(s.pending.txs) > 0 {
		s.flush()
	}
}

// flush appends everything pending as one batch and applies it, or tells the operations that they failed.
func (s *shard[M]) flush() {
	txs := s.pending.take()
	if len(txs) == 0 {
		return
	}
	var records []batch.Record
	for _, tx := range txs {
		for _, r := range tx.records {
			records = append(records, batch.Record{Offset: int64(len(records)), TimestampMs: s.nowMs, Key: r.key, Value: r.value})
		}
	}
	end, err := s.append(txs, records)
	if err != nil {
		s.rollBack(txs, err)
		return
	}
	s.end = end
	s.apply(txs, end-int64(len(records)))
}

func (s *shard[M]) append(txs []*Tx, records []batch.Record) (end int64, err error) {
	if txs[0].alone() {
		return s.appendAlone(txs[0], records)
	}
	b, err := s.build(records, nil)
	if err != nil {
		return 0, err
	}
	return s.log.Append(s.epoch, b)
}

// build makes a batch as Kafka's coordinators do: sequence 0 whoever the producer is, if there is one.
func (s *shard[M]) build(records []batch.Record, p *Producer) (batch.Batch, error) {
	o := batch.BuildOptions{
		LeaderEpoch: s.epoch, Codec: s.rt.opts.Codec, ProducerID: batch.NoProducerID, ProducerEpoch: -1, BaseSequence: 0,
	}
	if p != nil {
		o.ProducerID, o.ProducerEpoch, o.Transactional = p.ID, p.Epoch, true
	}
	return batch.Build(o, records)
}

// apply replays the records from base on and lets the answers wait for them.
func (s *shard[M]) apply(txs []*Tx, base int64) {
	at := Position{Offset: base}
	for _, tx := range txs {
		at.ProducerID = tx.producerID()
		for _, r := range tx.records {
			if r.replay {
				s.replayOwn(at, r)
			}
			at.Offset++
		}
		if m := tx.marker; m != nil {
			s.machine.EndTransaction(m.ID, m.Commit)
		}
		for _, f := range tx.applied {
			f(tx)
		}
		s.release(tx.replies)
	}
	for _, tx := range txs {
		s.follow(tx)
	}
}

// replayOwn applies a record that this shard has just built; that it cannot read it is a fault of the program, and
// the state can no longer be trusted.
func (s *shard[M]) replayOwn(at Position, r record) {
	if err := s.machine.Replay(at, r.key, r.value); err != nil {
		panic(&ShardError{s.partition, s.epoch, at.Offset, err})
	}
}

func (s *shard[M]) rollBack(txs []*Tx, err error) {
	s.rt.opts.Log.Warn().Err(&ShardError{s.partition, s.epoch, s.end, err}).Msg("append failed")
	for _, tx := range txs {
		for _, f := range tx.failed {
			s.decide("", false, func(tx *Tx) { f(tx, err) })
		}
		for _, reply := range tx.replies {
			reply(err)
		}
	}
}

// parked is answers that wait for the high watermark. The log's callback, the timeout and the loss of leadership
// race for it; the first one answers.
type parked struct {
	claimed    atomic.Bool
	count      *atomic.Int32
	deadlineMs int64
	replies    []Reply
}

func (p *parked) answer(err error) {
	if !p.claimed.CompareAndSwap(false, true) {
		return
	}
	p.count.Add(-int32(len(p.replies)))
	for _, reply := range p.replies {
		reply(err)
	}
	p.replies = nil
}

// release answers once everything in the log now is committed, at once where it is: under the shard's own leadership,
// for under another the log may hold other records.
func (s *shard[M]) release(replies []Reply) {
	if len(replies) == 0 {
		return
	}
	p := &parked{count: &s.uncommitted, deadlineMs: s.nowMs + s.rt.opts.CommitTimeoutMs, replies: replies}
	s.uncommitted.Add(int32(len(replies)))
	s.log.AwaitCommitted(s.epoch, s.end, func(err error) {
		if err != nil {
			err = notCoordinator(err)
		}
		p.answer(err)
	})
	if !p.claimed.Load() {
		s.park(p)
	}
}

// park keeps p for the timeout; deadlines are in the order of arrival.
func (s *shard[M]) park(p *parked) {
	s.forget()
	s.parked = append(s.parked, p)
	if !s.commitTimer.Set() {
		s.commitTimer.Fire = s.expireParked
		s.timers.schedule(&s.commitTimer, p.deadlineMs)
	}
}

// forget drops the front of what has been answered.
func (s *shard[M]) forget() {
	n := 0
	for n < len(s.parked) && s.parked[n].claimed.Load() {
		s.parked[n] = nil
		n++
	}
	s.parked = s.parked[n:]
}

func (s *shard[M]) expireParked(tx *Tx) {
	for _, p := range s.parked {
		if p.deadlineMs > tx.NowMs {
			break
		}
		p.answer(ErrCommitTimeout)
	}
	s.forget()
	if len(s.parked) > 0 {
		s.timers.schedule(&s.commitTimer, s.parked[0].deadlineMs)
	}
}
