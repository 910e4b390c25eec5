package raftlog

import (
	"context"
	"net"
	"os"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// underway is waited for what was sent before a cut: a connection that has ended brings nothing more, the network of
// the tests does.
const underway = 100 * time.Millisecond

// A leader that is gone is replaced long before its election timeout, by the voter with the lowest id; one that is said
// to be gone and lives stays in office or is followed by another, and nothing is lost.
func TestGoneLeaderIsReplacedAtOnce(t *testing.T) {
	for _, dies := range []bool{true, false} {
		n := startClusterWith(t, 1, 0, 5000)
		var leader *member
		for _, m := range n.nodes { // the first election would take seconds
			must(t, m.call(func() { must(t, m.raw.Campaign()) }))
			break
		}
		leader = n.commit(t, "a")
		if dies {
			n.isolate(leader.id, true)
			time.Sleep(underway)
		}
		began := time.Now()
		for _, m := range n.nodes {
			m.Gone(leader.id)
		}
		if dies {
			next := n.commit(t, "b")
			if took := time.Since(began); took > 2*time.Second || next == leader {
				t.Errorf("%d follows %d after %v", next.id, leader.id, took)
			}
		}
		n.isolate(leader.id, false)
		n.commit(t, "c")
		n.awaitEqual(t)
		for _, m := range n.nodes {
			n.stop(t, m)
		}
	}
}

// A leader that stops after all others does not wait for any of them.
func TestNobodyIsLeftToResignTo(t *testing.T) {
	n := startClusterWith(t, 3, 0, 5000)
	must(t, n.nodes[1].call(func() { must(t, n.nodes[1].raw.Campaign()) }))
	leader := n.commit(t, "a")
	n.awaitEqual(t)
	n.isolate(leader.id, true)
	time.Sleep(underway)
	for id := range n.nodes {
		if id != leader.id {
			if leader.MajorityGone() {
				t.Error("two of three are there, and a majority is gone")
			}
			leader.Gone(id)
		}
	}
	if !leader.MajorityGone() {
		t.Error("two of three are gone, and a majority is not")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	began := time.Now()
	must(t, leader.Resign(ctx))
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	for _, m := range n.nodes {
		n.stop(t, m)
	}
}

// Two voters that notice a death together do not campaign together.
func TestTurnsDiffer(t *testing.T) {
	n := startClusterWith(t, 2, 0, 5000)
	var waits []time.Duration
	for id := int32(1); id <= 3; id++ {
		m := n.nodes[id]
		must(t, m.call(func() {
			wait, votes := m.turn(2)
			if votes != (id != 2) {
				t.Errorf("node %d votes: %v", id, votes)
			}
			if votes {
				waits = append(waits, wait)
			}
		}))
	}
	if want := []time.Duration{50 * time.Millisecond, 550 * time.Millisecond}; !slices.Equal(waits, want) {
		t.Errorf("%v, want %v", waits, want)
	}
	for _, m := range n.nodes {
		n.stop(t, m)
	}
}

// severable is a listener whose connections can be cut.
type severable struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (s *severable) Accept() (net.Conn, error) {
	nc, err := s.Listener.Accept()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, nc)
	return nc, err
}

func (s *severable) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, nc := range s.conns {
		if nc != nil {
			nc.Close()
		}
	}
	s.conns = nil
}

// A node whose connection ends and whose machine then refuses is gone, though nothing is to be sent to it; one that
// accepts again is not.
func TestPeersNoticeADeath(t *testing.T) {
	server, in := peersOf(t, 1, "c", map[int32]string{})
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &severable{Listener: socket}
	serveOn(t, server, l)
	sender, out := peersOf(t, 2, "c", map[int32]string{1: l.Addr().String()})
	reach := func() { // what is sent while the connection is cut is lost
		t.Helper()
		for range 100 {
			sender.Send(message(raftpb.MsgHeartbeat, 2, 1, nil), nobody)
			select {
			case <-in.messages:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
		t.Fatal("not reached again")
	}
	for range 3 {
		reach()
		l.cut()
	}
	reach()
	select {
	case id := <-out.gone:
		t.Fatalf("node %d was there", id)
	default:
	}
	l.Close()
	l.cut()
	if id := receive(t, out.gone); id != 1 {
		t.Errorf("node %d is gone", id)
	}
}

// A voter whose log was cut behind its back, after a clean stop, knows it from the leader's heartbeats, and says what
// it waits for. The next leader begins with what it has.
func TestLostTailIsKnown(t *testing.T) {
	n := startCluster(t, 5, 0)
	defer n.stopAll(t)
	leader := n.commit(t, "a", "b", "c")
	n.awaitEqual(t)
	cut := n.nodes[leader.id%3+1]
	had := cut.log.EndOffset()
	if _, _, lost := cut.LostTail(); lost {
		t.Error("nothing is lost yet")
	}
	n.stop(t, cut)
	name := path.Join(logDir, "00000000000000000000.log")
	f, err := cut.fs.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	must(t, f.Truncate(size-1))
	must(t, f.Close())
	cut = n.start(t, cut.id, cut.fs)
	await := func(what string, f func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no %s in time", what)
			}
		}
	}
	await("word of what is lost", func() bool {
		went, goes, lost := cut.LostTail()
		return lost && went >= had && goes < had
	})
	n.isolate(leader.id, true)
	n.commit(t, "d")
	n.isolate(leader.id, false)
	await("whole log", func() bool { _, _, lost := cut.LostTail(); return !lost && cut.log.EndOffset() > had })
	n.awaitEqual(t)
}
