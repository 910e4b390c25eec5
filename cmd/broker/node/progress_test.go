package node

import (
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
)

// A wait of an hour, tried every joinEvery for reasons that change, is a handful of lines; a short one is none.
func TestWaitsArePaced(t *testing.T) {
	c := clock.NewManual(time.Unix(0, 0))
	log := &logBuffer{}
	n := &Node{o: Options{Clock: c, Log: zerolog.New(log)}, progress: progress{clock: c}}
	const what = "waiting to be let into the metadata quorum"
	reasons := []error{errNoLeader, errInUse, errors.New("connection refused")}
	pace, tries := newPace(c), 0
	until := func(lasts time.Duration, lines int) {
		t.Helper()
		for ; pace.lasts() < lasts; c.Advance(joinEvery) {
			n.waits(t.Context(), pace, what, reasons[tries%len(reasons)])
			tries++
		}
		if got := log.count(what); got != lines {
			t.Errorf("%d lines after %v, want %d", got, lasts, lines)
		}
	}
	until(loggedWait, 0)
	until(loggedWait+time.Second, 1)
	until(time.Hour, 12) // after 3, 9, 21, 45, 93, 189, 381, 765 s, then every ten minutes
	if log.count(`"for":"9s"`) != 1 {
		t.Error("the lines do not say how long it has been")
	}
	if got, want := n.progress.pending().Error(), "starting: "+what+": "+reasons[(tries-1)%len(reasons)].Error()+"; for 1h0m0s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	n.progress.doing("opening the logs")
	n.progress.because(func() string { return "why" })
	if got := n.progress.pending().Error(); got != "starting: opening the logs: why" {
		t.Error(got)
	}
}
