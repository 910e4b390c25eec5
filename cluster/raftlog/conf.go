package raftlog

import "go.etcd.io/raft/v3/raftpb"

// confHistory is the quorum's configurations from the newest snapshot on, so that the next snapshot gets the one that
// was valid where it ends. Its length is that of the changes since, which administrators make. Only the node's goroutine
// uses it.
type confHistory struct{ states []confAt }

type confAt struct {
	end  int64 // valid from this offset on
	conf *raftpb.ConfState
}

func (h *confHistory) add(end int64, conf *raftpb.ConfState) {
	h.states = append(h.states, confAt{end, conf})
}

func (h *confHistory) latest() *raftpb.ConfState {
	return h.states[len(h.states)-1].conf
}

// at is the configuration of a log that ends at end; older ones are then needed no more.
func (h *confHistory) at(end int64) *raftpb.ConfState {
	for len(h.states) > 1 && h.states[1].end <= end {
		h.states = h.states[1:]
	}
	return h.states[0].conf
}

// voters are the ids of the voters now.
func (h *confHistory) voters() []int32 {
	conf := h.latest()
	ids := make([]int32, len(conf.Voters))
	for i, id := range conf.Voters {
		ids[i] = nodeID(id)
	}
	return ids
}

func confOf(voters []int32) *raftpb.ConfState {
	conf := &raftpb.ConfState{}
	for _, id := range voters {
		conf.Voters = append(conf.Voters, raftID(id))
	}
	return conf
}
