package raftlog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Somebody who has heard every message sends old ones again, of this and of former leaderships, while leaders come and
// go: what is committed stays, in its order, and all logs are the same in the end.
func TestReplayedMessages(t *testing.T) {
	n, rng, replays := startCluster(t, 3, 0), rand.New(rand.NewPCG(3, 7)), rand.New(rand.NewPCG(3, 8))
	heard := map[int32][][]byte{} // by receiver
	again := 0
	n.mu.Lock()
	n.overheard = func(to *member, raw []byte) {
		old := append(heard[to.id], raw)
		heard[to.id] = old
		for range replays.IntN(12) {
			to.step(old[replays.IntN(len(old))])
			again++
		}
	}
	n.mu.Unlock()
	var committed []string
	write := func(count int) *member {
		text := fmt.Sprintf("v%d", len(committed))
		committed = append(committed, text)
		return n.commit(t, slices.Repeat([]string{text}, count)...)
	}
	epochs := map[int32]bool{}
	for range 5 {
		leader := write(20 + rng.IntN(40))
		epochs[leader.leader.Load().Epoch] = true
		n.isolate(leader.id, true)
		write(20)
		n.isolate(leader.id, false)
		write(5)
	}
	n.mu.Lock()
	n.overheard = nil
	n.mu.Unlock()
	write(1)
	n.awaitEqual(t)
	content := n.nodes[1].content(t, 0)
	for id, m := range n.nodes {
		if !bytes.Equal(m.content(t, 0), content) {
			t.Errorf("the log of node %d differs", id)
		}
	}
	requireOrder(t, content, committed)
	if again < 1000 || len(epochs) < 3 {
		t.Errorf("%d messages were sent again over %d leaderships: that shows nothing", again, len(epochs))
	}
	for _, m := range n.nodes {
		n.stop(t, m)
	}
}
