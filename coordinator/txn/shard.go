package txn

import (
	"grete/coordinator"
)

// shard is the transactional ids of one partition of __transaction_state.
type shard struct {
	s         *Service
	partition int32
	ids       map[string]*entry

	timeouts coordinator.Timer // waits while a transaction is open
	expiry   coordinator.Timer
}

// entry is one transactional id.
type entry struct {
	id string
	metadata
	// unsent are the partitions that have no marker yet, of a transaction that is ending.
	unsent  []Partition
	attempt int64 // to write markers: answers to others do not count
	retry   coordinator.Timer
	// waiting are requests that the end of the transaction lets go on.
	waiting []*waiter
}

func newShard(s *Service, partition int32) *shard {
	return &shard{s: s, partition: partition, ids: make(map[string]*entry)}
}

// proceed goes on with what sh began for id. It does nothing once sh no longer leads: the next leader takes the
// transaction up again when it has loaded.
func (sh *shard) proceed(id string, run func(*coordinator.Tx)) {
	sh.s.rt.Submit(sh.partition, op{
		Key: id, Continues: true,
		Run: func(now *shard, tx *coordinator.Tx) {
			if now == sh {
				run(tx)
			}
		},
		Refuse: func(error) {},
	})
}

// Replay applies one record (coordinator.Machine).
func (sh *shard) Replay(_ coordinator.Position, key, value []byte) error {
	id, ok, err := readKey(key)
	if err != nil || !ok {
		return err
	}
	if value == nil {
		delete(sh.ids, id)
		return nil
	}
	m, ok, err := readValue(value)
	if err == nil && ok {
		sh.entry(id).metadata = m
	}
	return err
}

func (sh *shard) entry(id string) *entry {
	e := sh.ids[id]
	if e == nil {
		e = &entry{id: id}
		sh.ids[id] = e
	}
	return e
}

// EndTransaction: no producer's transaction writes here (coordinator.Machine).
func (sh *shard) EndTransaction(int64, bool) {}

// Loaded takes up what the coordinator before left: markers to send, timeouts to watch (coordinator.Machine).
func (sh *shard) Loaded(tx *coordinator.Tx) {
	for _, e := range sh.ids {
		switch {
		case e.state.ending():
			e.unsent = e.partitions
			sh.send(tx, e)
		case e.state == Ongoing:
			sh.watchTimeouts(tx)
		}
	}
	sh.expiry.Fire = sh.expire
	tx.Schedule(&sh.expiry, sh.s.o.Config.ExpiryIntervalMs)
}

// Unloaded answers what waits (coordinator.Machine).
func (sh *shard) Unloaded(tx *coordinator.Tx) {
	for _, e := range sh.ids {
		for _, w := range e.waiting {
			tx.Reply(func(error) { w.refuse(coordinator.ErrNotCoordinator) })
		}
		e.waiting = nil
	}
}

// transit appends m and, once that is done, makes it the state of id. after may add answers.
func (sh *shard) transit(tx *coordinator.Tx, id string, m metadata, after func(*coordinator.Tx, *entry)) {
	tx.AppendApplied(recordKey(id), m.value(valueVersion(sh.s.o.TransactionVersion())), func(tx *coordinator.Tx) {
		e := sh.entry(id)
		e.metadata = m
		if after != nil {
			after(tx, e)
		}
	})
}
