package raftlog

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"grete/protocol/batch"
)

// errForeign is a message that no node of ours would send here.
var errForeign = errors.New("not a message of the quorum")

// fromPeers are the messages that nodes send each other; the rest is Raft's own talk with itself, and proposals, which
// are never forwarded.
var fromPeers = map[raftpb.MessageType]bool{
	raftpb.MsgApp: true, raftpb.MsgAppResp: true, raftpb.MsgVote: true, raftpb.MsgVoteResp: true, raftpb.MsgSnap: true,
	raftpb.MsgHeartbeat: true, raftpb.MsgHeartbeatResp: true, raftpb.MsgTimeoutNow: true, raftpb.MsgPreVote: true, raftpb.MsgPreVoteResp: true,
}

// fromLearners are the messages that one without a vote sends: nothing that makes a leader, ends one, or commits.
var fromLearners = map[raftpb.MessageType]bool{raftpb.MsgAppResp: true, raftpb.MsgHeartbeatResp: true}

// answers are the messages that count for a majority, or for the log of their sender: they are true of the directory
// that was asked alone.
var answers = map[raftpb.MessageType]bool{
	raftpb.MsgAppResp: true, raftpb.MsgHeartbeatResp: true, raftpb.MsgVoteResp: true, raftpb.MsgPreVoteResp: true,
}

// checkMessage refuses what would make Raft panic or the log fail: Raft trusts its peers.
func checkMessage(m *raftpb.Message, from, to int32) error {
	switch {
	case !fromPeers[m.GetType()]:
		return fmt.Errorf("%w: type %v", errForeign, m.GetType())
	case m.GetFrom() != raftID(from) || m.GetTo() != raftID(to):
		return fmt.Errorf("%w: from %d to %d", errForeign, m.GetFrom(), m.GetTo())
	case m.GetTerm() == 0 || m.GetTerm() > maxTerm || m.GetLogTerm() > m.GetTerm() && m.GetType() == raftpb.MsgApp:
		return fmt.Errorf("%w: term %d, log term %d", errForeign, m.GetTerm(), m.GetLogTerm())
	case m.GetIndex() > maxIndex || m.GetCommit() > maxIndex:
		return fmt.Errorf("%w: index %d", errForeign, m.GetIndex())
	case m.GetType() == raftpb.MsgSnap:
		return checkSnapshotMessage(m)
	case len(m.Entries) > 0 && m.GetType() != raftpb.MsgApp:
		return fmt.Errorf("%w: entries in %v", errForeign, m.GetType())
	}
	return checkEntries(m)
}

func checkSnapshotMessage(m *raftpb.Message) error {
	meta := m.GetSnapshot().GetMetadata()
	id := snapshotID{int64(meta.GetIndex()), int32(meta.GetTerm())}
	if meta.GetConfState() == nil || id.end <= 0 || meta.GetTerm() > m.GetTerm() {
		return fmt.Errorf("%w: snapshot %d of term %d", errForeign, meta.GetIndex(), meta.GetTerm())
	}
	if _, err := checkSnapshot(id, m.GetSnapshot().Data); err != nil {
		return errors.Join(errForeign, err)
	}
	return nil
}

// checkEntries: one after the other, of terms that do not fall or exceed the message's, batches whole and sound.
func checkEntries(m *raftpb.Message) error {
	term := m.GetLogTerm()
	left := 0 // entries that the last batch still has
	for i, e := range m.Entries {
		if e.GetIndex() != m.GetIndex()+uint64(i)+1 || e.GetTerm() < term || e.GetTerm() > m.GetTerm() {
			return fmt.Errorf("%w: entry %d of term %d", errForeign, e.GetIndex(), e.GetTerm())
		}
		term = e.GetTerm()
		if left > 0 {
			if e.GetType() != raftpb.EntryNormal || len(e.Data) > 0 {
				return fmt.Errorf("%w: entry %d lies within a batch", errForeign, e.GetIndex())
			}
			left--
			continue
		}
		if err := checkHead(e); err != nil {
			return err
		}
		left = entryCount(e) - 1
	}
	return nil
}

// checkChange: a change of one node that leaves a voter, and the configuration that it makes.
func checkChange(e *raftpb.Entry) error {
	var c raftpb.ConfChangeV2
	if err := proto.Unmarshal(e.Data, &c); err != nil {
		return fmt.Errorf("%w: entry %d: %w", errForeign, e.GetIndex(), err)
	}
	members, err := decodeMembers(c.Context)
	if err != nil || len(c.Changes) != 1 || len(members.Voters()) == 0 {
		return fmt.Errorf("%w: entry %d is no change of the quorum", errForeign, e.GetIndex())
	}
	return nil
}

// checkHead checks an entry that begins a batch.
func checkHead(e *raftpb.Entry) error {
	switch e.GetType() {
	case raftpb.EntryConfChangeV2:
		return checkChange(e)
	case raftpb.EntryNormal:
		if len(e.Data) == 0 {
			return nil
		}
		b, rest, err := batch.Next(e.Data)
		if err != nil || len(rest) > 0 || !b.ChecksumOK() || b.LastOffsetDelta() < 0 {
			return fmt.Errorf("%w: entry %d holds no batch", errForeign, e.GetIndex())
		}
		return nil
	}
	return fmt.Errorf("%w: entry %d of type %v", errForeign, e.GetIndex(), e.GetType())
}
