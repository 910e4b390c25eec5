package txn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
)

func (r *rig) init(id string) ProducerEpoch {
	r.t.Helper()
	got := NoProducer
	r.s.InitProducer(InitRequest{ID: id, TimeoutMs: 60_000}, func(p ProducerEpoch, err error) {
		if err != nil {
			r.t.Error(err)
		}
		got = p
	})
	r.rest()
	return got
}

func (r *rig) add(id string, p ProducerEpoch, wait bool, partitions ...Partition) (errs []error) {
	r.s.AddPartitions(AddRequest{ID: id, Producer: p, Partitions: partitions, ClientVersion: 2, Wait: wait}, func(err error) {
		errs = append(errs, err)
		if err != nil {
			r.note("%v", err)
		}
	})
	return errs
}

func (r *rig) end(id string, p ProducerEpoch, commit bool) (next ProducerEpoch, err error) {
	err = errors.New("not answered")
	r.s.End(EndRequest{ID: id, Producer: p, Commit: commit, ClientVersion: 2}, func(got ProducerEpoch, failed error) { next, err = got, failed })
	return next, err
}

func TestWaitingIsBounded(t *testing.T) {
	r := newRig(t, DefaultConfig())
	p := r.init("x")
	r.add("x", p, false, Partition{"t", 0})
	r.markers.hold = true
	next, err := r.end("x", p, true)
	if err != nil {
		t.Fatal(err)
	}
	for range maxWaiting {
		if errs := r.add("x", next, true, Partition{"t", 0}); len(errs) > 0 {
			t.Fatalf("answered at once: %v", errs)
		}
	}
	if errs := r.add("x", next, true, Partition{"t", 0}); len(errs) != 1 || !errors.Is(errs[0], kerr.ConcurrentTransactions) {
		t.Fatalf("one too many: %v", errs)
	}
}

