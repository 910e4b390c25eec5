package history

// checkIsolation: read_committed shows what was committed, and not before.
func checkIsolation(x *index, r *Report) {
	for _, op := range x.ops {
		if op.Kind != Poll || x.viewOf(op.Client) != committed {
			continue
		}
		for _, rec := range op.Records {
			s := x.sends[rec.Value]
			if s == nil || s.Txn == "" {
				continue
			}
			switch t := x.txns[s.Txn]; {
			case !t.mayCommit():
				r.add(AbortedRead, "%s of %s: %v offset %d, by %s", rec.Value, s.Txn, rec.Partition, rec.Offset, op.Client)
			case op.EndedNs < t.end.BeganNs:
				r.add(Precommitted, "%s of %s: %v offset %d, by %s", rec.Value, s.Txn, rec.Partition, rec.Offset, op.Client)
			}
		}
	}
}

// checkTorn: of a transaction whose fate is settled, a final read_committed reader saw everything that was
// acknowledged, or nothing.
func checkTorn(x *index, r *Report) {
	for _, f := range x.finals {
		if f.op.Outcome != OK || f.view != committed {
			continue
		}
		for id, t := range x.txns {
			if t.end == nil || t.end.EndedNs >= f.op.BeganNs {
				continue
			}
			saw, missing := t.parts(f)
			if saw != "" && missing != "" {
				r.add(Torn, "%s: %s saw %s and not %s", id, f.op.Client, saw, missing)
			}
		}
	}
}

// parts returns a value of the transaction that the reader saw, and one that it should have seen beside it.
func (t *txn) parts(f *final) (saw, missing string) {
	for _, s := range t.sends {
		_, reads := f.ends[s.At.Partition]
		switch {
		case !reads:
		case f.saw[s.At.Value]:
			saw = s.At.Value
		case s.Outcome == OK && !f.replaced(s.At):
			missing = s.At.Value
		}
	}
	return saw, missing
}
