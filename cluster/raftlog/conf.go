package raftlog

// confHistory is the quorum's configurations from the newest snapshot on, so that the next snapshot gets the one that
// was valid where it ends. Its length is that of the changes since, which administrators make. Only the node's goroutine
// uses it.
type confHistory struct{ states []confAt }

type confAt struct {
	end     int64 // valid from this offset on
	members Members
}

func (h *confHistory) add(end int64, members Members) {
	h.states = append(h.states, confAt{end, members})
}

func (h *confHistory) latest() Members {
	return h.states[len(h.states)-1].members
}

// at is the configuration of a log that ends at end; older ones are then needed no more. ok is false for a log that ends before
// the first configuration known.
func (h *confHistory) at(end int64) (members Members, ok bool) {
	for len(h.states) > 1 && h.states[1].end <= end {
		h.states = h.states[1:]
	}
	return h.states[0].members, h.states[0].end <= end
}
