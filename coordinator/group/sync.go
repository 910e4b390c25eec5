package group

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// checkSync is what needs no state. From version 5 on the protocol type and name are not optional (KIP-559).
func checkSync(req *kmsg.SyncGroupRequest) *kerr.Error {
	switch {
	case req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil):
		return kerr.InconsistentGroupProtocol
	case req.Group == "":
		return kerr.InvalidGroupID
	}
	return nil
}

func (s *shard) sync(tx *coordinator.Tx, req *kmsg.SyncGroupRequest, answer syncAnswer) {
	if g, ok := s.groups[req.Group].(*consumerGroup); ok && !g.empty() {
		s.syncConsumerGroup(tx, g, req, answer)
		return
	}
	g, err := s.classic(req.Group)
	if err == nil {
		err = g.checkSync(req)
	}
	if err != nil {
		replySync(tx, answer, syncError(kafkaError(err)))
		return
	}
	m := g.byID[req.MemberID]
	g.synced(tx, m)
	if g.state == stable {
		replySync(tx, answer, g.assigned(m))
		return
	}
	g.answerSync(tx, m, syncError(kerr.RebalanceInProgress)) // one that its client has given up
	m.sync = answer
	if g.leader == m.id {
		s.assign(tx, g, req)
	}
}

func (g *classicGroup) checkSync(req *kmsg.SyncGroupRequest) error {
	if g.state == empty {
		return kerr.UnknownMemberID
	}
	if err := g.checkMember(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	switch {
	case req.Generation != g.generation:
		return kerr.IllegalGeneration
	case differ(req.ProtocolType, g.responseProtocolType()) || differ(req.Protocol, g.protocol):
		return kerr.InconsistentGroupProtocol
	case g.state == preparingRebalance:
		return kerr.RebalanceInProgress
	}
	return nil
}

func differ(a, b *string) bool { return a != nil && b != nil && *a != *b }

// synced notes that m's SyncGroup has come; with the last one nobody is waited for.
func (g *classicGroup) synced(tx *coordinator.Tx, m *member) {
	g.setSyncPending(m, false)
	if g.pendingSync == 0 {
		tx.Cancel(&g.syncTimer)
	}
}

// assign makes the leader's assignment durable, and then the group stable.
func (s *shard) assign(tx *coordinator.Tx, g *classicGroup, req *kmsg.SyncGroupRequest) {
	assignments := make(map[string][]byte, len(req.GroupAssignment))
	for _, a := range req.GroupAssignment {
		assignments[a.MemberID] = bytes.Clone(a.MemberAssignment)
	}
	tx.AppendApplied(groupMetadataKey(g.id), g.metadataValue(assignments), func(tx *coordinator.Tx) {
		s.transition(g, stable, tx.NowMs)
		for _, m := range g.members {
			m.assignment = assignments[m.id]
			g.weigh(m)
			if g.answerSync(tx, m, g.assigned(m)) {
				m.keepAlive(tx)
			}
		}
	})
	tx.OnFailed(func(tx *coordinator.Tx, err error) {
		s.abandonSync(tx, g, coordinator.Code(err))
		s.prepareRebalance(tx, g)
	})
}

func (g *classicGroup) assigned(m *member) *kmsg.SyncGroupResponse {
	resp := syncError(nil)
	resp.ProtocolType, resp.Protocol = g.responseProtocolType(), g.protocol
	resp.MemberAssignment = m.assignment
	return resp
}

func (g *classicGroup) assignments() map[string][]byte {
	out := make(map[string][]byte, len(g.members))
	for _, m := range g.members {
		out[m.id] = m.assignment
	}
	return out
}

// abandonSync sends everyone back who waits for an assignment that will not come.
func (s *shard) abandonSync(tx *coordinator.Tx, g *classicGroup, code int16) {
	for _, m := range g.members {
		m.assignment = nil
		g.weigh(m)
		resp := syncError(nil)
		resp.ErrorCode = code
		if g.answerSync(tx, m, resp) {
			m.keepAlive(tx)
		}
	}
}

// expireSync removes the members that joined a generation and did not sync within the rebalance timeout.
func (s *shard) expireSync(tx *coordinator.Tx, g *classicGroup, generation int32) {
	if g.generation != generation || g.pendingSync == 0 || (g.state != completingRebalance && g.state != stable) {
		return
	}
	var late []*member
	for _, m := range g.members {
		if m.syncPending {
			late = append(late, m)
		}
	}
	for _, m := range late {
		s.removeMember(tx, g, m)
	}
	s.prepareRebalance(tx, g)
}
