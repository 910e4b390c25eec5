package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/controller"
	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/clock"
	"grete/protocol"
)

const (
	joinEvery   = 50 * time.Millisecond // after an attempt that failed
	joinTimeout = 5 * time.Second       // for one attempt
	loggedWait  = 3 * time.Second       // a shorter one is not logged: nodes that start together wait for an election
)

// errNotAdmitted: the quorum refuses this node, and will refuse it again.
var errNotAdmitted = errors.New("the metadata quorum refuses this node")

// errInUse: the quorum has heard of another node of this one's id a short time ago, which may have been this node's
// former life.
var errInUse = errors.New("not let into the metadata quorum yet")

// errUnanswered: a node did not answer within joinTimeout.
var errUnanswered = errors.New("no answer")

// errNoLeader: whoever is asked knows no leader, or waits for one longer than is waited for the answer.
var errNoLeader = errors.New("the metadata quorum has no leader: no majority of its voters answers")

// controllerPrincipal is whom requests of nodes among themselves come from.
var controllerPrincipal = protocol.Principal{Type: "User", Name: "ANONYMOUS"}

// members are the quorum's as this node knows them: from its log, or, before it has any, from the node that let it in.
func (n *Node) members() raftlog.Members {
	if c := n.quorum.controller.Load(); c != nil {
		if ms := c.Raft().Members(); len(ms) > 0 {
			return ms
		}
	}
	if hint := n.hint.Load(); hint != nil {
		return *hint
	}
	return nil
}

// controllerAddress is where a node's controller listener is: as this node's configuration says, else as the node has
// told the quorum, or, when it may have moved since, as gossip says: one after the other, so that neither an old
// address nor a forged one keeps nodes apart.
func (n *Node) controllerAddress(id int32) (string, bool) {
	for _, v := range n.o.Config.Voters {
		if v.ID == id {
			return v.Address, true
		}
	}
	told := ""
	if m, known := n.members().Find(id); known {
		told, _ = n.addressOf(m)
	}
	found := n.foundAt(id)
	if told == "" || found != "" && found != told && n.addressTurns.Add(1)%2 == 0 {
		return found, found != ""
	}
	return told, true
}

func (n *Node) addressOf(m raftlog.Member) (string, bool) {
	wanted := n.quorumListener()
	for i, l := range m.Listeners {
		if l.Listener == wanted || i == len(m.Listeners)-1 {
			return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))), true
		}
	}
	return "", false
}

func (n *Node) memberDirectory(id int32) metadata.UUID {
	m, _ := n.members().Find(id)
	return m.DirectoryID
}

// enterQuorum makes this node a member of the quorum, unless it is one as it is, and a voter if it is to be one. A node
// that begins the quorum is both.
func (n *Node) enterQuorum(ctx context.Context) error {
	self := raftlog.Member{NodeID: n.o.Config.NodeID, DirectoryID: n.directoryID(), Listeners: n.controllerEndpoints()}
	now, known := n.members().Find(self.NodeID)
	self.Voter = now.Voter
	enter := n.join
	if known && now.Equal(self) {
		enter = n.awaitLeader
	}
	if err := enter(ctx, self); err != nil {
		return err
	}
	if now.Voter {
		n.warnAlone()
		return nil
	}
	votes := n.o.Config.Joins()
	if !votes {
		var err error
		if votes, err = n.expected(ctx); err != nil || !votes {
			return err
		}
	}
	return n.vote(ctx, self)
}

// warnAlone names what is not obvious where a node is told of others, and its directories are of a cluster that is this
// node alone.
func (n *Node) warnAlone() {
	if n.begins || !n.o.Config.Finds() || n.o.Config.Gossip.Expect == 1 || len(n.members()) > 1 {
		return
	}
	n.o.Log.Warn().Str("cluster", n.clusterID).Str("dir", n.metadataDir).
		Msg("this directory is of a cluster that is this node alone: gossip.join and gossip.expect do not make it part of another; to join one, begin with an empty directory")
}

// join asks those who may know the leader until it has let this node in.
func (n *Node) join(ctx context.Context, self raftlog.Member) error {
	const what = "waiting to be let into the metadata quorum"
	n.progress.doing(what)
	req := n.joinRequest(self)
	pace := newPace(n.o.Clock)
	for {
		err := n.tryJoin(ctx, req)
		if err == nil || errors.Is(err, errNotAdmitted) {
			return err
		}
		if errors.Is(err, errInUse) && pace.lasts() > n.inUsePatience() {
			return fmt.Errorf("%w: %w", errNotAdmitted, err)
		}
		n.waits(ctx, pace, what, err)
		if clock.Pause(ctx, n.o.Clock, joinEvery) != nil {
			return fmt.Errorf("this node was not let into the metadata quorum: %w", err)
		}
	}
}

