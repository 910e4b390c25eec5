package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"grete/protocol/batch"
)

// cleanedTxns follows transactions while a log is read from one end of a range to the other: which batches are of
// aborted transactions, and which markers have nothing left that they decide (Kafka's CleanedTransactionMetadata).
type cleanedTxns struct {
	pending   []AbortedTxn // not begun yet, by first offset
	aborted   map[int64]*abortedTxnSeen
	committed map[int64]bool // producers with batches of a transaction that will commit
	// retained are the aborted transactions whose marker must stay, as batches of it were seen: the entries of the new
	// transaction index.
	retained []AbortedTxn
}

type abortedTxnSeen struct {
	txn  AbortedTxn
	data bool // batches of it were seen
}

// newCleanedTxns takes the aborted transactions of the range.
func newCleanedTxns(aborted []AbortedTxn) *cleanedTxns {
	slices.SortFunc(aborted, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return &cleanedTxns{pending: aborted, aborted: map[int64]*abortedTxnSeen{}, committed: map[int64]bool{}}
}

func (c *cleanedTxns) beginUpTo(offset int64) {
	for len(c.pending) > 0 && c.pending[0].FirstOffset <= offset {
		txn := c.pending[0]
		c.pending = c.pending[1:]
		if c.aborted[txn.ProducerID] == nil {
			c.aborted[txn.ProducerID] = &abortedTxnSeen{txn: txn}
		}
	}
}

// data takes the next batch that is no control batch; true: it is of an aborted transaction.
func (c *cleanedTxns) data(b batch.Batch) bool {
	c.beginUpTo(b.LastOffset())
	if !b.Transactional() {
		return false
	}
	if seen := c.aborted[b.ProducerID()]; seen != nil {
		seen.data = true
		return true
	}
	c.committed[b.ProducerID()] = true
	return false
}

// control takes the next control batch; true: nothing is left that it decides.
func (c *cleanedTxns) control(b batch.Batch) bool {
	c.beginUpTo(b.LastOffset())
	if b.RecordCount() == 0 {
		return true // emptied before
	}
	marker, err := parseEndMarker(b)
	if err != nil {
		return false // another kind of control record
	}
	pid := b.ProducerID()
	if marker.commit {
		undecided := c.committed[pid]
		delete(c.committed, pid)
		return !undecided
	}
	seen := c.aborted[pid]
	delete(c.aborted, pid)
	if seen == nil || !seen.data {
		return true
	}
	c.retained = append(c.retained, seen.txn)
	return false
}

// takeRetained hands over the entries for the segment that ends here.
func (c *cleanedTxns) takeRetained() []AbortedTxn {
	r := c.retained
	c.retained = nil
	return r
}

// abortedBetween are the aborted transactions that overlap [from, to), of whatever segment their marker is in.
func (l *Log) abortedBetween(segments []*segment, from, to int64) ([]AbortedTxn, error) {
	first := reader{segments: segments}.segmentOf(from)
	txns, err := l.collectAborted(segments[first:], from, to)
	if errors.Is(err, errStaleView) {
		err = fmt.Errorf("%w: %w", errCleanAborted, err)
	}
	return txns, err
}
