package history

import (
	"cmp"
	"math"
	"slices"
)

// view is what one isolation level shows: 0 read_uncommitted, 1 read_committed.
type view int

const (
	uncommitted view = iota
	committed
	views
)

// index is a history arranged for the checks.
type index struct {
	ops     []*Op // by BeganNs
	clients map[string]*Op
	sends   map[string]*Op // by value
	txns    map[string]*txn
	logs    map[Partition]*partitionLog
	finals  []*final
}

// txn is what is known of one transaction.
type txn struct {
	sends []*Op
	end   *Op // nil: nobody asked for an end
}

// mayCommit is false when nobody asked for a commit, or the commit was refused: then it never commits.
func (t *txn) mayCommit() bool { return t.end != nil && t.end.Commit && t.end.Outcome != Fail }

// committed means that the client was told so.
func (t *txn) committed() bool { return t.mayCommit() && t.end.Outcome == OK }

// partitionLog is what anybody claims of a partition.
type partitionLog struct {
	at      map[int64]string // from acknowledgements and reads
	offsets [views][]int64   // sorted: those that a reader of the view would meet
	txns    bool             // transactions wrote here: control batches take offsets

	compacted bool // offsets may be empty whose keys have later ones
}

// final is a reader that read everything, and what it read in each partition.
type final struct {
	op    *Op
	view  view
	ends  map[Partition]int64
	reads map[Partition][]Record
	saw   map[string]bool
	keys  map[Record]int64 // of compacted partitions: the last offset of a Record with only Partition and Key
}

func buildIndex(ops []Op) *index {
	x := &index{clients: map[string]*Op{}, sends: map[string]*Op{}, txns: map[string]*txn{}, logs: map[Partition]*partitionLog{}}
	for i := range ops {
		x.ops = append(x.ops, &ops[i])
	}
	slices.SortStableFunc(x.ops, func(a, b *Op) int { return cmp.Compare(a.BeganNs, b.BeganNs) })
	for _, op := range x.ops {
		switch op.Kind {
		case Client:
			x.clients[op.Client] = op
		case Send:
			x.addSend(op)
		case End:
			x.txn(op.Txn).end = op
		}
	}
	x.addReads()
	return x
}

func (x *index) addSend(op *Op) {
	x.sends[op.At.Value] = op
	l := x.log(op.At.Partition)
	l.compacted = l.compacted || op.At.Key != ""
	if op.Txn != "" {
		t := x.txn(op.Txn)
		t.sends = append(t.sends, op)
		l.txns = true
	}
	if op.Outcome == OK {
		l.see(uncommitted, op.At.Offset)
	}
}

// addReads takes in what consumers saw. A read_committed reader's offsets are visible to both views.
func (x *index) addReads() {
	readers := map[string]*final{}
	for _, op := range x.ops {
		if op.Kind == Final {
			f := &final{op: op, view: x.viewOf(op.Client), ends: map[Partition]int64{}, reads: map[Partition][]Record{},
				saw: map[string]bool{}, keys: map[Record]int64{}}
			for _, p := range op.Offsets {
				f.ends[p.Partition] = p.Offset
			}
			readers[op.Client] = f
			x.finals = append(x.finals, f)
		}
	}
	for _, op := range x.ops {
		for _, r := range op.Records {
			l := x.log(r.Partition)
			for v := range x.viewOf(op.Client) + 1 {
				l.see(v, r.Offset)
			}
			if f := readers[op.Client]; f != nil {
				f.see(r)
			}
		}
	}
	for _, l := range x.logs {
		for v := range views {
			slices.Sort(l.offsets[v])
			l.offsets[v] = slices.Compact(l.offsets[v])
		}
	}
}

func (f *final) see(r Record) {
	f.reads[r.Partition] = append(f.reads[r.Partition], r)
	f.saw[r.Value] = true
	if r.Key != "" {
		k := Record{Partition: r.Partition, Key: r.Key}
		f.keys[k] = max(f.keys[k], r.Offset)
	}
}

// replaced reports whether the reader saw a later value of the record's key.
func (f *final) replaced(r *Record) bool {
	return r.Key != "" && f.keys[Record{Partition: r.Partition, Key: r.Key}] > r.Offset
}

func (x *index) viewOf(client string) view {
	if c := x.clients[client]; c != nil && c.Committed {
		return committed
	}
	return uncommitted
}

func (x *index) guaranteeOf(client string) Guarantee {
	if c := x.clients[client]; c != nil {
		return c.Guarantee
	}
	return Plain
}

func (x *index) txn(id string) *txn {
	t := x.txns[id]
	if t == nil {
		t = &txn{}
		x.txns[id] = t
	}
	return t
}

func (x *index) log(p Partition) *partitionLog {
	l := x.logs[p]
	if l == nil {
		l = &partitionLog{at: map[int64]string{}}
		x.logs[p] = l
	}
	return l
}

func (l *partitionLog) see(v view, offset int64) { l.offsets[v] = append(l.offsets[v], offset) }

// between returns an offset that the view shows in [from, to), if there is one.
func (l *partitionLog) between(v view, from, to int64) (int64, bool) {
	i, _ := slices.BinarySearch(l.offsets[v], from)
	if i < len(l.offsets[v]) && l.offsets[v][i] < to {
		return l.offsets[v][i], true
	}
	return 0, false
}

// settledNs is when nothing more can come of a send: its own end, and its transaction's.
func (x *index) settledNs(op *Op) int64 {
	if op.Txn == "" {
		return op.EndedNs
	}
	if t := x.txns[op.Txn]; t.end != nil {
		return max(op.EndedNs, t.end.EndedNs)
	}
	return math.MaxInt64
}
