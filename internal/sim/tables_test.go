package sim

import (
	"fmt"
	"hash/maphash"
	"strings"

	"grete/logstore"
	"grete/protocol/batch"
)

// tableTopic is compacted, as internal topics are: of a key the last value stays, at its offset (invariant 10).
const (
	tableTopic = "table"
	tableKeys  = 12
)

// keyOf is the key of a value: of tables, what comes before a bar.
func keyOf(topic, value string) string {
	if key, _, ok := strings.Cut(value, "|"); ok && topic == tableTopic {
		return key
	}
	return ""
}

func compacted(id logstore.ID) bool {
	return id.Topic == tableTopic || strings.HasPrefix(id.Topic, "__") && id.Topic != "__cluster_metadata"
}

// row is a record of a compacted log.
type row struct {
	offset      int64
	key, value  uint64
	producer    int64 // of a transaction, else -1
	ends        bool  // a marker
	commits     bool
	last        int64 // of its batch
	valueString string
}

// table is what is known of a compacted partition.
type table struct {
	rows map[int64]row
	last map[uint64]int64 // offset of each key's last committed value
	open map[int64][]row  // of transactions, by producer
	next int64            // everything below is in rows
}

func newTable() *table {
	return &table{rows: map[int64]row{}, last: map[uint64]int64{}, open: map[int64][]row{}}
}

// rowsOf are the records of a batch; control batches give one.
func (c *checks) rowsOf(b batch.Batch) (out []row, err error) {
	for r, err := range b.Records() {
		if err != nil {
			return out, err
		}
		w := row{offset: r.Offset, producer: -1, last: b.LastOffset(), key: maphash.Bytes(c.seed, r.Key), value: maphash.Bytes(c.seed, r.Value)}
		if b.Transactional() {
			w.producer = b.ProducerID()
		}
		if b.Control() {
			w.ends, w.commits = true, len(r.Key) >= 4 && r.Key[3] == 1
		} else {
			w.valueString = string(r.Value)
		}
		out = append(out, w)
	}
	return out, nil
}

// apply takes in what is new below hw.
func (t *table) apply(rows []row, hw int64) {
	for _, r := range rows {
		if r.offset < t.next || r.last >= hw {
			continue
		}
		t.rows[r.offset] = r
		switch {
		case r.ends && r.commits:
			for _, in := range t.open[r.producer] {
				t.last[in.key] = max(t.last[in.key], in.offset)
			}
			delete(t.open, r.producer)
		case r.ends:
			delete(t.open, r.producer)
		case r.producer >= 0:
			t.open[r.producer] = append(t.open[r.producer], r)
		default:
			t.last[r.key] = max(t.last[r.key], r.offset)
		}
	}
	t.next = max(t.next, hw)
}

// compaction is invariant 10: what a replica has at an offset is what was there, and each key's last value is there.
func (c *checks) compaction(_ partitionID, k *known) string {
	if k.table == nil {
		return ""
	}
	for _, r := range k.replicas {
		k.table.apply(r.rows, r.rowsHW)
	}
	for n, r := range k.replicas {
		there := map[int64]bool{}
		for _, w := range r.rows {
			there[w.offset] = true
			was, ok := k.table.rows[w.offset]
			if ok && w.last < r.rowsHW && (was.key != w.key || was.value != w.value) {
				return fmt.Sprintf("10: n%d has another record at %d than was committed there", n, w.offset)
			}
		}
		for _, offset := range k.table.last {
			if r.whole && offset < r.rowsHW && offset >= r.log.StartOffset() && !there[offset] {
				return fmt.Sprintf("10: n%d has not the last value of a key, at %d", n, offset)
			}
		}
		if r.whole {
			c.w.done.tablesRead++
			c.w.done.rowsGone += int(r.rowsHW) - len(there)
		}
		r.rows, r.whole = nil, false
	}
	return ""
}

// foundRow is found for a table: the value is there, or its key has a later one.
func (k *known) foundRow(c *checks, a acknowledged) (found, lost bool) {
	if a.offset >= k.table.next {
		return false, false
	}
	if w, ok := k.table.rows[a.offset]; ok {
		return w.valueString == a.value, w.valueString != a.value
	}
	later := k.table.last[maphash.String(c.seed, keyOf(k.name.Topic, a.value))] > a.offset
	return later, !later
}

// tableValues are the next values of a table: with keys, of which there are few.
func (k *client) tableValues() []string {
	values := k.values()
	for i, v := range values {
		values[i] = fmt.Sprintf("k%d|%s", k.rng.IntN(tableKeys), v)
	}
	return values
}
