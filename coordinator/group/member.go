package group

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

type (
	joinAnswer func(*kmsg.JoinGroupResponse)
	syncAnswer func(*kmsg.SyncGroupResponse)
)

type protocol struct {
	name     string
	metadata []byte
}

// member is one of a classic group. Its byte slices are never changed in place, so answers may share them.
type member struct {
	id                   string
	instance             *string // group.instance.id of a static member
	clientID, clientHost string
	rebalanceTimeoutMs   int32
	sessionTimeoutMs     int32
	protocolType         string
	protocols            []protocol
	assignment           []byte
	isNew                bool       // has not got its first JoinGroup answer
	join                 joinAnswer // parked, or nil
	sync                 syncAnswer // parked, or nil
	syncPending          bool
	session              coordinator.Timer
	counted              int64 // bytes that the group has counted for it
}

// bytes is what m takes in memory.
func (m *member) bytes() int64 {
	return int64(memberBytes+len(m.id)+len(m.clientID)+len(m.clientHost)+len(m.assignment)) + protocolBytes(m.protocols)
}

func protocolBytes(protocols []protocol) (n int64) {
	for _, p := range protocols {
		n += int64(len(p.name) + len(p.metadata))
	}
	return n
}

// newMember copies what it keeps: a request's strings and bytes live only until its answer.
func newMember(rc RequestContext, id string, req *kmsg.JoinGroupRequest) *member {
	m := &member{
		id: strings.Clone(id), clientID: strings.Clone(rc.ClientID), clientHost: strings.Clone(rc.ClientHost),
		protocolType: strings.Clone(req.ProtocolType), isNew: true,
	}
	if req.InstanceID != nil {
		instance := strings.Clone(*req.InstanceID)
		m.instance = &instance
	}
	m.update(req)
	return m
}

func (m *member) update(req *kmsg.JoinGroupRequest) {
	m.rebalanceTimeoutMs, m.sessionTimeoutMs = rebalanceTimeoutMs(req), req.SessionTimeoutMillis
	m.protocols = cloneProtocols(req.Protocols)
}

// rebalanceTimeoutMs: version 0 has none and means the session timeout.
func rebalanceTimeoutMs(req *kmsg.JoinGroupRequest) int32 {
	if req.Version == 0 {
		return req.SessionTimeoutMillis
	}
	return req.RebalanceTimeoutMillis
}

// cloneProtocols keeps the first of each name, as Kafka's collection does.
func cloneProtocols(ps []kmsg.JoinGroupRequestProtocol) []protocol {
	out := make([]protocol, 0, len(ps))
	for _, p := range ps {
		if !slices.ContainsFunc(out, func(o protocol) bool { return o.name == p.Name }) {
			out = append(out, protocol{strings.Clone(p.Name), slices.Clone(p.Metadata)})
		}
	}
	return out
}

// matches tells whether the request offers what the member has, in the same order.
func (m *member) matches(req *kmsg.JoinGroupRequest) bool {
	return slices.EqualFunc(m.protocols, req.Protocols, func(a protocol, b kmsg.JoinGroupRequestProtocol) bool {
		return a.name == b.Name && bytes.Equal(a.metadata, b.Metadata)
	})
}

// metadata is the member's subscription under the protocol; nil when it has none.
func (m *member) metadata(name *string) []byte {
	for _, p := range m.protocols {
		if name != nil && p.name == *name {
			return p.metadata
		}
	}
	return nil
}

// excused: a member whose request is parked here is alive by definition, unless it is new: then nobody may ever come
// for the answer (its id is not known to it yet).
func (m *member) excused() bool {
	return !m.isNew && (m.join != nil || m.sync != nil)
}

func (m *member) keepAlive(tx *coordinator.Tx) {
	tx.Schedule(&m.session, int64(m.sessionTimeoutMs))
}

// computeSubscribed reads the topics out of the members' subscriptions. Version 0 of the consumer protocol prefixes
// every later one, and is all that is read.
func (g *classicGroup) computeSubscribed() {
	g.subscribed = nil
	if g.protocolType != consumerProtocolType || (len(g.members) > 0 && g.protocol == nil) {
		return
	}
	topics := make(map[string]struct{})
	for _, m := range g.members {
		if !readSubscription(m.metadata(g.protocol), topics) {
			return
		}
	}
	g.subscribed = topics
}

// readSubscription adds a ConsumerProtocolSubscription's topics; false when it cannot be read.
func readSubscription(b []byte, topics map[string]struct{}) bool {
	if len(b) < 6 || int16(binary.BigEndian.Uint16(b)) < 0 {
		return false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	for ; n > 0; n-- {
		if len(b) < 2 {
			return false
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		if b = b[2:]; size < 0 || size > len(b) {
			return false
		}
		topics[string(b[:size])] = struct{}{}
		b = b[size:]
	}
	return n == 0
}

// subscribedTo: consumers whose subscriptions cannot be read might use any topic.
func (g *classicGroup) subscribedTo(topic string) bool {
	if g.subscribed == nil {
		return g.protocolType == consumerProtocolType
	}
	_, ok := g.subscribed[topic]
	return ok
}

// answerJoin lets a parked JoinGroup go; without one it does nothing.
func (g *classicGroup) answerJoin(tx *coordinator.Tx, m *member, resp *kmsg.JoinGroupResponse) {
	if answer := m.join; answer != nil {
		g.setJoin(m, nil)
		replyJoin(tx, answer, resp)
	}
}

func replyJoin(tx *coordinator.Tx, answer joinAnswer, resp *kmsg.JoinGroupResponse) {
	tx.Reply(func(err error) {
		if err != nil {
			resp = joinError("", nil)
			resp.ErrorCode = coordinator.Code(err)
		}
		answer(resp)
	})
}

// answerSync lets a parked SyncGroup go and tells whether there was one.
func (g *classicGroup) answerSync(tx *coordinator.Tx, m *member, resp *kmsg.SyncGroupResponse) bool {
	answer := m.sync
	if answer == nil {
		return false
	}
	m.sync = nil
	replySync(tx, answer, resp)
	return true
}

func replySync(tx *coordinator.Tx, answer syncAnswer, resp *kmsg.SyncGroupResponse) {
	tx.Reply(func(err error) {
		if err != nil {
			resp = syncError(nil)
			resp.ErrorCode = coordinator.Code(err)
		}
		answer(resp)
	})
}

func joinError(memberID string, e *kerr.Error) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.MemberID = memberID
	if e != nil {
		resp.ErrorCode = e.Code
	}
	return resp
}

func syncError(e *kerr.Error) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	if e != nil {
		resp.ErrorCode = e.Code
	}
	return resp
}
