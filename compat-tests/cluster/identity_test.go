package cluster

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"grete/compat-tests/kafka"
)

// FAULTS: "A node id reused → no false leadership, no loss". A second process with the id of one that runs is not let in, and the first one serves on.
func TestNodeIDIsReused(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{})
	r.create("kept", 3)
	o, stop := r.observe()
	w := r.writer("kept", 0)
	w.write(50)
	double, err := r.Double(3)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 5*time.Second)
	defer cancel()
	if err := double.Start(ctx); err == nil || !strings.Contains(err.Error(), "ended at start") {
		_ = double.Kill()
		t.Errorf("a second broker 3: %v", err)
	}
	if said := lastLine(double.LogPath()); !strings.Contains(said, "has this one's node.id 3") {
		t.Errorf("the second broker 3 said: %s", said)
	}
	w.write(50)
	stop()
	for _, broken := range o.broken {
		t.Error(broken)
	}
	r.nothingMissing()
	w.readBack()
	r.sameLogs("kept", 0)
}

// FAULTS: "A node back with an empty directory → no false leadership, no loss". It is told apart from the one that it was: as a voter of the
// quorum it may have promised what it has forgotten. With its directory back it serves again.
func TestNodeIsBackEmpty(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{})
	r.create("kept", 3)
	o, stop := r.observe()
	w := r.writer("kept", 0)
	w.write(50)
	lost := r.partition("kept", 0).Leader
	r.kill(lost)
	dir := r.Node(lost).Dir()
	if err := os.Rename(dir, dir+".aside"); err != nil {
		t.Fatal(err)
	}
	w.write(50)
	if err := r.Node(lost).Start(r.ctx); err == nil || !strings.Contains(err.Error(), "ended at start") {
		t.Errorf("a voter with an empty directory: %v", err)
	}
	t.Logf("broker %d said: %s", lost, lastLine(r.Node(lost).LogPath()))
	w.write(50)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".aside", dir); err != nil {
		t.Fatal(err)
	}
	r.start(lost)
	r.wholeISR("kept", 0)
	stop()
	for _, broken := range o.broken {
		t.Error(broken)
	}
	w.readBack()
	r.sameLogs("kept", 0)
}

func lastLine(path string) string {
	text, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
