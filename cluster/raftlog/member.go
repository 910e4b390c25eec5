package raftlog

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"go.etcd.io/raft/v3/raftpb"

	"grete/cluster/metadata"
)

// Member is a node of the quorum: a voter, or a learner, which follows the log without a vote (Kafka's observer).
type Member struct {
	NodeID int32
	// DirectoryID is that of the node's metadata directory (KIP-853): a node whose directory was emptied is another
	// member. Zero: not known, and whatever the node has is right.
	DirectoryID metadata.UUID
	Voter       bool
	// Listeners are the node's controller listeners, where the others reach it; a node without any polls the voters.
	Listeners []metadata.Endpoint
}

// Is says whether directory may be this member's.
func (m Member) Is(directory metadata.UUID) bool {
	return m.DirectoryID == metadata.ZeroUUID || m.DirectoryID == directory
}

// Equal compares all of two members.
func (m Member) Equal(o Member) bool {
	return m.NodeID == o.NodeID && m.DirectoryID == o.DirectoryID && m.Voter == o.Voter && slices.Equal(m.Listeners, o.Listeners)
}

// Members are a configuration of the quorum, by id.
type Members []Member

// Find returns the member of that id.
func (ms Members) Find(id int32) (Member, bool) {
	for _, m := range ms {
		if m.NodeID == id {
			return m, true
		}
	}
	return Member{}, false
}

// Voters are the members that vote.
func (ms Members) Voters() Members {
	return slices.DeleteFunc(slices.Clone(ms), func(m Member) bool { return !m.Voter })
}

// with is ms with m, in the place of an older one of its id.
func (ms Members) with(m Member) Members {
	out := append(ms.without(m.NodeID), m)
	slices.SortFunc(out, func(a, b Member) int { return int(a.NodeID) - int(b.NodeID) })
	return out
}

func (ms Members) without(id int32) Members {
	return slices.DeleteFunc(slices.Clone(ms), func(m Member) bool { return m.NodeID == id })
}

// conf is what Raft knows of them.
func (ms Members) conf() *raftpb.ConfState {
	conf := &raftpb.ConfState{}
	for _, m := range ms {
		if m.Voter {
			conf.Voters = append(conf.Voters, raftID(m.NodeID))
		} else {
			conf.Learners = append(conf.Learners, raftID(m.NodeID))
		}
	}
	return conf
}

// membersOf are those of conf, of whom only ids are known.
func membersOf(conf *raftpb.ConfState) Members {
	var ms Members
	for _, id := range conf.GetVoters() {
		ms = ms.with(Member{NodeID: nodeID(id), Voter: true})
	}
	for _, id := range conf.GetLearners() {
		ms = ms.with(Member{NodeID: nodeID(id)})
	}
	return ms
}

var errNoMembers = errors.New("not a configuration of the quorum")

// membersVersion leads the encoding, which changes of the configuration and snapshots have.
const membersVersion = 0

// EncodeMembers writes a configuration as joining nodes are told it.
func EncodeMembers(ms Members) []byte { return ms.encode() }

// DecodeMembers reads what EncodeMembers writes.
func DecodeMembers(raw []byte) (Members, error) { return decodeMembers(raw) }

func (ms Members) encode() []byte {
	dst := kbin.AppendInt16(nil, membersVersion)
	dst = kbin.AppendArrayLen(dst, len(ms))
	for _, m := range ms {
		dst = kbin.AppendUuid(kbin.AppendInt32(dst, m.NodeID), m.DirectoryID)
		dst = kbin.AppendArrayLen(kbin.AppendBool(dst, m.Voter), len(m.Listeners))
		for _, l := range m.Listeners {
			dst = kbin.AppendString(kbin.AppendString(dst, l.Listener), l.Host)
			dst = kbin.AppendInt16(kbin.AppendUint16(dst, l.Port), l.SecurityProtocol)
		}
	}
	return dst
}

// The least that a member and a listener take: they bound what a lying count can allocate.
const (
	minMemberBytes   = 4 + 16 + 1 + 4
	minListenerBytes = 2 + 2 + 2 + 2
)

func decodeMembers(raw []byte) (Members, error) {
	b := kbin.Reader{Src: raw}
	if b.Int16() != membersVersion {
		return nil, errNoMembers
	}
	var ms Members
	for n := b.ArrayLen(); n > 0; n-- {
		m := Member{NodeID: b.Int32(), DirectoryID: b.Uuid(), Voter: b.Bool()}
		for l := b.ArrayLen(); l > 0 && len(b.Src) >= minListenerBytes; l-- {
			m.Listeners = append(m.Listeners, metadata.Endpoint{Listener: b.String(), Host: b.String(), Port: b.Uint16(), SecurityProtocol: b.Int16()})
		}
		if _, twice := ms.Find(m.NodeID); !b.Ok() || twice || m.NodeID < 0 {
			return nil, errNoMembers
		}
		ms = ms.with(m)
	}
	if b.Complete() != nil || len(b.Src) > 0 {
		return nil, errNoMembers
	}
	return ms, nil
}