func TestList(t *testing.T) {
	r := newRig(t, DefaultConfig())
	open, ended, _ := r.init("open-1"), r.init("ended"), r.init("open-2")
	r.add("open-1", open, false, Partition{"t", 0})
	r.add("ended", ended, false, Partition{"t", 0})
	if _, err := r.end("ended", ended, true); err != nil {
		t.Fatal(err)
	}
	r.rest()
	r.clock.Advance(3 * time.Second)
	for _, c := range []struct {
		name    string
		req     ListRequest
		want    string
		unknown int
		err     error
	}{
		{"all", ListRequest{DurationMs: -1}, "[ended/CompleteCommit open-1/Ongoing open-2/Empty]", 0, nil},
		{"states", ListRequest{DurationMs: -1, States: []string{"Ongoing", "Empty"}}, "[open-1/Ongoing open-2/Empty]", 0, nil},
		{"unknown state", ListRequest{DurationMs: -1, States: []string{"ongoing", "ongoing"}}, "[]", 1, nil},
		{"producer", ListRequest{DurationMs: -1, ProducerIDs: []int64{ended.ID, 999}}, "[ended/CompleteCommit]", 0, nil},
		{"longer than 2 s", ListRequest{DurationMs: 2000, States: []string{"Ongoing"}}, "[open-1/Ongoing]", 0, nil},
		{"longer than 3 s", ListRequest{DurationMs: 3000, States: []string{"Ongoing"}}, "[]", 0, nil},
		{"pattern", ListRequest{DurationMs: -1, Pattern: "open-.|x"}, "[open-1/Ongoing open-2/Empty]", 0, nil},
		{"part of a pattern", ListRequest{DurationMs: -1, Pattern: "open"}, "[]", 0, nil},
		{"bad pattern", ListRequest{DurationMs: -1, Pattern: "("}, "[]", 0, kerr.InvalidRegularExpression},
	} {
		r.s.List(c.req, func(ids []Listed, unknown []string, err error) {
			texts := []string{}
			for _, l := range ids {
				texts = append(texts, fmt.Sprintf("%s/%v", l.ID, l.State))
			}
			if fmt.Sprint(texts) != c.want || len(unknown) != c.unknown || !errors.Is(err, c.err) {
				t.Errorf("%s: %v, unknown %v, %v", c.name, texts, unknown, err)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	r := newRig(t, DefaultConfig())
	p := r.init("x")
	r.add("x", p, false, Partition{"u", 1}, Partition{"t", 2})
	ask := func(id string) (d Description, got error) {
		got = errors.New("not answered")
		r.s.Describe(id, func(a Description, err error) { d, got = a, err })
		return d, got
	}
	d, err := ask("x")
	if err != nil || d.Producer != p || d.State != Ongoing || d.TimeoutMs != 60_000 || d.StartMs != 1_000_000 ||
		!slices.Equal(d.Partitions, []Partition{{"t", 2}, {"u", 1}}) {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := ask("y"); !errors.Is(err, kerr.TransactionalIDNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := ask(""); !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("empty: %v", err)
	}
	r.s.Resign(0, r.epoch)
	if _, err := ask("x"); !errors.Is(err, coordinator.ErrNotCoordinator) {
		t.Errorf("not led: %v", err)
	}
}

func TestTwoPhaseCommitIsNotServed(t *testing.T) {
	r := newRig(t, DefaultConfig())
	ask := func(req InitRequest) (got error) {
		r.s.InitProducer(req, func(_ ProducerEpoch, err error) { got = err })
		return got
	}
	if err := ask(InitRequest{ID: "x", TimeoutMs: 1, TwoPhaseCommit: true}); !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		t.Errorf("two phases: %v", err)
	}
	if err := ask(InitRequest{ID: "x", TimeoutMs: 1, KeepPrepared: true}); !errors.Is(err, kerr.UnsupportedVersion) {
		t.Errorf("prepared: %v", err)
	}
}

// An answer to markers of an earlier transaction, which a coordinator before sent, does not end a later one that has
// the same epoch, as transactions of old clients do.
// A partition without a leader takes no marker for an hour; the log has a line about it now and then.
func TestFailingMarkersDoNotFloodTheLog(t *testing.T) {
	r := newRig(t, DefaultConfig())
	p, at := r.init("x"), Partition{"t", 0}
	r.markers.fail[at] = kerr.NotLeaderForPartition
	r.s.AddPartitions(AddRequest{ID: "x", Producer: p, Partitions: []Partition{at}}, func(error) {})
	r.s.End(EndRequest{ID: "x", Producer: p, Commit: true}, func(ProducerEpoch, error) {})
	const tries = 300
	for range tries {
		r.clock.Advance(time.Duration(r.cfg.MarkerRetryMs) * time.Millisecond)
		r.rest()
	}
	lines := strings.Count(r.lines.String(), "is sent again")
	if most := int(tries*time.Duration(r.cfg.MarkerRetryMs)*time.Millisecond/unwrittenLogEvery) + 1; lines < 1 || lines > most {
		t.Errorf("%d lines of at most %d:\n%s", lines, most, r.lines.String())
	}
}

func TestLateMarkersAreOfNoUse(t *testing.T) {
	r := newRig(t, DefaultConfig())
	p := r.init("x")
	end := func(part int32, commit bool) {
		t.Helper()
		answers := 0
		count := func(err error) {
			if err == nil {
				answers++
			}
		}
		r.s.AddPartitions(AddRequest{ID: "x", Producer: p, Partitions: []Partition{{"t", part}}}, count)
		r.s.End(EndRequest{ID: "x", Producer: p, Commit: commit}, func(_ ProducerEpoch, err error) { count(err) })
		if answers != 2 {
			t.Fatal(r.states())
		}
	}
	r.markers.hold = true
	end(0, true)
	late := r.markers.held[0]
	r.lead()
	r.markers.held = r.markers.held[1:]
	r.markers.let()
	r.rest()
	r.markers.hold = true
	end(1, false)
	late()
	r.rest()
	if got := r.states()[0]; !strings.Contains(got, "PrepareAbort") {
		t.Errorf("%s", got)
	}
	r.markers.let()
	r.rest()
	if got := r.states()[0]; !strings.Contains(got, "CompleteAbort") {
		t.Errorf("%s", got)
	}
}
