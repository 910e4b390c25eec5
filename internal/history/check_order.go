package history

import (
	"cmp"
	"slices"
)

// checkPolls follows each consumer: from where it was placed its offsets grow, and pass no visible value.
func checkPolls(x *index, r *Report) {
	ops := slices.Clone(x.ops)
	// A poll may have begun, and waited, before the assignment whose records it returns.
	slices.SortStableFunc(ops, func(a, b *Op) int { return cmp.Compare(a.EndedNs, b.EndedNs) })
	next := map[string]map[Partition]int64{} // by client
	for _, op := range ops {
		if op.Kind != Assign && op.Kind != Poll {
			continue
		}
		if next[op.Client] == nil {
			next[op.Client] = map[Partition]int64{}
		}
		if op.Kind == Poll {
			checkPoll(x, r, op, next[op.Client])
			continue
		}
		for _, p := range op.Offsets {
			next[op.Client][p.Partition] = p.Offset
		}
	}
}

func checkPoll(x *index, r *Report, op *Op, next map[Partition]int64) {
	inPoll := map[Partition]bool{}
	for _, rec := range op.Records {
		back, skip := PollBack, PollSkip
		if inPoll[rec.Partition] {
			back, skip = InternalPollBack, InternalPollSkip
		}
		if from, placed := next[rec.Partition]; placed && rec.Offset < from {
			r.add(back, "%s: %v offset %d where %d or more was due", op.Client, rec.Partition, rec.Offset, from)
		} else if missed, any := x.skipped(op.Client, rec, from); placed && any {
			r.add(skip, "%s: %v from %d to %d, past %s at %d", op.Client, rec.Partition, from, rec.Offset, x.log(rec.Partition).at[missed], missed)
		}
		next[rec.Partition] = rec.Offset + 1
		inPoll[rec.Partition] = true
	}
}

// skipped returns a visible offset between from and the record's, if there is one. What a compacted log had once may be
// gone.
func (x *index) skipped(client string, rec Record, from int64) (int64, bool) {
	l := x.log(rec.Partition)
	if l.compacted {
		return 0, false
	}
	return l.between(x.viewOf(client), from, rec.Offset)
}

// checkSendOrder: the acknowledged sends of an idempotent producer to a partition have offsets in the order of the
// calls.
func checkSendOrder(x *index, r *Report) {
	type stream struct {
		client string
		Partition
	}
	last := map[stream]*Op{}
	for _, op := range x.ops {
		if op.Kind != Send || op.Outcome != OK || x.guaranteeOf(op.Client) == Plain {
			continue
		}
		s := stream{op.Client, op.At.Partition}
		if before := last[s]; before != nil && op.At.Offset <= before.At.Offset {
			class := SendBack
			if op.Txn != "" && op.Txn == before.Txn {
				class = InternalSendBack
			}
			r.add(class, "%s: %v: %s at %d after %s at %d", op.Client, s.Partition, op.At.Value, op.At.Offset, before.At.Value, before.At.Offset)
		}
		last[s] = op
	}
}

// seen is a moment after which a partition is known to reach an offset.
type seen struct {
	ns     int64
	offset int64
}

// checkRealTime: a send that begins after somebody has seen offset o gets a higher one.
func checkRealTime(x *index, r *Report) {
	reached, sends := map[Partition][]seen{}, map[Partition][]*Op{}
	for _, op := range x.ops {
		if op.Kind == Send && op.Outcome == OK {
			p := op.At.Partition
			reached[p] = append(reached[p], seen{op.EndedNs, op.At.Offset})
			sends[p] = append(sends[p], op) // by BeganNs, as x.ops is
		}
		for _, rec := range op.Records {
			reached[rec.Partition] = append(reached[rec.Partition], seen{op.EndedNs, rec.Offset})
		}
	}
	for p, moments := range reached {
		slices.SortFunc(moments, func(a, b seen) int { return cmp.Compare(a.ns, b.ns) })
		top, i := int64(-1), 0
		for _, s := range sends[p] {
			for ; i < len(moments) && moments[i].ns < s.BeganNs; i++ {
				top = max(top, moments[i].offset)
			}
			if s.At.Offset <= top {
				r.add(Reordered, "%v: %s got offset %d after %d had been seen", p, s.At.Value, s.At.Offset, top)
			}
		}
	}
}
