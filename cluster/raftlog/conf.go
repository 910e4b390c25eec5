package raftlog

import (
	"math"

	"grete/protocol/batch"
)

// confHistory is the quorum's configurations from the newest snapshot on, so that the next snapshot gets the one that
// was valid where it ends. Its length is that of the changes since, which administrators make. Only the node's
// goroutine uses it.
type confHistory struct{ states []confAt }

type confAt struct {
	end     int64 // valid from this offset on
	members Members
}

func (h *confHistory) add(end int64, members Members) {
	h.states = append(h.states, confAt{end, members})
}

// replayChanges takes the configurations of the log that are committed for sure though the vote file does not have them
// yet: an answer to the leader goes out before the file is written. A leader begins a change only once the one before
// it is committed, so that of the changes in the log at most the last is not. Every voter thus begins again at most one
// configuration behind, as Raft needs.
func (n *Node) replayChanges() error {
	var last confAt
	from := max(n.snapshotEnd(), n.state.MembersEnd)
	for from < n.o.Log.EndOffset() {
		raw, err := readBatches(n.o.Log, from, readChunkBytes, math.MaxInt64)
		if err != nil {
			return err
		}
		var found []confAt
		if from, found, err = configurations(raw, from); err != nil {
			return err
		}
		for _, c := range found {
			if last.members != nil {
				n.confs.add(last.end, last.members)
				n.state.setMembers(last.end, last.members)
			}
			last = c
		}
	}
	return nil
}

// configurations are those that batches make, and where the whole ones among them end.
func configurations(raw []byte, from int64) (end int64, found []confAt, err error) {
	end = from
	for len(raw) > 0 {
		b, rest, cut := batch.Next(raw)
		if cut != nil {
			break // by the size limit
		}
		end, raw = b.LastOffset()+1, rest
		members, err := configurationOf(b)
		if err != nil {
			return end, nil, err
		}
		if members != nil {
			found = append(found, confAt{end, members})
		}
	}
	if end == from {
		return end, nil, errNoBatch
	}
	return end, found, nil
}

// configurationOf is the configuration that a batch makes; nil for any other batch.
func configurationOf(b batch.Batch) (Members, error) {
	if !b.Control() {
		return nil, nil
	}
	kind, value, err := controlRecord(b)
	if err != nil || kind != confChangeType {
		return nil, err
	}
	return decodeChange(value)
}

func (h *confHistory) latest() Members {
	return h.states[len(h.states)-1].members
}

// at is the configuration of a log that ends at end; older ones are then needed no more. ok is false for a log that
// ends before the first configuration known.
func (h *confHistory) at(end int64) (members Members, ok bool) {
	for len(h.states) > 1 && h.states[1].end <= end {
		h.states = h.states[1:]
	}
	return h.states[0].members, h.states[0].end <= end
}
