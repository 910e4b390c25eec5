package replica

import (
	"testing"

	"grete/logstore"
)

// following makes a follower of broker 2 at epoch 0, with n records of it.
func (r *replicated) following(n int) *Partition {
	r.t.Helper()
	p := r.replicate(2, 2)
	r.append(p, 0, n)
	return p
}

func (r *replicated) append(p *Partition, epoch int32, n int) {
	r.t.Helper()
	for range n {
		end := p.Log().EndOffset()
		if err := p.replicate(p.LeaderEpoch(), fetched{offset: end, records: stamped(r.t, end, epoch, 1), logStart: 0}); err != nil {
			r.t.Fatal(err)
		}
	}
}

func requireEnd(t testing.TB, p *Partition, want int64) {
	t.Helper()
	if end := p.Log().EndOffset(); end != want {
		t.Errorf("the log ends at %d, want %d", end, want)
	}
}

// An answer to a fetch of another leadership must not get into the log, whatever it asks for.
func TestFollowerTakesNothingOfAnotherLeadership(t *testing.T) {
	for what, elect := range map[string]func(*replicated){
		"another leader":        func(r *replicated) { r.elect(3, 2, 3) },
		"the same leader again": func(r *replicated) { r.elect(2, 2) },
		"this broker":           func(r *replicated) { r.elect(1, 1, 2) },
		"no leader":             func(r *replicated) { r.elect(-1, 2) },
	} {
		r := newReplicated(t)
		p := r.following(3)
		elect(r)
		err := p.replicate(0, fetched{offset: 3, records: stamped(t, 3, 0, 1), highWatermark: 3})
		requireError(t, err, ErrFencedLeaderEpoch)
		requireError(t, p.reconcile(0, EpochEnd{0, 1}), ErrFencedLeaderEpoch)
		requireError(t, p.resume(0, 0, 1), ErrFencedLeaderEpoch)
		requireError(t, p.resume(0, 50, 60), ErrFencedLeaderEpoch)
		_, err = p.position(0)
		requireError(t, err, ErrFencedLeaderEpoch)
		if p.Log().EndOffset() != 3 {
			t.Errorf("%s: the log ends at %d", what, p.Log().EndOffset())
		}
	}
}

// The log was truncated, or grew, since the offset that the answer begins at was asked for.
func TestFollowerTakesNothingElsewhere(t *testing.T) {
	r := newReplicated(t)
	p := r.following(3)
	for _, offset := range []int64{2, 4} {
		err := p.replicate(0, fetched{offset: offset, records: stamped(t, offset, 0, 1)})
		requireError(t, err, ErrOffsetOutOfRange)
	}
	requireEnd(t, p, 3)
}

// The leader's high watermark and log start are taken over as far as this log goes, and neither goes back.
func TestFollowerTakesOverOffsets(t *testing.T) {
	r := newReplicated(t)
	p := r.following(0)
	for _, step := range []struct {
		records             int
		hw, start           int64 // the leader's
		wantHW, wantStart   int64
		asked, wantEndAfter int64
	}{
		{2, 5, 0, 2, 0, 0, 2},
		{0, 1, 0, 2, 0, 2, 2},
		{3, 4, 3, 4, 3, 2, 5},
		{0, 4, 1, 4, 3, 5, 5},
		{0, 5, 9, 5, 5, 5, 5},
	} {
		var records []byte
		for i := range step.records {
			records = append(records, stamped(t, step.asked+int64(i), 0, 1)...)
		}
		if err := p.replicate(0, fetched{offset: step.asked, records: records, highWatermark: step.hw, logStart: step.start}); err != nil {
			t.Fatal(err)
		}
		requireHW(t, p, step.wantHW)
		requireEnd(t, p, step.wantEndAfter)
		if got := p.LogStartOffset(); got != step.wantStart {
			t.Errorf("%+v: the log starts at %d", step, got)
		}
	}
}

func TestReconcile(t *testing.T) {
	for what, c := range map[string]struct {
		leaders EpochEnd
		want    int64
	}{
		"the leader's epoch ends before": {EpochEnd{0, 1}, 1},
		"this log's epoch ends before":   {EpochEnd{0, 9}, 2},
		"both reach further":             {EpochEnd{1, 9}, 4},
		"an epoch between":               {EpochEnd{1, 3}, 3},
		"the leader knows nothing":       {EpochEnd{-1, -1}, 1}, // down to what is committed
	} {
		r := newReplicated(t)
		p := r.following(2)
		err := p.replicate(0, fetched{offset: 2, records: append(stamped(t, 2, 1, 1), stamped(t, 3, 1, 1)...), highWatermark: 1})
		requireError(t, err, nil)
		requireError(t, p.reconcile(0, c.leaders), nil)
		if got := p.Log().EndOffset(); got != c.want {
			t.Errorf("%s: cut at %d, want %d", what, got, c.want)
		}
	}
}

func TestResume(t *testing.T) {
	for what, c := range map[string]struct {
		start, end         int64 // the leader's
		wantStart, wantEnd int64
	}{
		"the leader ends before":   {0, 3, 0, 3},
		"the leader ends after":    {2, 9, 0, 5},
		"the leader begins after":  {7, 9, 7, 7},
		"the leader begins at end": {5, 9, 0, 5},
	} {
		r := newReplicated(t)
		p := r.following(5)
		requireError(t, p.resume(0, c.start, c.end), nil)
		if log := p.Log(); log.StartOffset() != c.wantStart || log.EndOffset() != c.wantEnd {
			t.Errorf("%s: %d–%d, want %d–%d", what, log.StartOffset(), log.EndOffset(), c.wantStart, c.wantEnd)
		}
	}
	r := newReplicated(t)
	p := r.following(5)
	requireError(t, p.Log().AdvanceStart(0), nil)
	p.Log().SetHighWatermark(5)
	requireError(t, p.Log().AdvanceStart(4), nil)
	requireError(t, p.resume(0, 1, 2), nil) // the leader lost all that this log still has
	if log := p.Log(); log.StartOffset() != 1 || log.EndOffset() != 1 {
		t.Errorf("%d–%d", log.StartOffset(), log.EndOffset())
	}
}

// The leader's log may start inside a batch, which comes whole.
func TestEmptyLogBeginsInsideABatch(t *testing.T) {
	r := newReplicated(t)
	p := r.following(0)
	requireError(t, p.restart(0, 7), nil)
	err := p.replicate(0, fetched{offset: 7, records: stamped(t, 5, 0, 4), highWatermark: 9, logStart: 7})
	requireError(t, err, nil)
	if log := p.Log(); log.StartOffset() != 7 || log.EndOffset() != 9 {
		t.Errorf("%d–%d", log.StartOffset(), log.EndOffset())
	}
}

// Of a log that knows no epoch only what is committed is kept: nobody could find out where it diverges.
func TestPositionWithoutEpochs(t *testing.T) {
	r := newReplicated(t)
	log, err := r.store.Create(logstore.ID{Topic: "t"}, idOf("t"), logstore.DefaultConfig())
	requireError(t, err, nil)
	requireError(t, log.AppendAsFollower(append(stamped(t, 0, -1, 1), stamped(t, 1, -1, 1)...)), nil)
	log.SetHighWatermark(1)
	p := r.replicate(2, 2)
	at, err := p.position(0)
	requireError(t, err, nil)
	if want := (position{0, 1, -1, 0}); at != want {
		t.Errorf("%+v, want %+v", at, want)
	}
}
