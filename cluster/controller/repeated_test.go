package controller

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// Names that a request repeats are told once, in their order, at a cost that follows their number: clients without any
// right get as far as this, and the decider does it. The bound is far below the square.
func TestWithoutRepeated(t *testing.T) {
	const n = 300_000
	names := make([]string, 0, 2*n+2)
	for i := range 2 * n {
		names = append(names, strconv.Itoa(i%n))
	}
	names = append(names, "0", "once")
	began := time.Now()
	once, twice := withoutRepeated(names, func(name string) string { return name })
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("%d names took %v", len(names), took)
	}
	if !slices.Equal(once, []string{"once"}) || !slices.Equal(twice, names[:n]) {
		t.Errorf("%d once, %d twice", len(once), len(twice))
	}
}
