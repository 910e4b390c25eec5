package node

import (
	"math"
	"testing"

	"grete/coordinator/group"
)

func TestMaxGroups(t *testing.T) {
	for limit, want := range map[int64]int{512 << 20: 32 << 10, 64 << 30: group.DefaultMaxGroups, math.MaxInt64: group.DefaultMaxGroups} {
		if got := maxGroups(limit); got != want {
			t.Errorf("%d bytes: %d groups, want %d", limit, got, want)
		}
	}
}
