package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"grete/internal/vfs"
)

// watched gives node i an admin listener and a port for clients that the test knows before the node has started.
func (c *nodes) watched(i int, properties ...string) (adminAt, clientsAt string) {
	at := freePorts(c.t, 2)
	controllers := c.options[i].Config.Controllers[0].Address()
	c.options[i].Config = options(c.t, c.disks[i], append(properties, "node.id="+c.options[i].Config.Text("node.id"), "broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500",
		"controller.quorum.voters="+c.options[i].Config.Text("controller.quorum.voters"), "admin.listen="+at[0], "listeners=PLAINTEXT://"+at[1]+",CONTROLLER://"+controllers)...).Config
	return at[0], at[1]
}

// probe is an answer of the admin listener; 0 where there is none.
func probe(address, path string) (int, string) {
	resp, err := http.Get("http://" + address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// requireWaiting holds a node to what whoever watches it, and clients, must see as long as it has not started.
func (c *nodes) requireWaiting(adminAt, clientsAt string, why ...string) {
	c.t.Helper()
	body := ""
	c.eventually(fmt.Sprintf("readiness that says %q", why), func() bool {
		code := 0
		code, body = probe(adminAt, "/readyz")
		for _, text := range why {
			if !strings.Contains(body, text) {
				return false
			}
		}
		return code == http.StatusServiceUnavailable && strings.Count(body, "\n") == 1
	})
	if code, body := probe(adminAt, "/healthz"); code != http.StatusOK {
		c.t.Errorf("/healthz: %d %s", code, body)
	}
	if code, body := probe(adminAt, "/metrics"); code != http.StatusOK || !strings.Contains(body, "process_open_fds") {
		c.t.Errorf("/metrics: %d", code)
	}
	if nc, err := net.Dial("tcp", clientsAt); !errors.Is(err, syscall.ECONNREFUSED) {
		c.t.Errorf("a client's connection before the node serves: %v, %v", nc, err)
	}
}

func (c *nodes) requireServing(adminAt, clientsAt string) {
	c.t.Helper()
	c.eventually("readiness", func() bool { code, _ := probe(adminAt, "/readyz"); return code == http.StatusOK })
	nc, err := net.Dial("tcp", clientsAt)
	if err != nil {
		c.t.Fatal(err)
	}
	nc.Close()
}

// A node that waits for others is alive and not ready, says what it waits for, and refuses clients, though its port is
// taken; one that starts again while there is no majority, too.
func TestWaitingNodeSaysWhy(t *testing.T) {
	c := newNodes(t, 3)
	adminAt, clientsAt := c.watched(1)
	var waiting sync.WaitGroup
	waiting.Go(func() { c.start(1) })
	c.requireWaiting(adminAt, clientsAt, "starting: waiting for other nodes to form a cluster: no answer from ", c.options[0].Config.Controllers[0].Address())
	if _, err := Start(t.Context(), options(t, vfs.NewMem(), "listeners=PLAINTEXT://"+clientsAt)); err == nil || !strings.Contains(err.Error(), "listener PLAINTEXT cannot listen on "+clientsAt+": bind: address already in use") {
		t.Errorf("the port of a node that waits: %v", err)
	}
	c.start(0, 2)
	waiting.Wait()
	c.requireServing(adminAt, clientsAt)
	for i := range 3 {
		c.stop(i)
	}
	waiting.Go(func() { c.start(1) })
	c.requireWaiting(adminAt, clientsAt, "starting: waiting for the metadata quorum: ", "it has no leader")
	c.start(2)
	waiting.Wait()
	c.requireServing(adminAt, clientsAt)
}

// A node that reads its logs does so behind a closed door.
func TestRecoveringNodeSaysWhy(t *testing.T) {
	c := newNodes(t, 1)
	adminAt, clientsAt := c.watched(0)
	disk, goOn := vfs.NewFaulty(c.disks[0]), make(chan struct{})
	disk.Inject(func(op vfs.Op) error {
		if strings.Contains(op.Name, "recovery-point-offset-checkpoint") {
			<-goOn
		}
		return nil
	})
	c.options[0].FS = disk
	var waiting sync.WaitGroup
	waiting.Go(func() { c.start(0) })
	c.requireWaiting(adminAt, clientsAt, "starting: opening the logs")
	close(goOn)
	waiting.Wait()
	c.requireServing(adminAt, clientsAt)
}

// A start that is given up closes the admin listener, too.
func TestAdminListenerEndsWithTheStart(t *testing.T) {
	c := newNodes(t, 3)
	adminAt, _ := c.watched(0)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if n, err := Start(ctx, c.options[0]); err == nil {
		stopNode(t, n)
		t.Fatal("it started")
	}
	if nc, err := net.Dial("tcp", adminAt); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, %v", nc, err)
	}
}
