package history_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"grete/compat-tests/history/load"
	"grete/compat-tests/kafka"
	"grete/internal/history"
)

// liveCluster is live for several brokers.
func liveCluster(t *testing.T, brokers int) (load.Config, []load.Node) {
	t.Helper()
	cfg := config(t)
	if os.Getenv("HISTORY_SECONDS") == "" {
		cfg.Duration = 15 * time.Second
	}
	cfg.Faults = load.ClusterKinds
	if kafka.Apache() {
		cfg.Faults = []string{load.KillNode, load.PauseNode, load.StopNode, load.KillAll} // its links are not ours to cut
	}
	return cfg, cfg.OnCluster(kafka.ClusterFor(t, context.Background(), load.ClusterOptions(brokers)))
}

// TestThreeBrokers: brokers are killed, one or all, paused past their sessions, stopped, cut off, emptied and damaged in turn
// under every kind of client; with three replicas, of which two must have a record, nothing that was promised is broken.
func TestThreeBrokers(t *testing.T) {
	cfg, nodes := liveCluster(t, 3)
	checkCluster(t, cfg, nodes)
}

// TestFiveBrokers: two of five are disturbed at the same time.
func TestFiveBrokers(t *testing.T) {
	cfg, nodes := liveCluster(t, 5)
	cfg.AtOnce = 2
	checkCluster(t, cfg, nodes)
}

func checkCluster(t *testing.T, cfg load.Config, nodes []load.Node) {
	t.Helper()
	r := runAndCheck(t, cfg, nodes...)
	if !r.OK() {
		t.Fatal("not what Kafka promises")
	}
	if s := r.Stats; s.Acked < 1000 || s.Read < s.Acked || s.Faults < 1 || s.Crashes < 2 || s.FinalReaders != 2 || s.Replaced == 0 {
		t.Fatalf("the run shows too little: %+v", s)
	}
}

// TestClusterFindsLoss: the run that finds nothing elsewhere finds brokers that all forget the same.
func TestClusterFindsLoss(t *testing.T) {
	cfg, nodes := liveCluster(t, 3)
	cfg.Duration, cfg.Faults, cfg.Transactional, cfg.Copiers, cfg.Plain = 10*time.Second, []string{load.KillAll}, 0, 0, 0
	var all []*forgetful
	for i, n := range nodes {
		all = append(all, &forgetful{Node: n, segment: filepath.Join(n.Dir(), load.IdempotentTopic+"-0", "00000000000000000000.log")})
		nodes[i] = all[i]
	}
	r := runAndCheck(t, cfg, nodes...)
	for _, f := range all {
		if f.err != nil {
			t.Fatal(f.err)
		}
	}
	if r.Found[history.Lost] == 0 {
		t.Fatal("the loss was not found")
	}
}
