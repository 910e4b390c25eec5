package oracle

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// member is a member of a classic group as a client keeps it, on a connection of its own. Its requests have the
// versions that belong to its JoinGroup version.
type member struct {
	s          *Session
	c          *Conn
	version    int16 // of JoinGroup
	group      string
	id         string
	generation int32
	instance   *string
	protocol   *string
	sessionMs  int32
	rebalance  int32
	protocols  []string
	metadata   string // of each protocol: what it subscribes to
	raw        []byte // of each protocol, instead of metadata
}

const protocolType = "consumer"

func (s *Session) member(joinVersion int16) *member {
	return &member{s: s, c: s.Conn(), version: joinVersion, group: s.Name("g"), generation: -1, sessionMs: 30_000, rebalance: 20_000, protocols: []string{"range"}, metadata: "x"}
}

func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = m.group, m.id, m.instance, protocolType
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = m.sessionMs, m.rebalance
	for _, name := range m.protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, m.raw
		if m.raw == nil {
			p.Metadata = subscription(m.s.Name(m.metadata))
		}
		req.Protocols = append(req.Protocols, p)
	}
	return req
}

// subscription is a consumer protocol's metadata, which brokers read for which topics a group uses.
func subscription(topics ...string) []byte {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = topics
	return meta.AppendTo(nil)
}

// sendJoin sends JoinGroup; from v4 on it first fetches the member id that has to be presented.
func (m *member) sendJoin() *Call {
	if m.version >= 4 && m.id == "" && m.instance == nil {
		m.id = m.c.Send(m.version, m.joinRequest()).Note("without an id").Wait().(*kmsg.JoinGroupResponse).MemberID
	}
	return m.c.Send(m.version, m.joinRequest())
}

// joined takes what the answer to a JoinGroup says.
func (m *member) joined(resp kmsg.Response) {
	r := resp.(*kmsg.JoinGroupResponse)
	m.id, m.generation, m.protocol = r.MemberID, r.Generation, r.Protocol
}

func (m *member) join() { m.joined(m.sendJoin().Wait()) }

func (m *member) syncRequest(assigned ...*member) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = m.group, m.id, m.generation, m.instance
	req.ProtocolType, req.Protocol = ptr(protocolType), m.protocol
	if m.protocol == nil {
		req.Protocol = &m.protocols[0]
	}
	for _, to := range assigned {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = to.id, []byte("for "+to.c.name)
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

// sendSync sends SyncGroup; a leader names the members that it assigns something to.
func (m *member) sendSync(assigned ...*member) *Call {
	return m.c.Send(min(m.version, 5), m.syncRequest(assigned...))
}

func (m *member) heartbeatRequest() *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = m.group, m.id, m.generation, m.instance
	return req
}

func (m *member) heartbeat(note string) {
	m.c.Send(min(m.version, 4), m.heartbeatRequest()).Note(note).Wait()
}

// awaitHeartbeat waits, leaving no step, until heartbeats are answered with code.
func (m *member) awaitHeartbeat(code int16) {
	m.s.await(func() bool {
		return m.s.setup(4, m.heartbeatRequest()).(*kmsg.HeartbeatResponse).ErrorCode == code
	}, "heartbeat answer")
}

func (m *member) leaveRequest() *kmsg.LeaveGroupRequest {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = m.group, m.id
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID, lm.InstanceID = m.id, m.instance
	req.Members = append(req.Members, lm)
	return req
}

func (m *member) leave(note string) {
	m.c.Send(min(m.version, 5), m.leaveRequest()).Note(note).Wait()
}

func (m *member) describe(note string) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{m.group}
	m.c.Send(5, req).Note(note).Wait()
}

const rebalanceInProgress = 27

// stablePair is a leader and a follower in a stable group.
func stablePair(s *Session, v int16) (leader, follower *member) {
	leader, follower = s.member(v), s.member(v)
	leader.join()
	leader.sendSync(leader).Wait()
	joining := follower.sendJoin()
	leader.awaitHeartbeat(rebalanceInProgress)
	leader.heartbeat("while preparing")
	rejoining := leader.sendJoin()
	leader.joined(rejoining.Wait())
	follower.joined(joining.Wait())
	waiting := follower.sendSync()
	pause(settle)
	leader.sendSync(leader, follower).Wait()
	waiting.Wait()
	return leader, follower
}
