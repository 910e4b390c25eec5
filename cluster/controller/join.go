package controller

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/clock"
	"grete/protocol"
)

// join makes a node a learner, or notes what is new of a member. A voter whose directory was emptied may have voted,
// and acknowledged what it no longer has: it is let in only after its old vote is taken out, which a majority of the
// others has to commit. A learner may have lost its directory, too. None is let in while another node uses its id.
func (n *Node) join(ctx context.Context, t *term, req *protocol.JoinRequest) (kmsg.Response, error) {
	resp := &protocol.JoinResponse{LeaderID: n.o.NodeID}
	if req.ClusterID != n.o.ClusterID {
		resp.ErrorCode, resp.ErrorMessage = n.otherCluster(req.ClusterID).fields()
		return resp, nil
	}
	f, lost := n.lostVote(ctx, req)
	for again := f == nil; again && f == nil; {
		var step raftlog.Change
		var err error
		f, err = n.reconfigure(ctx, t, true, func(q raftlog.Quorum) (c raftlog.Change, err error) {
			var refused *fault
			if step, again, refused = n.admit(q, req, lost); refused != nil {
				return step, refusal{refused}
			}
			return step, nil
		})
		if err != nil {
			return nil, err
		}
		if f == nil && lost != nil {
			n.logReplaced(req, *lost, step)
		}
	}
	resp.ErrorCode, resp.ErrorMessage = f.fields()
	resp.Members = raftlog.EncodeMembers(n.raft.Members())
	return resp, nil
}

// logReplaced tells of each step in which a node whose disk was lost comes back.
func (n *Node) logReplaced(req *protocol.JoinRequest, lost raftlog.Member, step raftlog.Change) {
	line := n.o.Logger.Warn().Int32("node", req.NodeID).Stringer("lost_directory", lost.DirectoryID)
	if step.Remove != nil {
		line.Msg("a voter has lost its disk: its vote is taken out of the metadata quorum")
		return
	}
	line.Stringer("directory", metadata.UUID(req.DirectoryID)).Msg("a node that has lost its disk is let into the metadata quorum anew")
}

// lostVote is the voter that the node was, if it is proven that it is no more: the node itself, which is proven, says
// that it has nothing of the metadata log, and where the voter is known to listen either this very run answers, or its
// machine refuses connections. Silence is no proof. nil without fault: nothing is to be taken out.
func (n *Node) lostVote(ctx context.Context, req *protocol.JoinRequest) (*fault, *raftlog.Member) {
	old, voter := n.raft.Members().Voters().Find(req.NodeID)
	if !voter || old.Is(req.DirectoryID) || !req.Emptied || n.o.Answering == nil {
		return nil, nil
	}
	ctx, cancel := clock.WithTimeout(ctx, n.o.Clock, reachTimeout)
	defer cancel()
	for _, a := range n.o.Answering(ctx, old) {
		switch {
		case protocol.Refused(a.Err):
		case a.Err != nil:
			return n.notLost(old, req, fmt.Sprintf("%s, where it was, does not answer: it may be cut off", a.Address)), nil
		case a.NodeID == req.NodeID && a.Incarnation != req.Incarnation:
			return n.notLost(old, req, fmt.Sprintf("another node with its id answers at %s", a.Address)), nil
		}
	}
	return nil, &old
}

// notLost refuses a node that comes with another directory than the voter of its id has.
func (n *Node) notLost(old raftlog.Member, req *protocol.JoinRequest, why string) *fault {
	if why != "" {
		why = "; " + why
	}
	return refuse(kerr.DuplicateVoter, "node %d votes in cluster %s with directory %v, and comes with directory %v%s: bring its data back; or, when that is lost, "+
		"take it out (kafka-metadata-quorum remove-controller --controller-id %d --controller-directory-id %v) and start it again",
		req.NodeID, n.o.ClusterID, old.DirectoryID, metadata.UUID(req.DirectoryID), why, req.NodeID, old.DirectoryID)
}

// admit decides on a node that joins; lost is the voter that it was, nil unless that is proven to be lost. again says
// that another step follows.
func (n *Node) admit(q raftlog.Quorum, req *protocol.JoinRequest, lost *raftlog.Member) (c raftlog.Change, again bool, f *fault) {
	m := raftlog.Member{NodeID: req.NodeID, DirectoryID: req.DirectoryID, Listeners: joinListeners(req)}
	old, known := q.Find(req.NodeID)
	switch {
	case !known || old.Is(req.DirectoryID):
		m.Voter = old.Voter
		return raftlog.Change{Set: &m}, false, nil
	case old.Voter && (lost == nil || lost.DirectoryID != old.DirectoryID):
		return c, false, n.notLost(old.Member, req, "")
	case clock.Millis(n.o.Clock)-max(old.HeardMs, q.SinceMs) < n.o.Config.Int("broker.session.timeout.ms"):
		return c, false, refuse(kerr.DuplicateBrokerRegistration, "node id %d is in use by a node with directory %v, or was within the last %d ms",
			req.NodeID, old.DirectoryID, n.o.Config.Int("broker.session.timeout.ms"))
	}
	// Raft believes that the node still has what it once acknowledged: it has to leave before it comes anew.
	return raftlog.Change{Remove: &req.NodeID}, true, nil
}

func joinListeners(req *protocol.JoinRequest) []metadata.Endpoint {
	var out []metadata.Endpoint
	for _, l := range req.Listeners {
		out = append(out, metadata.Endpoint{Listener: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol})
	}
	return out
}
