package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/clock"
	"grete/protocol"
)

// reachTimeout bounds the attempt to reach a node that is to vote.
const reachTimeout = 2 * time.Second

// caughtUpEvery is how often is looked whether a node that is to vote has the whole log.
const caughtUpEvery = 10 * time.Millisecond

// decideQuorum answers what is about the quorum itself, which the leader of t does and which makes no metadata records;
// ok is false for any other request.
func (n *Node) decideQuorum(ctx context.Context, t *term, req kmsg.Request) (resp kmsg.Response, ok bool, err error) {
	switch r := req.(type) {
	case *kmsg.DescribeQuorumRequest:
		resp, err = n.describeQuorum(r)
	case *protocol.JoinRequest:
		resp, err = n.join(ctx, t, r)
	case *kmsg.AddRaftVoterRequest:
		resp, err = n.addVoter(ctx, t, r)
	case *kmsg.RemoveRaftVoterRequest:
		resp, err = n.removeVoter(ctx, t, r)
	default:
		return nil, false, nil
	}
	return resp, true, err
}

// refusal is an answer that is an error of the request, not of the attempt.
type refusal struct{ *fault }

func (r refusal) Error() string { return r.code.Message }

// reconfigure changes the quorum as decide says and waits until that is committed, or, unless committed, only in the
// leader's log. What decide refuses, and what cannot be done now, is the fault.
func (n *Node) reconfigure(ctx context.Context, t *term, committed bool, decide func(raftlog.Quorum) (raftlog.Change, error)) (*fault, error) {
	done, err := n.raft.Reconfigure(t.Epoch, decide)
	if err == nil && committed {
		err = raftlog.AwaitChange(ctx, done)
	}
	var refused refusal
	switch {
	case errors.As(err, &refused):
		return refused.fault, nil
	case errors.Is(err, raftlog.ErrChangePending):
		return refuse(kerr.RequestTimedOut, "Request timed out waiting for leader to handle previous voter change request"), nil
	case errors.Is(err, raftlog.ErrNotLeader):
		return nil, ErrNotController
	}
	return nil, err
}

func (n *Node) otherCluster(id string) *fault {
	return refuse(kerr.InconsistentClusterID, "The given id %q doesn't match the cluster id %q", id, n.o.ClusterID)
}

// addVoter is KafkaRaftClient.handleAddVoterRequest and AddVoterHandler (KIP-853): a learner that has the whole log
// becomes a voter. Where Kafka refuses one that lags, this waits for it as long as the request may take.
func (n *Node) addVoter(ctx context.Context, t *term, req *kmsg.AddRaftVoterRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.AddRaftVoterResponse)
	f := n.checkNewVoter(req)
	if f == nil {
		f = n.checkReachable(ctx, req)
	}
	for f == nil {
		var lagging bool
		var err error
		f, err = n.reconfigure(ctx, t, req.Version == 0 || req.AckWhenCommitted, func(q raftlog.Quorum) (raftlog.Change, error) {
			c, late, refused := promote(q, req)
			if lagging = late; refused != nil {
				return c, refusal{refused}
			}
			return c, nil
		})
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
		if f == nil && err == nil || !lagging || clock.Pause(ctx, n.o.Clock, caughtUpEvery) != nil {
			break
		}
		f = nil
	}
	resp.ErrorCode, resp.ErrorMessage = f.orNone()
	return resp, nil
}

// orNone gives the text of Kafka's Errors.NONE where there is no error.
func (f *fault) orNone() (code int16, message *string) {
	if f == nil {
		return 0, kmsg.StringPtr("NONE")
	}
	return f.fields()
}

func (n *Node) checkNewVoter(req *kmsg.AddRaftVoterRequest) *fault {
	switch {
	case req.ClusterID != nil && *req.ClusterID != n.o.ClusterID:
		return n.otherCluster(*req.ClusterID)
	case req.VoterID < 0 || req.VoterDirectoryID == metadata.ZeroUUID:
		return refuse(kerr.InvalidRequest, "Add voter request didn't include a valid voter")
	}
	if _, ok := n.quorumListener(req); !ok {
		return refuse(kerr.InvalidRequest, "Add voter request didn't include the endpoint (%s) for the default listener ListenerName(%s)",
			endpointsText(req.Listeners), n.o.QuorumListener)
	}
	if _, voter := n.raft.Members().Voters().Find(req.VoterID); voter {
		return duplicateVoter(n.raft.Members(), req)
	}
	return nil
}

func duplicateVoter(members raftlog.Members, req *kmsg.AddRaftVoterRequest) *fault {
	return refuse(kerr.DuplicateVoter, "The voter id for %s is already part of the set of voters %s.", replicaKey(req.VoterID, req.VoterDirectoryID), voterKeys(members))
}

// quorumListener is where the quorum's nodes reach the new voter.
func (n *Node) quorumListener(req *kmsg.AddRaftVoterRequest) (address string, ok bool) {
	for _, l := range req.Listeners {
		if strings.EqualFold(l.Name, n.o.QuorumListener) {
			return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))), true
		}
	}
	return "", false
}

