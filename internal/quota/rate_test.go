package quota

import (
	"testing"
	"time"

	"grete/internal/clock"
)

func TestRate(t *testing.T) {
	c := clock.NewManual(time.UnixMilli(1_000_000))
	r := NewRate(c)
	r.Record(1 << 40)
	if r.Exceeded() {
		t.Error("an unlimited rate is exceeded")
	}
	r.Set(1000)
	if r.Exceeded() {
		t.Error("what was sent without a rate counts")
	}
	r.Record(900) // a second is saved up
	if r.Exceeded() {
		t.Error("exceeded by 900 of 1000")
	}
	r.Record(600)
	if got := r.Wait(); got != 500*time.Millisecond {
		t.Errorf("wait %v", got)
	}
	c.Advance(500 * time.Millisecond)
	if r.Exceeded() {
		t.Error("still exceeded when it is paid")
	}
	r.Record(1)
	if !r.Exceeded() {
		t.Error("nothing was saved up")
	}
	c.Advance(time.Hour)
	r.Record(2000)
	if got := r.Wait(); got != time.Second {
		t.Errorf("an idle hour is saved up to %v", got)
	}
	r.Set(1000)
	if !r.Exceeded() {
		t.Error("setting the same rate forgets")
	}
	r.Set(0)
	if !r.Exceeded() {
		t.Error("a rate of 0 allows something")
	}
	r.Set(Unlimited)
	if r.Exceeded() {
		t.Error("unlimited again, it is exceeded")
	}
}

// On average the rate is kept, by whoever waits as long as he is told.
func TestAverage(t *testing.T) {
	c := clock.NewManual(time.UnixMilli(1_000_000))
	r := NewRate(c)
	r.Set(1000)
	began, sent := c.Now(), 0
	for range 500 {
		c.Advance(r.Wait())
		r.Record(300)
		sent += 300
	}
	rate := float64(sent) / (c.Now().Sub(began) + burst).Seconds()
	if rate < 990 || rate > 1010 {
		t.Errorf("%v bytes a second", rate)
	}
}