// waits tells readiness, and the log from time to time, why this node waits for others.
func (n *Node) waits(ctx context.Context, pace *pace, what string, reason error) {
	n.progress.waits(what, reason.Error())
	if ctx.Err() == nil && pace.due() {
		n.o.Log.Info().Err(reason).Stringer("for", pace.lasts().Round(time.Second)).Msg(what)
	}
}

func (n *Node) joinRequest(self raftlog.Member) *protocol.JoinRequest {
	req := &protocol.JoinRequest{ClusterID: n.clusterID, NodeID: self.NodeID, DirectoryID: self.DirectoryID, Incarnation: n.incarnation, Emptied: n.emptied()}
	for _, l := range self.Listeners {
		req.Listeners = append(req.Listeners, protocol.JoinListener{Name: l.Listener, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol})
	}
	return req
}

// awaitLeader returns once this member hears of a leader. If it does not, the others may know its id with another
// directory by now: they tell.
func (n *Node) awaitLeader(ctx context.Context, self raftlog.Member) error {
	req := n.joinRequest(self)
	for {
		changed := n.controller.LeaderGone()
		if n.controller.Leader().NodeID >= 0 {
			return nil
		}
		switch err := n.awaitNews(ctx, changed); {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", errNoLeader, ctx.Err())
		case err != nil:
			if err := n.askToJoin(ctx, req); errors.Is(err, errNotAdmitted) {
				return err
			}
		}
	}
}

