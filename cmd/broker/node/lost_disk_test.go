package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/cluster/raftlog"
	"grete/internal/vfs"
)

// wipe gives node i, which is stopped, an empty disk, and returns the old one and its directory id.
func (c *nodes) wipe(i int) (was vfs.FS, directory string) {
	was, directory = c.options[i].FS, c.directory(i)
	c.options[i].FS = vfs.NewMem()
	return was, directory
}

// inSync waits until all replicas of a topic are in sync, as node i knows.
func (c *nodes) inSync(i int, topic string, replicas int) {
	c.t.Helper()
	c.eventually("whole ISR of "+topic, func() bool {
		at := c.running[i].image().Topic(topic)
		return at != nil && len(at.Partitions[0].ISR) == replicas
	})
}

// requireAnew holds node i to a membership with a new directory.
func (c *nodes) requireAnew(i int, lost string) {
	c.t.Helper()
	for j, n := range c.running {
		if n == nil || c.stopped[j] {
			continue
		}
		c.eventually(fmt.Sprintf("directory of node %d on node %d", i+1, j+1), func() bool {
			m, known := n.members().Find(int32(i + 1))
			return known && m.Voter && m.DirectoryID.String() == c.directory(i) && m.DirectoryID.String() != lost
		})
	}
}

// A voter whose disk is lost comes back by itself: its old vote is taken out and the new one let in, each with a line
// of the log, and its replicas are fetched anew. That goes for the first of the voters and for one that led the quorum,
// too, and again and again.
func TestLostDiskComesBack(t *testing.T) {
	c := newNodes(t, 3, "min.insync.replicas=2")
	var logs []*logged
	for i := range 3 {
		logs = append(logs, c.logs(i))
	}
	c.start(0, 1, 2)
	c.wantVoters(1, 2, 3)
	if err := c.create(0, "kept", 3); err != nil {
		t.Fatal(err)
	}
	c.inSync(0, "kept", 3)
	written := 0
	for _, i := range []int{2, 0, c.leader()} {
		produce(t, client(t, c.running[(i+1)%3]), "kept", written, written+50)
		written += 50
		c.stop(i)
		_, lost := c.wipe(i)
		log := c.logs(i)
		c.start(i)
		c.wantVoters(1, 2, 3)
		c.requireAnew(i, lost)
		log.require(t, "this node votes in the metadata quorum from now on")
		c.inSync(i, "kept", 3)
		out, in := 0, 0
		for _, l := range logs {
			of := fmt.Sprintf("\"lost_directory\":%q", lost)
			out += l.count("its vote is taken out of the metadata quorum\"", of)
			in += l.count("is let into the metadata quorum anew\"", of)
		}
		if out != 1 || in != 1 {
			t.Errorf("the leaders said %d times that the vote goes, and %d times that the node comes:\n%s", out, in, c.said(logs))
		}
		logs[i] = log
	}
	for i := range 3 {
		p, err := c.running[i].replicas.Partition("kept", 0)
		if err != nil {
			t.Fatal(err)
		}
		c.eventually(fmt.Sprintf("all records on node %d", i+1), func() bool { return p.Log().EndOffset() == int64(written) })
	}
	consume(t, client(t, c.running[2], kgo.ConsumeTopics("kept"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), written)
}

// said are the lines about lost disks.
func (c *nodes) said(logs []*logged) (out string) {
	for i, l := range logs {
		for line := range strings.Lines(l.text.String()) {
			if strings.Contains(line, "lost its disk") {
				out += fmt.Sprint(i+1, ": ", line)
			}
		}
	}
	return out
}

// Without a majority of the others nothing is decided: the node waits, and says so. When they are there again it comes
// back.
func TestLostDiskWaitsForAMajority(t *testing.T) {
	c := newNodes(t, 3)
	adminAt, clientsAt := c.watched(2)
	c.start(0, 1, 2)
	c.wantVoters(1, 2, 3)
	c.stop(1)
	c.stop(2)
	_, lost := c.wipe(2)
	log := c.logs(2)
	ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() {
		c.requireWaiting(adminAt, clientsAt, "starting: waiting to be let into the metadata quorum: ", "; for 1s")
	})
	defer watching.Wait()
	if n, err := Start(ctx, c.options[2]); !errors.Is(err, errNoLeader) {
		if err == nil {
			stopNode(t, n)
		}
		t.Fatalf("without a majority: %v", err)
	}
	if lines := log.count(`"message":"waiting to be let into the metadata quorum"`); lines != 1 {
		t.Errorf("%d lines about the wait", lines)
	}
	if m, _ := c.running[0].members().Find(3); !m.Voter || m.DirectoryID.String() != lost {
		t.Errorf("a vote was taken out without a majority: %+v", m)
	}
	var back sync.WaitGroup
	back.Go(func() { c.start(1) })
	c.start(2)
	back.Wait()
	c.wantVoters(1, 2, 3)
	c.requireAnew(2, lost)
}

// Whoever comes with the id of a voter that is only cut off, and that nobody can ask, is refused; and the disk that was
// lost and is found again is no voter any more.
func TestVoteThatIsNotLost(t *testing.T) {
	c := newNodes(t, 3)
	c.start(0, 1, 2)
	c.wantVoters(1, 2, 3)
	c.wires[2].set(true)
	twin := c.add("node.id=3", "controller.quorum.voters="+c.options[0].Config.Text("controller.quorum.voters"), "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://"+freePorts(t, 1)[0])
	c.refused(twin, "node 3 votes in cluster "+c.running[0].ClusterID(), c.directory(2), "remove-controller")
	c.wires[2].set(false)
	c.wantVoters(1, 2, 3)

	c.stop(2)
	found, lost := c.wipe(2)
	c.start(2)
	c.requireAnew(2, lost)
	c.stop(2)
	c.options[2].FS = found
	c.refused(2, "node 3 votes in cluster", "comes with directory "+lost)
}

// A member's addresses answer with who is there, and a node that has the metadata log does not say that it lacks it.
func TestWhoAnswersForAMember(t *testing.T) {
	c := newNodes(t, 1)
	c.start(0)
	if n := c.running[0]; n.emptied() {
		t.Error("a node with a metadata log says that it has none")
	}
	if got := c.running[0].answering(t.Context(), raftlog.Member{NodeID: 1, Listeners: c.running[0].controllerEndpoints()}); len(got) != 1 || got[0].NodeID != 1 ||
		got[0].Incarnation != c.running[0].incarnation || !strings.Contains(got[0].Address, "127.0.0.1:") {
		t.Errorf("%+v", got)
	}
}
