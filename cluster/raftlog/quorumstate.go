package raftlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"

	"grete/cluster/metadata"
	"grete/internal/uuid"
	"grete/internal/vfs"
)

// quorumStateFile is Kafka's name for the file that holds the vote.
const quorumStateFile = "quorum-state"

// maxQuorumStateBytes is more than thousands of members need.
const maxQuorumStateBytes = 1 << 20

// quorumState is the quorum-state file: Kafka's fields (QuorumStateData, both versions of it), a checksum, because a
// vote misread elects two leaders, and the configuration. Term and vote of Raft are leaderEpoch and votedId.
//
// The configuration is here because the commit index is not kept: a node that began again with the configuration of its
// newest snapshot could elect itself without those that have joined since. What is here was committed, and so was
// everything before MembersEnd.
type quorumState struct {
	LeaderID         int32       `json:"leaderId"`
	LeaderEpoch      int32       `json:"leaderEpoch"`
	VotedID          int32       `json:"votedId"`
	VotedDirectoryID string      `json:"votedDirectoryId"`
	CurrentVoters    []stateNode `json:"currentVoters"`
	Learners         []stateNode `json:"learners,omitempty"`
	MembersEnd       int64       `json:"membersEnd,omitempty"` // from this offset on the configuration is valid
	// Installing is the end of a snapshot of the leader that takes the place of the log; 0: none.
	Installing  int64  `json:"installing,omitempty"`
	DataVersion int16  `json:"data_version"`
	Checksum    uint32 `json:"crc32c"` // of this object encoded with 0 here
}

// stateNode is a Member.
type stateNode struct {
	VoterID     int32               `json:"voterId"`
	DirectoryID string              `json:"directoryId,omitempty"`
	Listeners   []metadata.Endpoint `json:"listeners,omitempty"`
}

const quorumStateVersion = 1

// newQuorumState is that of a node that has seen no election yet.
func newQuorumState(members Members) quorumState {
	s := quorumState{
		LeaderID: -1, VotedID: -1, VotedDirectoryID: metadata.ZeroUUID.String(), DataVersion: quorumStateVersion,
	}
	s.setMembers(0, members)
	return s
}

func (s *quorumState) setMembers(end int64, members Members) {
	s.MembersEnd, s.CurrentVoters, s.Learners = end, nil, nil
	for _, m := range members {
		n := stateNode{VoterID: m.NodeID, Listeners: m.Listeners}
		if m.DirectoryID != metadata.ZeroUUID {
			n.DirectoryID = m.DirectoryID.String()
		}
		if m.Voter {
			s.CurrentVoters = append(s.CurrentVoters, n)
		} else {
			s.Learners = append(s.Learners, n)
		}
	}
}

func (s *quorumState) members() (ms Members, err error) {
	add := func(nodes []stateNode, voter bool) {
		for _, n := range nodes {
			m := Member{NodeID: n.VoterID, Voter: voter, Listeners: n.Listeners}
			if n.DirectoryID != "" {
				var bad error
				m.DirectoryID, bad = uuid.Parse(n.DirectoryID)
				err = errors.Join(err, bad)
			}
			ms = ms.with(m)
		}
	}
	add(s.CurrentVoters, true)
	add(s.Learners, false)
	return ms, err
}

func (s quorumState) encode() []byte {
	s.Checksum = 0
	raw, _ := json.Marshal(s) // plain numbers and strings cannot fail
	s.Checksum = crc32.Checksum(raw, crc32.MakeTable(crc32.Castagnoli))
	raw, _ = json.Marshal(s)
	return raw
}

func decodeQuorumState(raw []byte) (quorumState, error) {
	var s quorumState
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, err
	}
	if !bytes.Equal(bytes.TrimSpace(raw), s.encode()) {
		return s, errors.New("its checksum does not match")
	}
	if s.DataVersion != quorumStateVersion {
		return s, fmt.Errorf("its version is %d, not %d", s.DataVersion, quorumStateVersion)
	}
	_, err := s.members()
	return s, err
}

// loadQuorumState returns the state of dir, and whether there is one.
func loadQuorumState(fsys vfs.FS, dir string) (quorumState, bool, error) {
	name := path.Join(dir, quorumStateFile)
	raw, err := vfs.ReadFile(fsys, name, maxQuorumStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return quorumState{}, false, nil
	}
	if err != nil {
		return quorumState{}, false, err
	}
	s, err := decodeQuorumState(raw)
	if err != nil {
		return s, false, damaged(name, "the vote file is damaged: %w", err)
	}
	return s, true, nil
}

func (s quorumState) save(fsys vfs.FS, dir string) error {
	return vfs.ReplaceFile(fsys, path.Join(dir, quorumStateFile), ".tmp", func(w io.Writer) error {
		_, err := w.Write(s.encode())
		return err
	})
}
