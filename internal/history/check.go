package history

// Check looks for every class of anomaly. It needs final readers (Final) to speak of lost writes, holes and torn
// transactions.
func Check(ops []Op) *Report {
	x, r := buildIndex(ops), newReport()
	x.count(r)
	for _, check := range []func(*index, *Report){
		checkValues, checkLost, checkHoles, checkStuck,
		checkIsolation, checkTorn, checkCopies,
		checkPolls, checkSendOrder, checkRealTime,
		checkCommits,
	} {
		check(x, r)
	}
	return r
}

func (x *index) count(r *Report) {
	s := &r.Stats
	for _, op := range x.ops {
		switch op.Kind {
		case Send:
			s.countSend(op)
		case Poll:
			s.Read += len(op.Records)
		case End:
			if op.Outcome == OK && op.Commit {
				s.Committed++
			} else if op.Outcome == OK {
				s.Aborted++
			}
		case Crash:
			s.Crashes++
		case Fault:
			s.Faults++
		case Final:
			s.FinalReaders++
		}
	}
}

func (s *Stats) countSend(op *Op) {
	s.Sends++
	switch op.Outcome {
	case OK:
		s.Acked++
	case Unknown:
		s.Unknown++
	}
	if op.CopyOf != "" {
		s.Copies++
	}
}
