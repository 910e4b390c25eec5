// Package txn is the transaction coordinator: transactional ids and their transactions on shards of
// __transaction_state. A shard's state is pure: requests and timers decide on it under coordinator.Tx, its log rebuilds
// it.
package txn

// State of a transaction, numbered as in the log (Kafka's TransactionState).
type State int8

const (
	Empty State = iota
	Ongoing
	PrepareCommit
	PrepareAbort
	CompleteCommit
	CompleteAbort
	Dead              // never in the log here: a forgotten id has a tombstone
	PrepareEpochFence // never in the log: fencing and PrepareAbort are one step
)

var stateNames = [...]string{
	"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
}

func (s State) String() string { return stateNames[s] }

func (s State) known() bool { return s >= 0 && int(s) < len(stateNames) }

func stateOf(name string) (State, bool) {
	for i, n := range stateNames {
		if n == name {
			return State(i), true
		}
	}
	return 0, false
}

// ending: the outcome is decided, and markers are on their way to the partitions.
func (s State) ending() bool { return s == PrepareCommit || s == PrepareAbort }

// idle: nothing is open, and the id may be forgotten.
func (s State) idle() bool { return s == Empty || s == CompleteCommit || s == CompleteAbort }
