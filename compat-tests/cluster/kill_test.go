package cluster

import (
	"slices"
	"testing"
	"time"

	"grete/compat-tests/kafka"
)

// Kill -9 of a partition's leader, again and again, under a producer with acks=all: the next write is acknowledged soon after the session of
// the dead broker, and what was acknowledged is there, once.
func TestLeaderIsKilled(t *testing.T) {
	r := start(t, kafka.ClusterOptions{})
	r.create("kept", 1)
	w := r.writer("kept")
	var gaps []time.Duration
	for range 3 {
		w.write(200)
		leader := r.partition("kept", 0).Leader
		_ = r.Node(leader).Kill()
		gaps = append(gaps, w.write(1))
		w.write(50)
		r.start(leader)
		r.wholeISR("kept", 0)
	}
	slices.Sort(gaps)
	t.Logf("from kill -9 to the next acknowledged write: %v", gaps)
	if longest := gaps[len(gaps)-1]; longest > 4*time.Second {
		t.Errorf("a write waited %v", longest)
	}
	w.readBack()
}
