package history

import "slices"

// checkValues holds every claim "value v is at offset o" against the others: one value at an offset, one offset of
// a value (unless its producer may write twice), and only values that were sent, and sent there.
func checkValues(x *index, r *Report) {
	places := map[string]Record{}
	claim := func(rec Record) {
		l := x.log(rec.Partition)
		if other, taken := l.at[rec.Offset]; taken && other != rec.Value {
			r.add(Inconsistent, "%v offset %d: %s and %s", rec.Partition, rec.Offset, other, rec.Value)
		}
		l.at[rec.Offset] = rec.Value
		first, known := places[rec.Value]
		if !known {
			places[rec.Value] = rec
		} else if first != rec && x.guaranteeOf(x.clientOf(rec.Value)) != Plain {
			r.add(Duplicate, "%s: %v offset %d and %v offset %d", rec.Value, first.Partition, first.Offset, rec.Partition, rec.Offset)
		}
	}
	for _, op := range x.ops {
		if op.Kind == Send && op.Outcome == OK {
			claim(*op.At)
		}
		for _, rec := range op.Records {
			checkSent(x, r, rec)
			claim(rec)
		}
	}
}

func checkSent(x *index, r *Report, rec Record) {
	s := x.sends[rec.Value]
	switch {
	case s == nil:
		r.add(Phantom, "%s: %v offset %d", rec.Value, rec.Partition, rec.Offset)
	case s.At.Partition != rec.Partition:
		r.add(Phantom, "%s: sent to %v, read in %v", rec.Value, s.At.Partition, rec.Partition)
	case s.Outcome == Fail:
		r.add(FailedRead, "%s: %v offset %d", rec.Value, rec.Partition, rec.Offset)
	}
}

func (x *index) clientOf(value string) string {
	if s := x.sends[value]; s != nil {
		return s.Client
	}
	return ""
}

// checkLost: what was acknowledged, and committed, before a final reader began is what it saw; or, where the topic is
// compacted, a later value of the key that this reader may see.
func checkLost(x *index, r *Report) {
	for _, f := range x.finals {
		if f.op.Outcome != OK {
			continue
		}
		for _, op := range x.ops {
			switch {
			case !x.mustSee(f, op) || f.saw[op.At.Value]:
			case f.replaced(op.At):
				r.Stats.Replaced++
			default:
				r.add(Lost, "%s: acknowledged at %v offset %d, not seen by %s, which read to %d", op.At.Value, op.At.Partition, op.At.Offset,
					f.op.Client, f.ends[op.At.Partition])
			}
		}
	}
}

func (x *index) mustSee(f *final, op *Op) bool {
	if op.Kind != Send || op.Outcome != OK || x.settledNs(op) >= f.op.BeganNs {
		return false
	}
	_, reads := f.ends[op.At.Partition]
	return reads && (op.Txn == "" || x.txns[op.Txn].committed())
}

// checkHoles: without transactions and compaction every offset up to the end has a record.
func checkHoles(x *index, r *Report) {
	for _, f := range x.finals {
		if f.op.Outcome != OK {
			continue
		}
		for p, end := range f.ends {
			if l := x.log(p); !l.txns && !l.compacted {
				checkContiguous(r, p, f.reads[p], end)
			}
		}
	}
}

func checkContiguous(r *Report, p Partition, reads []Record, end int64) {
	var offsets []int64
	for _, rec := range reads {
		offsets = append(offsets, rec.Offset)
	}
	slices.Sort(offsets)
	next := int64(0)
	for _, o := range append(offsets, end) {
		if o > next {
			r.add(Hole, "%v: nothing in [%d,%d)", p, next, o)
		}
		next = max(next, o+1)
	}
}

func checkStuck(x *index, r *Report) {
	for _, f := range x.finals {
		if f.op.Outcome != OK {
			r.add(Stuck, "%s: %s", f.op.Client, f.op.Note)
		}
	}
}
