package raftlog

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"grete/cluster/metadata"
	"grete/internal/vfs"
)

// A leader whose disk fails acknowledges nothing more and is replaced: for good when a write or an fsync fails, for as
// long as it lasts when the disk is full. What was committed is there, and what the leader could not write is nowhere
// counted on.
func TestLeadersDiskFails(t *testing.T) {
	for name, fault := range map[string]struct {
		kind vfs.OpKind
		err  error
	}{"fsync": {vfs.OpSync, syscall.EIO}, "write": {vfs.OpWrite, syscall.EIO}, "full": {vfs.OpWrite, syscall.ENOSPC}} {
		t.Run(name, func(t *testing.T) {
			n := startCluster(t, 11, 0)
			old := n.commit(t, "before")
			n.awaitEqual(t)
			committed := old.CommittedEnd()
			old.failed.Store(true)
			old.disk.Inject(vfs.FailMatching(func(op vfs.Op) bool { return op.Kind == fault.kind }, fault.err))
			_, _ = old.Propose(context.Background(), old.leader.Load().Epoch, values(t, "lost"))
			begin := time.Now()
			next := n.commitBut(t, old.id, "after")
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("the next commit took %v", took)
			}
			if next == old {
				t.Errorf("node %d leads on", old.id)
			}
			if end := old.CommittedEnd(); end > committed && fault.err == syscall.EIO {
				t.Errorf("it knows of commits up to %d after its disk failed at %d", end, committed)
			}
			if fault.err == syscall.ENOSPC {
				old.disk.Inject(nil) // room again: it goes on by itself
				n.commit(t, "with room")
				n.awaitEqual(t)
			} else if err := old.Failure(); !errors.Is(err, fault.err) {
				t.Errorf("it says %v", err)
			}
			old.disk.Inject(nil)
			texts := string(next.content(t, 0))
			if !strings.Contains(texts, "before") || !strings.Contains(texts, "after") {
				t.Error("committed records are gone")
			}
			for _, m := range n.nodes {
				n.mu.Lock()
				delete(n.nodes, m.id)
				n.mu.Unlock()
				m.Stop()
				_ = m.store.Close()
			}
		})
	}
}

// commitBut has another node than id commit.
func (n *network) commitBut(t *testing.T, id int32, text string) *member {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		for _, m := range n.nodes {
			if m.id == id || m.leader.Load().NodeID != m.id {
				continue
			}
			end, err := m.Propose(context.Background(), m.leader.Load().Epoch, values(t, text))
			for i := 0; err == nil && i < 1000 && m.leader.Load().NodeID == m.id; i++ {
				if m.CommittedEnd() >= end {
					return m
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	t.Fatal("no other node leads")
	return nil
}

// A crash between the arrival of a leader's snapshot and the log's new beginning: the next start finishes it. Without
// the note that such a snapshot was on its way, a log that ends before its snapshot is damaged.
func TestInstallIsFinished(t *testing.T) {
	for _, noted := range []bool{true, false} {
		fsys := newDisk(t)
		must(t, Begin(fsys, logDir, nil))
		members := Members{voter(1), learner(0)}
		must(t, writeSnapshot(fsys, logDir, snapshotID{50, 3}, members, 1, oneValue("state")))
		state := newQuorumState(nil)
		state.LeaderEpoch = 3
		if noted {
			state.Installing = 50
		}
		must(t, state.save(fsys, logDir))
		r := &rig{store: openStore(t, fsys, dataDir, testSegmentBytes)}
		var err error
		r.log, err = r.store.Create(logID, metadata.MetadataTopicID, logConfig(testSegmentBytes))
		must(t, err)
		r.Node, err = Open(Options{NodeID: 0, Voters: []int32{}, Log: r.log, FS: fsys, Dir: logDir})
		if noted {
			must(t, err)
			if s, ok := r.TakeSnapshot(); !ok || s.End != 50 || r.log.EndOffset() != 50 || len(r.Members()) != 2 {
				t.Errorf("%v, the log ends at %d, members %v", ok, r.log.EndOffset(), r.Members())
			}
		} else if !errors.Is(err, ErrDamaged) {
			t.Errorf("%v", err)
		}
		must(t, r.store.Close())
	}
}
