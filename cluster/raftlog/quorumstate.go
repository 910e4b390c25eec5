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
	"grete/internal/vfs"
)

// quorumStateFile is Kafka's name for the file that holds the vote.
const quorumStateFile = "quorum-state"

// maxQuorumStateBytes is more than thousands of voters need.
const maxQuorumStateBytes = 1 << 20

// quorumState is the quorum-state file: Kafka's fields (QuorumStateData, both versions of it), and a checksum,
// because a vote misread elects two leaders. Term and vote of Raft are leaderEpoch and votedId.
type quorumState struct {
	LeaderID         int32   `json:"leaderId"`
	LeaderEpoch      int32   `json:"leaderEpoch"`
	VotedID          int32   `json:"votedId"`
	VotedDirectoryID string  `json:"votedDirectoryId"`
	CurrentVoters    []voter `json:"currentVoters"` // the voters with which the log began
	DataVersion      int16   `json:"data_version"`
	Checksum         uint32  `json:"crc32c"` // of this object encoded with 0 here
}

type voter struct {
	VoterID int32 `json:"voterId"`
}

const quorumStateVersion = 1

// newQuorumState is that of a node that has seen no election yet.
func newQuorumState(voters []int32) quorumState {
	s := quorumState{
		LeaderID: -1, VotedID: -1, VotedDirectoryID: metadata.ZeroUUID.String(), DataVersion: quorumStateVersion,
	}
	for _, id := range voters {
		s.CurrentVoters = append(s.CurrentVoters, voter{id})
	}
	return s
}

func (s quorumState) voters() []int32 {
	ids := make([]int32, len(s.CurrentVoters))
	for i, v := range s.CurrentVoters {
		ids[i] = v.VoterID
	}
	return ids
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
	return s, nil
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
