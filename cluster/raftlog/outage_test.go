package raftlog

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
)

// A node that is missed for a moment is no news; one that is missed for longer is told of once, and so is its return.
func TestOutageIsLoggedWhenItLasts(t *testing.T) {
	c, out := clock.NewManual(time.Unix(1, 0)), &bytes.Buffer{}
	o := PeersOptions{Clock: c, Logger: zerolog.New(out)}
	var lost outage
	for range 2 { // the second begins anew
		lost.note(o, 2, errors.New("gone"))
		c.Advance(loggedOutage - time.Millisecond)
		lost.note(o, 2, errors.New("gone"))
		lost.over(o, 2)
	}
	if out.Len() > 0 {
		t.Errorf("short outages: %s", out)
	}
	lost.note(o, 2, errors.New("gone"))
	c.Advance(loggedOutage)
	lost.note(o, 2, errors.New("gone"))
	lost.note(o, 2, errors.New("gone"))
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "cannot be reached") {
		t.Errorf("a long outage: %s", got)
	}
	out.Reset()
	lost.over(o, 2)
	lost.over(o, 2)
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "reached again") {
		t.Errorf("its end: %s", got)
	}
}
