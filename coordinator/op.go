package coordinator

// Machine is the state of one shard, rebuilt from its log. All its methods run on the goroutine that owns the shard.
type Machine interface {
	// Replay applies one record, while loading and again right after each append. A nil value is a tombstone; key and
	// value are valid during the call. A record of a kind it does not know it ignores.
	Replay(at Position, key, value []byte) error
	// EndTransaction follows the records of a producer's transaction: they count, or never were.
	EndTransaction(producerID int64, committed bool)
	// Loaded is called once, after the last record of the log: the place to set timers.
	Loaded(tx *Tx)
	// Unloaded is called once, when leadership is lost: it answers what is parked, with errors; its replies are
	// released at once, its records dropped.
	Unloaded(tx *Tx)
}

// Position says where a replayed record lies and whose batch it came in.
type Position struct {
	Offset     int64
	ProducerID int64 // of the transaction that the record belongs to, else batch.NoProducerID
}

// Op is one operation on a shard.
type Op[M Machine] struct {
	// Key names the part of the state that Run reads and changes; operations of different keys can share an append.
	// "" is the whole state.
	Key string
	// Blind operations do not read what other blind operations of the same key write, so these can share one too.
	Blind bool
	// Continues marks an operation that the shard itself sends, to go on with what it began. The bounds of the shard
	// never refuse it: no client would repeat it. The shard must bound how many it has under way.
	Continues bool
	// Background operations never run on the goroutine that submits them: an idle shard gets a goroutine of its own.
	Background bool
	// Run decides. It is called exactly once, unless Refuse is.
	Run func(M, *Tx)
	// Refuse is called instead of Run when the shard cannot serve. An operation that Continues is refused only because
	// its shard's leadership has ended; the next leader begins anew with what the log says.
	Refuse func(error)
}