// awaitNews waits for loggedWait at most; its error says that it was in vain.
func (n *Node) awaitNews(ctx context.Context, news <-chan struct{}) error {
	ctx, cancel := clock.WithTimeout(ctx, n.o.Clock, loggedWait)
	defer cancel()
	select {
	case <-news:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// emptied says whether this node has nothing of the metadata log, though it is one of those that vote by themselves:
// controller.quorum.voters names it, gossip.expect counts it, or controller.quorum.auto.join.enable is on.
func (n *Node) emptied() bool {
	votes := n.o.Config.Joins() || n.o.Config.IsController && n.o.Config.Gossip.Expect > 0
	return votes && len(n.members()) == 0 && n.store.Log(controller.LogID).EndOffset() == 0
}

// inUsePatience is how long this node waits until its id is free: a former life is believed in for a session, which
// begins again when the quorum gets another leader.
func (n *Node) inUsePatience() time.Duration {
	return 2*millis(n.o.Config.Int("broker.session.timeout.ms")) + joinTimeout
}

func (n *Node) tryJoin(ctx context.Context, req *protocol.JoinRequest) error {
	if self, known := n.members().Find(req.NodeID); known && self.Voter { // it may lead, and knows who does
		resp, err := n.quorum.Join(ctx, req)
		return n.admitted(resp, err)
	}
	return n.askToJoin(ctx, req)
}

// askToJoin asks all others once. One that answers without a leader says more than another that does not answer.
func (n *Node) askToJoin(ctx context.Context, req *protocol.JoinRequest) error {
	err := controller.ErrNotController
	for _, address := range n.whoMayLead() {
		resp, called := n.callOnce(ctx, address, n.peerOptions(n.o.Config.Quorum.Name), req)
		answer, _ := resp.(*protocol.JoinResponse)
		answered := n.admitted(answer, called)
		if answered == nil || errors.Is(answered, errNotAdmitted) || errors.Is(answered, errInUse) {
			return answered
		}
		if !errors.Is(err, errNoLeader) {
			err = answered
		}
	}
	return err
}

// whoMayLead are the addresses of the voters, as far as they are known, and of the seeds.
func (n *Node) whoMayLead() []string {
	var out []string
	for _, m := range n.members().Voters() {
		if address, ok := n.addressOf(m); ok && m.NodeID != n.o.Config.NodeID {
			out = append(out, address)
		}
	}
	for _, s := range n.seeds() {
		if s.NodeID != n.o.Config.NodeID {
			out = append(out, s.Address)
		}
	}
	return out
}

// admitted reads an answer to a JoinRequest.
func (n *Node) admitted(resp *protocol.JoinResponse, err error) error {
	switch {
	case errors.Is(err, errUnanswered) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w (%w)", errNoLeader, err)
	case err != nil:
		return err
	}
	switch resp.ErrorCode {
	case 0:
		members, err := raftlog.DecodeMembers(resp.Members)
		if err != nil {
			return err
		}
		n.hint.Store(&members)
		n.poll(members)
		return nil
	case kerr.DuplicateBrokerRegistration.Code:
		return fmt.Errorf("%w: %s", errInUse, *resp.ErrorMessage)
	case kerr.DuplicateVoter.Code, kerr.InconsistentClusterID.Code:
		return fmt.Errorf("%w: %s", errNotAdmitted, *resp.ErrorMessage)
	}
	return notAdmittedYet(resp.ErrorCode)
}

// notAdmittedYet is why a node may be let in later.
func notAdmittedYet(code int16) error {
	err := kerr.ErrorForCode(code)
	if code == kerr.RequestTimedOut.Code || code == kerr.NotController.Code {
		return fmt.Errorf("%w (%w)", errNoLeader, err)
	}
	return err
}

// poll has a node that nobody can dial fetch from the voters.
func (n *Node) poll(members raftlog.Members) {
	peers := n.quorum.peers.Load()
	if peers == nil || len(n.o.Config.Controllers) > 0 {
		return
	}
	var ids []int32
	for _, m := range members.Voters() {
		ids = append(ids, m.NodeID)
	}
	peers.Poll(ids)
}

// quorumTrouble is why the metadata quorum does not answer this node, "" where it does.
func (n *Node) quorumTrouble() string {
	if had, has, lost := n.controller.Raft().LostTail(); lost {
		return fmt.Sprintf("the end of this node's metadata log is lost: it went to offset %d and goes to %d; another leader has to be elected", had, has)
	}
	if n.controller.Leader().NodeID < 0 {
		return "it has no leader: no majority of its voters answers"
	}
	return ""
}

// vote asks to be made a voter until this node is one.
func (n *Node) vote(ctx context.Context, self raftlog.Member) error {
	const what = "waiting to be made a voter of the metadata quorum"
	n.progress.doing(what)
	pace := newPace(n.o.Clock)
	for {
		req := kmsg.NewPtrAddRaftVoterRequest()
		req.Version = req.MaxVersion()
		req.ClusterID, req.VoterID, req.VoterDirectoryID = &n.clusterID, self.NodeID, self.DirectoryID
		for _, l := range self.Listeners {
			listener := kmsg.NewAddRaftVoterRequestListener()
			listener.Name, listener.Host, listener.Port = l.Listener, l.Host, l.Port
			req.Listeners = append(req.Listeners, listener)
		}
		resp, err := n.controller.Do(ctx, controllerPrincipal, req)
		if err == nil {
			switch code := resp.(*kmsg.AddRaftVoterResponse).ErrorCode; code {
			case 0, kerr.DuplicateVoter.Code:
				n.o.Log.Info().Str("cluster", n.clusterID).Msg("this node votes in the metadata quorum from now on")
				return nil
			default:
				err = kerr.ErrorForCode(code)
			}
		}
		n.waits(ctx, pace, what, err)
		if clock.Pause(ctx, n.o.Clock, joinEvery) != nil {
			return fmt.Errorf("this node was not made a voter of the metadata quorum: %w", err)
		}
	}
}

// callOnce asks over a connection of its own.
func (n *Node) callOnce(ctx context.Context, address string, o protocol.ClientOptions, req kmsg.Request) (kmsg.Response, error) {
	limited, cancel := clock.WithTimeout(ctx, n.o.Clock, joinTimeout)
	defer cancel()
	link := protocol.NewLink(func() (string, bool) { return address, true }, o)
	defer link.Close()
	resp, err := link.Call(limited, req)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w from %s within %v", errUnanswered, address, joinTimeout)
	}
	return resp, err
}

// registerController makes this controller known to clients and to the others.
func (n *Node) registerController(ctx context.Context) error {
	if !n.o.Config.IsController {
		return nil
	}
	req := kmsg.NewPtrControllerRegistrationRequest()
	req.ControllerID, req.IncarnationID = n.o.Config.NodeID, n.incarnation
	for _, e := range n.controllerEndpoints() {
		l := kmsg.NewControllerRegistrationRequestListener()
		l.Name, l.Host, l.Port, l.SecurityProtocol = e.Listener, e.Host, e.Port, e.SecurityProtocol
		req.Listeners = append(req.Listeners, l)
	}
	for _, f := range controller.DefaultFeatures() {
		feature := kmsg.NewControllerRegistrationRequestFeature()
		feature.Name, feature.MinSupportedVersion, feature.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, feature)
	}
	for {
		resp, err := n.controller.Do(ctx, controllerPrincipal, req)
		if err == nil {
			r := resp.(*kmsg.ControllerRegistrationResponse)
			if r.ErrorCode == 0 {
				return nil
			}
			return fmt.Errorf("the cluster does not let this controller in: %s", *r.ErrorMessage)
		}
		if errors.Is(err, controller.ErrStopped) || clock.Pause(ctx, n.o.Clock, joinEvery) != nil {
			return fmt.Errorf("this controller is not registered: %w", err)
		}
	}
}
