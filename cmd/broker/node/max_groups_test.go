package node

import (
	"testing"

	"grete/coordinator/group"
	"grete/internal/memory"
)

func TestMaxGroups(t *testing.T) {
	for limit, want := range map[int64]int{512 << 20: 16 << 10, 64 << 30: group.DefaultMaxGroups} {
		if got := maxGroups(memory.New(limit).Groups); got != want {
			t.Errorf("%d bytes: %d groups, want %d", limit, got, want)
		}
	}
}
