// Package history decides whether what clients saw of a Kafka cluster is what Kafka promises. A history is a list of
// operations of clients: sends of unique values, polls, transactions, offset commits, crashes, each with its begin,
// its end, and an outcome that may be unknown. Check finds lost writes, duplicates, reads of aborted or uncommitted
// values, torn transactions, skipped polls, reorderings and values that changed. The classes of anomalies are those
// of Jepsen's analyses of Kafka, Redpanda and Bufstream.
package history

import "fmt"

// Kind says what an Op is.
type Kind string

// The kinds, and the fields that they use besides Client, BeganNs and EndedNs.
const (
	Client Kind = "client" // a producer or consumer starts: Guarantee, or Isolation and Group
	Send   Kind = "send"   // Outcome, At, Value; Txn; CopyOf; At.Offset when ok
	Poll   Kind = "poll"   // Records, in the order of delivery
	End    Kind = "end"    // a transaction's end: Txn, Commit, Outcome; Offsets and Group that are committed with it
	Commit Kind = "commit" // committed offsets: Group, Offsets, Outcome
	Assign Kind = "assign" // the consumer goes on at Offsets in their partitions; a member of a Group found them committed
	Crash  Kind = "crash"  // the client is gone without a goodbye
	Final  Kind = "final"  // a reader from the first offset to the end is done: Offsets are the ends that it was to reach, Outcome whether it did
	Fault  Kind = "fault"  // what was done to the cluster: Note
)

// Outcome of an operation as its client knows it.
type Outcome string

// A fail definitely did not happen; an unknown may have happened, or may still happen.
const (
	OK      Outcome = "ok"
	Fail    Outcome = "fail"
	Unknown Outcome = "unknown"
)

// Guarantee of a producer.
type Guarantee string

// The guarantees: a plain acks=all producer may write a value twice.
const (
	Plain         Guarantee = "plain"
	Idempotent    Guarantee = "idempotent"
	Transactional Guarantee = "transactional"
)

// Partition names one.
type Partition struct {
	Topic string `json:"topic"`
	ID    int32  `json:"id"`
}

func (p Partition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.ID) }

// Record is a value at a place. A Key means that the topic is compacted: a later value of the key replaces it.
type Record struct {
	Partition
	Offset int64  `json:"offset"`
	Value  string `json:"value"`
	Key    string `json:"key,omitempty"`
}

// Position is an offset of a partition: the next to read.
type Position struct {
	Partition
	Offset int64 `json:"offset"`
}

// Op is one operation. Times are nanoseconds of one monotonic clock.
type Op struct {
	Kind    Kind   `json:"kind"`
	Client  string `json:"client"` // unique for each incarnation of a client
	BeganNs int64  `json:"beganNs"`
	EndedNs int64  `json:"endedNs"`

	Outcome   Outcome    `json:"outcome,omitempty"`
	At        *Record    `json:"at,omitempty"`     // of a send
	CopyOf    string     `json:"copyOf,omitempty"` // the value read elsewhere that a send passes on exactly once
	Txn       string     `json:"txn,omitempty"`    // unique for each transaction
	Commit    bool       `json:"commit,omitempty"`
	Records   []Record   `json:"records,omitempty"`
	Offsets   []Position `json:"offsets,omitempty"`
	Group     string     `json:"group,omitempty"`
	Guarantee Guarantee  `json:"guarantee,omitempty"`
	Committed bool       `json:"committed,omitempty"` // of a client: it reads with isolation.level=read_committed
	Note      string     `json:"note,omitempty"`
}
