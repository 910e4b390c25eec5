package group

import (
	"cmp"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// maxIDPrefixBytes bounds what a generated member id begins with: with "-" and the UUID it must fit a string of a
// record.
const maxIDPrefixBytes = math.MaxInt16 - 1 - 36

// checkJoin is what needs no state. "" may commit and fetch, but not join.
func (s *Service) checkJoin(rc RequestContext, req *kmsg.JoinGroupRequest) *kerr.Error {
	switch t := req.SessionTimeoutMillis; {
	case req.Group == "":
		return kerr.InvalidGroupID
	case len(rc.ClientID) > maxIDPrefixBytes || req.InstanceID != nil && len(*req.InstanceID) > maxIDPrefixBytes:
		return kerr.UnknownServerError // no record can hold its member id
	case t < s.o.Config.MinSessionTimeoutMs || t > s.o.Config.MaxSessionTimeoutMs:
		return kerr.InvalidSessionTimeout
	}
	return nil
}

// join is one JoinGroup on its way through the shard.
type join struct {
	s      *shard
	tx     *coordinator.Tx
	rc     RequestContext
	req    *kmsg.JoinGroupRequest
	answer joinAnswer
}

// refuse answers with an error; the member id that goes with it is Kafka's choice per case.
func (j *join) refuse(memberID string, err error) {
	replyJoin(j.tx, j.answer, joinError(memberID, kafkaError(err)))
}

func (s *shard) join(tx *coordinator.Tx, rc RequestContext, req *kmsg.JoinGroupRequest, answer joinAnswer) {
	j := &join{s, tx, rc, req, answer}
	if err := s.admitMember(j.more()); err != nil {
		j.refuse(req.MemberID, err)
		return
	}
	switch g := s.groups[req.Group].(type) {
	case *classicGroup:
		j.joinClassicGroup(g)
	case *consumerGroup:
		if !g.empty() {
			j.joinConsumerGroup(g)
			return
		}
		j.newGroup()
	default:
		j.newGroup()
	}
}

// more is how many bytes the member would take that it does not take yet.
func (j *join) more() int64 {
	more := memberBytes + protocolBytesOf(j.req.Protocols)
	switch g := j.s.groups[j.req.Group].(type) {
	case *classicGroup:
		m := g.byID[j.req.MemberID]
		if m == nil && j.req.InstanceID != nil {
			m = g.static[*j.req.InstanceID]
		}
		if m != nil {
			return more - m.counted
		}
	case *consumerGroup:
		if m := cmp.Or(g.members[j.req.MemberID], g.staticMember(j.req.InstanceID)); m != nil {
			return more - m.bytes()
		}
	}
	return more
}

func protocolBytesOf(protocols []kmsg.JoinGroupRequestProtocol) (n int64) {
	for _, p := range protocols {
		n += int64(len(p.Name) + len(p.Metadata))
	}
	return n
}

func (j *join) joinClassicGroup(g *classicGroup) {
	switch {
	case !j.s.accepts(g, j.req.MemberID):
		g.remove(j.tx, j.req.MemberID)
		j.refuse("", kerr.GroupMaxSizeReached)
	case j.req.MemberID == "":
		j.newMember(g)
	default:
		j.knownMember(g)
	}
}

// newGroup starts a group, which only one who has no member id yet can do. Its empty record is appended at once, as
// Kafka does; when that fails the group never was. It may take the place of a consumer group that is empty.
func (j *join) newGroup() {
	if j.req.MemberID != "" {
		j.refuse(j.req.MemberID, kerr.UnknownMemberID)
		return
	}
	g := newClassicGroup(strings.Clone(j.req.Group))
	g.sinceMs = j.tx.NowMs
	before := j.s.groups[g.id]
	if before == nil {
		if err := j.s.admitGroup(); err != nil {
			j.refuse("", err)
			return
		}
	}
	if before != nil {
		before.deleteRecords(j.tx)
	}
	j.tx.AppendApplied(groupMetadataKey(g.id), g.metadataValue(nil), func(*coordinator.Tx) {})
	j.s.put(g.id, g)
	j.tx.OnFailed(func(tx *coordinator.Tx, err error) {
		j.s.forget(tx, g, err)
		if before != nil {
			j.s.put(g.id, before)
		}
	})
	j.newMember(g)
}

// forget takes back a group whose first record could not be written.
func (s *shard) forget(tx *coordinator.Tx, g *classicGroup, err error) {
	s.drop(g.id)
	for len(g.members) > 0 {
		m := g.members[0]
		if m.join != nil {
			resp := joinError("", nil)
			resp.ErrorCode = coordinator.Code(err)
			g.answerJoin(tx, m, resp)
		}
		g.remove(tx, m.id)
	}
	for id := range g.pendingJoin {
		g.remove(tx, id)
	}
	tx.Cancel(&g.joinTimer)
	g.dissolve()
}

// accepts holds group.max.size. While a rebalance is being prepared those count who wait for it, so that a group
// grown too large sheds whoever comes last.
func (s *shard) accepts(g *classicGroup, memberID string) bool {
	m := g.byID[memberID]
	switch g.state {
	case preparingRebalance:
		return (m != nil && m.join != nil) || g.awaitingJoin < s.cfg.MaxSize
	case completingRebalance, stable:
		return m != nil || len(g.members) < s.cfg.MaxSize
	}
	return true
}

func (j *join) newMember(g *classicGroup) {
	if !g.supports(j.req.ProtocolType, cloneProtocols(j.req.Protocols)) {
		j.refuse("", kerr.InconsistentGroupProtocol)
		return
	}
	switch instance := j.req.InstanceID; {
	case instance != nil && g.static[*instance] != nil:
		j.replaceStatic(g, g.static[*instance], *instance+"-"+j.s.newUUID())
	case instance != nil:
		j.addMember(g, *instance+"-"+j.s.newUUID())
	case j.rc.Version >= 4:
		j.giveID(g, j.rc.ClientID+"-"+j.s.newUUID())
	default:
		j.addMember(g, j.rc.ClientID+"-"+j.s.newUUID())
	}
}

// giveID sends a dynamic member away with an id to come back with (KIP-394), so that a client that never gets its
// answer leaves no member behind.
func (j *join) giveID(g *classicGroup, id string) {
	t := &coordinator.Timer{Fire: func(tx *coordinator.Tx) { j.s.expirePending(tx, g, id) }}
	g.pendingJoin[id] = t
	j.tx.Schedule(t, int64(j.req.SessionTimeoutMillis))
	j.s.boundPending(j.tx, givenID{g, id, t})
	j.refuse(id, kerr.MemberIDRequired)
}

func (j *join) addMember(g *classicGroup, id string) {
	m := newMember(j.rc, id, j.req)
	if g.state == preparingRebalance && g.before == empty {
		g.memberAdded = true
	}
	if t := g.pendingJoin[id]; t != nil {
		j.tx.Cancel(t)
	}
	g.add(m)
	g.setJoin(m, j.answer)
	j.s.watchSession(g, m)
	j.tx.Schedule(&m.session, newMemberJoinTimeoutMs)
	j.s.rebalanceOrComplete(j.tx, g)
}

func (j *join) knownMember(g *classicGroup) {
	id := j.req.MemberID
	if !g.supports(j.req.ProtocolType, cloneProtocols(j.req.Protocols)) {
		j.refuse(id, kerr.InconsistentGroupProtocol)
		return
	}
	if g.pendingJoin[id] != nil && j.req.InstanceID == nil {
		j.addMember(g, id)
		return
	}
	if err := g.checkMember(id, j.req.InstanceID); err != nil {
		j.refuse(id, err)
		return
	}
	j.rejoin(g, g.byID[id])
}

// rejoin: only a leader's rejoin, or changed protocols, start a new rebalance; anyone else is told where the group
// stands.
func (j *join) rejoin(g *classicGroup, m *member) {
	switch same := m.matches(j.req); {
	case g.state == preparingRebalance:
		j.updateMember(g, m)
	case g.state == completingRebalance && same, g.state == stable && same && g.leader != m.id:
		replyJoin(j.tx, j.answer, g.joined(m))
	case g.state == completingRebalance, g.state == stable:
		j.updateMember(g, m)
	default:
		j.refuse(m.id, kerr.UnknownMemberID)
	}
}

func (j *join) updateMember(g *classicGroup, m *member) {
	j.park(g, m)
	j.s.rebalanceOrComplete(j.tx, g)
}

// park lets the request wait as m's. One that waited before for the same member has been given up by its client.
func (j *join) park(g *classicGroup, m *member) {
	g.answerJoin(j.tx, m, joinError(m.id, kerr.RebalanceInProgress))
	g.countProtocols(m, -1)
	m.update(j.req)
	g.countProtocols(m, 1)
	g.weigh(m)
	g.setJoin(m, j.answer)
}

// joined is the answer to a member of the current generation; the leader gets all the members.
func (g *classicGroup) joined(m *member) *kmsg.JoinGroupResponse {
	resp := joinError(m.id, nil)
	resp.Generation, resp.Protocol, resp.LeaderID = g.generation, g.protocol, g.leader
	resp.ProtocolType = g.responseProtocolType()
	if g.leader == m.id {
		resp.Members = g.joinMembers()
	}
	return resp
}

func (g *classicGroup) responseProtocolType() *string {
	if g.protocolType == "" {
		return nil
	}
	protocolType := g.protocolType
	return &protocolType
}

func (g *classicGroup) joinMembers() []kmsg.JoinGroupResponseMember {
	out := make([]kmsg.JoinGroupResponseMember, 0, len(g.members))
	for _, m := range g.members {
		out = append(out, kmsg.JoinGroupResponseMember{
			MemberID: m.id, InstanceID: m.instance, ProtocolMetadata: m.metadata(g.protocol),
		})
	}
	return out
}
