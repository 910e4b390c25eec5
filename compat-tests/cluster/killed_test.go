package cluster

import (
	"slices"
	"sync"
	"testing"
	"time"

	"grete/compat-tests/kafka"
)

// Kill -9 of a partition's leader, again and again, under a producer with acks=all: the next write is acknowledged soon
// after the session of the dead broker, and what was acknowledged is there, once.
func TestLeaderIsKilled(t *testing.T) {
	r := start(t, kafka.ClusterOptions{})
	r.create("kept", 1)
	w := r.writer("kept", 0)
	var gaps []time.Duration
	for range longer(3, 20) {
		w.write(200)
		leader := r.partition("kept", 0).Leader
		r.kill(leader)
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
	r.sameLogs("kept", 0)
}

// FAULTS: "SIGSTOP of a leader past its session, then SIGCONT → old leader fenced, nothing diverges".
func TestLeaderIsPausedPastItsSession(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{})
	r.create("paused", 1)
	w := r.writer("paused", 0)
	w.write(50)
	for range longer(2, 10) {
		leader := r.partition("paused", 0).Leader
		if err := r.Node(leader).Pause(); err != nil {
			t.Fatal(err)
		}
		w.write(50) // of the next leader
		if err := r.Node(leader).Resume(); err != nil {
			t.Fatal(err)
		}
		if err := r.produceAt(leader, "paused", 0, -1, "of the old leader"); err == nil {
			t.Error("the old leader acknowledges")
		}
		w.write(50)
		r.wholeISR("paused", 0)
	}
	w.readBack()
	r.sameLogs("paused", 0)
}

// FAULTS: "Follower killed before its high watermark update, then the leader killed → no loss". What it has beyond its
// own high watermark may be all that is left of an acknowledged write.
func TestFollowerIsKilledThenItsLeader(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{Brokers: 5})
	r.create("kept", 1)
	w := r.writer("kept", 0)
	w.write(50)
	for range longer(3, 20) {
		p := r.partition("kept", 0)
		followers := slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return id == p.Leader })
		w.write(1)
		for _, id := range followers {
			r.kill(id)
		}
		r.kill(p.Leader)
		r.start(followers...)
		r.start(p.Leader)
		w.write(20)
		r.wholeISR("kept", 0)
	}
	w.readBack()
	r.sameLogs("kept", 0)
}

// FAULTS: "All brokers killed together and restarted → nothing acked lost".
func TestAllAreKilled(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{})
	r.create("kept", 3)
	writers := []*writer{r.writer("kept", 0), r.writer("kept", 1), r.writer("kept", 2)}
	for _, w := range writers {
		w.write(1) // a producer that begins while nobody answers gives up
	}
	for range longer(2, 10) {
		var writing sync.WaitGroup
		for _, w := range writers {
			writing.Go(func() { w.write(300) })
		}
		time.Sleep(50 * time.Millisecond)
		var killing sync.WaitGroup
		for _, n := range r.Nodes {
			killing.Go(func() { _ = n.Kill() })
		}
		killing.Wait()
		r.start()
		writing.Wait()
	}
	for _, w := range writers {
		w.readBack()
		r.sameLogs("kept", w.index)
	}
}

// kill is kill -9.
func (r *rig) kill(id int32) {
	r.t.Helper()
	if err := r.Node(id).Kill(); err != nil {
		r.t.Fatal(err)
	}
}
