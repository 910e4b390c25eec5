package history_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grete/compat-tests/history/load"
	"grete/compat-tests/kafka"
	"grete/internal/history"
)

// liveCluster is live for several brokers.
func liveCluster(t *testing.T, o kafka.ClusterOptions) (load.Config, []load.Node) {
	t.Helper()
	if o.Security != nil && kafka.Apache() {
		t.Skip("the users, the certificates and the keys are ours")
	}
	cfg := config(t)
	if !long() {
		cfg.Duration = 15 * time.Second
	}
	cfg.Faults = load.ClusterKinds
	if kafka.Apache() {
		cfg.Faults = []string{load.KillNode, load.PauseNode, load.StopNode, load.KillAll} // its links are not ours to cut
	}
	return cfg, cfg.OnCluster(kafka.ClusterFor(t, context.Background(), o))
}

// TestThreeBrokers: brokers are killed, one or all, paused past their sessions, stopped, cut off, emptied and damaged
// in turn under every kind of client; with three replicas, of which two must have a record, nothing that was promised
// is broken.
func TestThreeBrokers(t *testing.T) {
	cfg, nodes := liveCluster(t, load.ClusterOptions(3))
	checkCluster(t, cfg, nodes)
}

// TestFiveBrokers: two of five are disturbed at the same time.
func TestFiveBrokers(t *testing.T) {
	if !long() && !kafka.Apache() {
		t.Skip("TestFiveSecuredBrokers does the same and more; HISTORY_SECONDS asks for both")
	}
	cfg, nodes := liveCluster(t, load.ClusterOptions(5))
	cfg.AtOnce = 2
	checkCluster(t, cfg, nodes)
}

// TestThreeSecuredBrokers is TestThreeBrokers where everybody authenticates over TLS: clients as users with the rights
// alone that they need, brokers by SCRAM to each other and by certificates to controllers.
// Sessions are short, and gossip is encrypted.
func TestThreeSecuredBrokers(t *testing.T) {
	if !long() {
		t.Skip("HISTORY_SECONDS asks for it")
	}
	cfg, nodes := liveCluster(t, load.SecuredOptions(3, "SSL"))
	checkCluster(t, cfg, nodes)
}

// TestFiveSecuredBrokers is TestFiveBrokers in the same way, and controllers ask for SCRAM, too.
func TestFiveSecuredBrokers(t *testing.T) {
	cfg, nodes := liveCluster(t, load.SecuredOptions(5, "SASL_SSL"))
	cfg.AtOnce = 2
	checkCluster(t, cfg, nodes)
}

// long says that HISTORY_SECONDS asks for long runs.
func long() bool { return os.Getenv("HISTORY_SECONDS") != "" }

func checkCluster(t *testing.T, cfg load.Config, nodes []load.Node) {
	t.Helper()
	r := runAndCheck(t, cfg, nodes...)
	if !r.OK() {
		t.Fatal("not what Kafka promises")
	}
	if cfg.Access != nil {
		checkLogs(t, nodes)
	}
	if s := r.Stats; s.Acked < 1000 || s.Read < s.Acked || s.Faults < 1 || s.Crashes < 2 || s.FinalReaders != 2 || s.Replaced == 0 {
		t.Fatalf("the run shows too little: %+v", s)
	}
}

// checkLogs: a user with the rights that it needs is never denied anything, and a user with the right password gets in,
// whatever has become of the broker that it asks.
func checkLogs(t *testing.T, nodes []load.Node) {
	t.Helper()
	for _, n := range nodes {
		log, err := os.ReadFile(n.(*kafka.Node).LogPath())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "denied") || strings.Contains(line, "authentication failed") {
				t.Errorf("%s: %s", n.Addr(), line)
			}
		}
	}
}

// TestClusterFindsLoss: the run that finds nothing elsewhere finds brokers that all forget the same.
func TestClusterFindsLoss(t *testing.T) {
	cfg, nodes := liveCluster(t, load.ClusterOptions(3))
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
