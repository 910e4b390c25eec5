package history

import (
	"slices"
)

// checkCopies: a value that a transaction reads, passes on and commits the offset of is passed on exactly once,
// in order: output and offsets are there together or not at all.
func checkCopies(x *index, r *Report) {
	sure, possible := x.committedInTxns()
	for _, f := range x.finals {
		if f.op.Outcome != OK || f.view != committed {
			continue
		}
		copies := x.copiesSeen(f)
		for p, recs := range f.reads {
			if _, copied := possible[p]; copied {
				checkCopied(r, recs, copies, sure[p], possible[p])
			}
			checkCopyOrder(x, r, recs)
		}
	}
}

// committedInTxns returns, by partition, the offset up to which transactions surely, and possibly, committed.
func (x *index) committedInTxns() (sure, possible map[Partition]int64) {
	sure, possible = map[Partition]int64{}, map[Partition]int64{}
	for _, t := range x.txns {
		if !t.mayCommit() {
			continue
		}
		for _, p := range t.end.Offsets {
			possible[p.Partition] = max(possible[p.Partition], p.Offset)
			if t.committed() {
				sure[p.Partition] = max(sure[p.Partition], p.Offset)
			}
		}
	}
	return sure, possible
}

func (x *index) copiesSeen(f *final) map[string]int {
	copies := map[string]int{}
	for value := range f.saw {
		if s := x.sends[value]; s != nil && s.CopyOf != "" {
			copies[s.CopyOf]++
		}
	}
	return copies
}

func checkCopied(r *Report, sources []Record, copies map[string]int, sure, possible int64) {
	for _, rec := range sources {
		switch n := copies[rec.Value]; {
		case n == 0 && rec.Offset < sure:
			r.add(LostCopy, "%s: %v offset %d, offsets committed up to %d", rec.Value, rec.Partition, rec.Offset, sure)
		case n > 1:
			r.add(DuplicateCopy, "%s: %d times", rec.Value, n)
		case n > 0 && rec.Offset >= possible:
			r.add(Torn, "%s (%v offset %d) was passed on, but offsets are committed only up to %d", rec.Value, rec.Partition, rec.Offset, possible)
		}
	}
}

// checkCopyOrder: the copies in one partition of what one partition held have its order.
func checkCopyOrder(x *index, r *Report, recs []Record) {
	recs = slices.Clone(recs)
	slices.SortFunc(recs, func(a, b Record) int { return int(a.Offset - b.Offset) })
	last := map[Partition]int64{}
	for _, rec := range recs {
		s := x.sends[rec.Value]
		if s == nil || s.CopyOf == "" {
			continue
		}
		source := x.sends[s.CopyOf]
		if source == nil || source.Outcome != OK {
			continue // its offset is not known from its send
		}
		from := source.At.Partition
		if before, any := last[from]; any && source.At.Offset < before {
			r.add(ReorderedCopies, "%v offset %d: copy of %v offset %d after that of %d", rec.Partition, rec.Offset, from, source.At.Offset, before)
		}
		last[from] = source.At.Offset
	}
}
