package coordinator

// Tx is one operation's decision: what it appends, what happens once that is in the log, and who is answered once it
// is committed. An operation must change nothing that its records describe: Replay does that after the append.
// State that is not in the log (parked requests, timers, members that are still joining) it may change at once.
type Tx struct {
	NowMs int64
	Epoch int32 // of the leadership that the shard runs under

	timers    *timers
	records   []record
	producer  *Producer // whose transaction the records belong to
	marker    *Marker   // appended instead of records
	sizeBytes int
	applied   []func(*Tx)
	failed    []func(*Tx, error)
	replies   []Reply
	after     []next
	later     []next
}

// Reply answers a request: with nil once everything that the answer rests on is committed, else with the reason.
type Reply func(error)

type record struct {
	key, value []byte
	replay     bool
}

type next struct {
	key string
	run func(*Tx)
}

// recordOverheadBytes is more than a record's framing takes in a batch.
const recordOverheadBytes = 32

// Append adds a record (nil value: a tombstone), which is replayed on the state once it is in the log.
func (tx *Tx) Append(key, value []byte) { tx.add(record{key, value, true}) }

// AppendApplied adds a record whose effect apply has on the live state: replaying it would build the state anew and
// lose what is not in the log.
func (tx *Tx) AppendApplied(key, value []byte, apply func(*Tx)) {
	tx.add(record{key, value, false})
	tx.applied = append(tx.applied, apply)
}

func (tx *Tx) add(r record) {
	tx.records = append(tx.records, r)
	tx.sizeBytes += len(r.key) + len(r.value) + recordOverheadBytes
}

// OnApplied is called when the operation's records are in the log and applied; its operation must have some.
func (tx *Tx) OnApplied(f func(*Tx)) { tx.applied = append(tx.applied, f) }

// OnFailed is called when the append failed, before the replies get the error; its Tx is another operation.
func (tx *Tx) OnFailed(f func(*Tx, error)) { tx.failed = append(tx.failed, f) }

// Reply releases r when all that is in the log now, with this operation's records, is committed.
func (tx *Tx) Reply(r Reply) { tx.replies = append(tx.replies, r) }

// Then runs another operation on the state of key after this one, with an append of its own.
func (tx *Tx) Then(key string, run func(*Tx)) { tx.after = append(tx.after, next{key, run}) }

// Later runs another operation on the state of key in a later round: requests that wait run before it. A loss of
// leadership drops it.
func (tx *Tx) Later(key string, run func(*Tx)) { tx.later = append(tx.later, next{key, run}) }

// Schedule sets t to fire in delayMs, whatever it was set to before.
func (tx *Tx) Schedule(t *Timer, delayMs int64) { tx.timers.schedule(t, tx.NowMs+delayMs) }

// Cancel stops t.
func (tx *Tx) Cancel(t *Timer) { tx.timers.cancel(t) }