// checkReachable connects to the new voter, which Kafka asks for its versions, so that nobody votes whom the others
// cannot hear.
func (n *Node) checkReachable(ctx context.Context, req *kmsg.AddRaftVoterRequest) *fault {
	if n.o.Probe == nil {
		return nil
	}
	ctx, cancel := clock.WithTimeout(ctx, n.o.Clock, reachTimeout)
	defer cancel()
	address, _ := n.quorumListener(req)
	if err := n.o.Probe(ctx, address); err != nil {
		n.o.Logger.Warn().Err(err).Int32("node", req.VoterID).Str("address", address).Msg("a new voter cannot be reached")
		return refuse(kerr.RequestTimedOut, "Aborted add voter operation for since API_VERSIONS returned an error BROKER_NOT_AVAILABLE")
	}
	return nil
}

// promote decides on a new voter; lagging says that it may be tried again.
func promote(q raftlog.Quorum, req *kmsg.AddRaftVoterRequest) (c raftlog.Change, lagging bool, f *fault) {
	m, known := q.Find(req.VoterID)
	switch {
	case known && m.Voter:
		var members raftlog.Members
		for _, s := range q.Members {
			members = append(members, s.Member)
		}
		return c, false, duplicateVoter(members, req)
	case !known || !m.Is(req.VoterDirectoryID) || !m.Active || m.End < q.Commit:
		return c, true, refuse(kerr.RequestTimedOut, "Aborted add voter operation for %s since it is lagging behind", replicaKey(req.VoterID, req.VoterDirectoryID))
	}
	voter := m.Member
	voter.Voter, voter.DirectoryID, voter.Listeners = true, req.VoterDirectoryID, voterListeners(m.Member, req)
	return raftlog.Change{Set: &voter}, false, nil
}

// voterListeners are the request's, whose security protocols the node has told itself.
func voterListeners(m raftlog.Member, req *kmsg.AddRaftVoterRequest) []metadata.Endpoint {
	var out []metadata.Endpoint
	for _, l := range req.Listeners {
		e := metadata.Endpoint{Listener: strings.ToUpper(l.Name), Host: l.Host, Port: l.Port}
		for _, own := range m.Listeners {
			if own.Listener == e.Listener {
				e.SecurityProtocol = own.SecurityProtocol
			}
		}
		out = append(out, e)
	}
	return out
}

// removeVoter is KafkaRaftClient.handleRemoveVoterRequest and RemoveVoterHandler: the node follows on as a learner. A
// leader first hands over: the next one removes it.
func (n *Node) removeVoter(ctx context.Context, t *term, req *kmsg.RemoveRaftVoterRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.RemoveRaftVoterResponse)
	var f *fault
	var err error
	switch {
	case req.ClusterID != nil && *req.ClusterID != n.o.ClusterID:
		f = n.otherCluster(*req.ClusterID)
	case req.VoterID < 0 || req.VoterDirectoryID == metadata.ZeroUUID:
		f = refuse(kerr.InvalidRequest, "Remove voter request didn't include a valid voter")
	default:
		f, err = n.reconfigure(ctx, t, true, func(q raftlog.Quorum) (raftlog.Change, error) { return n.demote(q, req) })
	}
	if err != nil {
		return nil, err
	}
	resp.ErrorCode, resp.ErrorMessage = f.orNone()
	return resp, nil
}

func (n *Node) demote(q raftlog.Quorum, req *kmsg.RemoveRaftVoterRequest) (raftlog.Change, error) {
	var voters raftlog.Members
	for _, m := range q.Members {
		if m.Voter {
			voters = append(voters, m.Member)
		}
	}
	m, known := voters.Find(req.VoterID)
	if !known || !m.Is(req.VoterDirectoryID) || len(voters) == 1 {
		return raftlog.Change{}, refusal{refuse(kerr.VoterNotFound, "Cannot remove voter %s from the set of voters %s",
			replicaKey(req.VoterID, req.VoterDirectoryID), voterKeys(voters))}
	}
	m.Voter = false
	return raftlog.Change{Set: &m, Resign: m.NodeID == n.o.NodeID}, nil
}

// forgetMember has a node that was unregistered leave the quorum, if it is a learner that is silent; one that runs
// would miss the log.
func (n *Node) forgetMember(ctx context.Context, t *term, id int32) {
	_, err := n.reconfigure(ctx, t, false, func(q raftlog.Quorum) (raftlog.Change, error) {
		m, known := q.Find(id)
		if !known || m.Voter || clock.Millis(n.o.Clock)-m.HeardMs < n.o.Config.Int("broker.session.timeout.ms") {
			return raftlog.Change{}, refusal{bare(kerr.VoterNotFound)}
		}
		return raftlog.Change{Remove: &id}, nil
	})
	if err != nil {
		n.o.Logger.Warn().Err(err).Int32("node", id).Msg("an unregistered node is still a learner of the quorum")
	}
}

// replicaKey and the others are written as Kafka's classes write themselves.
func replicaKey(id int32, directory metadata.UUID) string {
	text := directory.String()
	if directory == metadata.ZeroUUID {
		text = "<undefined>"
	}
	return fmt.Sprintf("ReplicaKey(id=%d, directoryId=%s)", id, text)
}

func voterKeys(members raftlog.Members) string {
	var keys []string
	for _, m := range members.Voters() {
		keys = append(keys, replicaKey(m.NodeID, m.DirectoryID))
	}
	return "[" + strings.Join(keys, ", ") + "]"
}

func endpointsText(listeners []kmsg.AddRaftVoterRequestListener) string {
	var parts []string
	for _, l := range listeners {
		parts = append(parts, fmt.Sprintf("ListenerName(%s)=%s/<unresolved>:%d", l.Name, cmp.Or(l.Host, "localhost"), l.Port))
	}
	return "Endpoints(endpoints={" + strings.Join(parts, ", ") + "})"
}
