package loglimit

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
)

func TestOneLineInATime(t *testing.T) {
	c := clock.NewManual(time.Unix(1000, 0))
	var out bytes.Buffer
	log := zerolog.New(&out)
	l := New(c, time.Second)
	say := func() { l.Write(&log, zerolog.WarnLevel, func(e *zerolog.Event) { e.Msg("again") }) }
	for range 5 {
		say()
	}
	if out.String() != `{"level":"warn","message":"again"}`+"\n" {
		t.Errorf("%s", out.String())
	}
	out.Reset()
	c.Advance(time.Second)
	say()
	say()
	if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), `"suppressed":4`) {
		t.Errorf("%s", out.String())
	}
}
