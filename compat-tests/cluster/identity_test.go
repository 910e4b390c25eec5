package cluster

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

// FAULTS: "A node id reused → no false leadership, no loss". A second process with the id of one that runs is not let
// in, and the first one serves on.
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

// FAULTS: "A node back with an empty directory → no false leadership, no loss". It is told apart from the one that it
// was: as a voter of the quorum it may have promised what it has forgotten, so that its old vote goes and a new one
// comes. It fetches all that it had. Its old directory is a voter's no more.
func TestNodeIsBackEmpty(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{})
	r.create("kept", 3)
	o, stop := r.observe()
	w := r.writer("kept", 0)
	w.write(50)
	for _, lost := range []int32{r.partition("kept", 0).Leader, r.controller()} {
		r.kill(lost)
		dir := r.Node(lost).Dir()
		if err := os.RemoveAll(dir + ".aside"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir, dir+".aside"); err != nil {
			t.Fatal(err)
		}
		w.write(50)
		r.start(lost)
		w.write(50)
		r.wholeISR("kept", 0)
		r.votes(3)
	}
	stop()
	for _, broken := range o.broken {
		t.Error(broken)
	}
	r.nothingMissing()
	w.readBack()
	r.sameLogs("kept", 0)

	last := r.controller()%3 + 1
	r.kill(last)
	dir := r.Node(last).Dir()
	if err := os.Rename(dir, dir+".aside2"); err != nil {
		t.Fatal(err)
	}
	r.start(last)
	r.votes(3)
	r.kill(last)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".aside2", dir); err != nil {
		t.Fatal(err)
	}
	if err := r.Node(last).Start(r.ctx); err == nil || !strings.Contains(err.Error(), "ended at start") {
		t.Errorf("a disk that was lost and found: %v", err)
	}
	if said := lastLine(r.Node(last).LogPath()); !strings.Contains(said, "votes in cluster") || !strings.Contains(said, "comes with directory") {
		t.Errorf("broker %d said: %s", last, said)
	}
}

// votes waits until that many nodes vote in the metadata quorum.
func (r *rig) votes(count int) {
	r.t.Helper()
	r.eventually("votes", func() bool {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
		resp, err := req.RequestWith(r.ctx, r.cl)
		return err == nil && len(resp.Topics) == 1 && len(resp.Topics[0].Partitions[0].CurrentVoters) == count
	})
}

func lastLine(path string) string {
	text, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
