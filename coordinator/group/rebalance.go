package group

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
)

// rebalanceOrComplete moves the group on after a change of its members.
func (s *shard) rebalanceOrComplete(tx *coordinator.Tx, g *classicGroup) {
	switch g.state {
	case empty, completingRebalance, stable:
		s.prepareRebalance(tx, g)
	default:
		s.maybeCompleteJoin(tx, g)
	}
}

// prepareRebalance asks every member to join again. The first rebalance of an empty group waits a little for more
// members (KIP-134).
func (s *shard) prepareRebalance(tx *coordinator.Tx, g *classicGroup) {
	if g.state == completingRebalance {
		s.abandonSync(tx, g, syncError(kerr.RebalanceInProgress).ErrorCode)
	}
	for _, m := range g.members {
		g.setSyncPending(m, false)
	}
	tx.Cancel(&g.syncTimer)
	initial := g.state == empty
	s.transition(g, preparingRebalance, tx.NowMs)
	switch {
	case initial:
		s.startInitialDelay(tx, g)
	case g.allJoined():
		s.completeJoin(tx, g)
	default:
		s.awaitJoins(tx, g)
	}
}

// transition brings the group into a state, of which it depends what expires.
func (s *shard) transition(g *classicGroup, to classicState, nowMs int64) {
	g.transition(to, nowMs)
	s.changed(g.id)
}

func (s *shard) awaitJoins(tx *coordinator.Tx, g *classicGroup) {
	g.joinTimer.Fire = func(tx *coordinator.Tx) { s.completeJoin(tx, g) }
	tx.Schedule(&g.joinTimer, g.rebalanceTimeoutMs())
}

func (s *shard) startInitialDelay(tx *coordinator.Tx, g *classicGroup) {
	delayMs := int64(s.cfg.InitialRebalanceDelayMs)
	s.delayInitial(tx, g, delayMs, max(g.rebalanceTimeoutMs()-delayMs, 0))
}

// delayInitial waits delayMs, and again as long as members keep coming, up to the rebalance timeout in all.
func (s *shard) delayInitial(tx *coordinator.Tx, g *classicGroup, delayMs, remainingMs int64) {
	g.joinTimer.Fire = func(tx *coordinator.Tx) {
		if !g.memberAdded || remainingMs == 0 {
			s.completeJoin(tx, g)
			return
		}
		g.memberAdded = false
		next := min(int64(s.cfg.InitialRebalanceDelayMs), remainingMs)
		s.delayInitial(tx, g, next, max(remainingMs-delayMs, 0))
	}
	tx.Schedule(&g.joinTimer, delayMs)
}

// maybeCompleteJoin ends the join phase when everyone is there; that of the initial rebalance ends by time alone.
func (s *shard) maybeCompleteJoin(tx *coordinator.Tx, g *classicGroup) {
	if g.state == preparingRebalance && g.before != empty && g.allJoined() {
		s.completeJoin(tx, g)
	}
}

// completeJoin begins the next generation with whoever has joined. Dynamic members who have not are out; static ones
// stay until their session ends.
func (s *shard) completeJoin(tx *coordinator.Tx, g *classicGroup) {
	tx.Cancel(&g.joinTimer)
	if g.state != preparingRebalance {
		return
	}
	for _, m := range g.laggards() {
		g.remove(tx, m.id)
	}
	switch {
	case len(g.members) == 0:
		s.becomeEmpty(tx, g)
	case !g.electLeader():
		s.awaitJoins(tx, g)
	default:
		s.startGeneration(tx, g)
	}
}

func (g *classicGroup) laggards() []*member {
	var out []*member
	for _, m := range g.members {
		if m.join == nil && m.instance == nil {
			out = append(out, m)
		}
	}
	return out
}

// electLeader keeps a leader that has joined, or takes the first member that has; false when none has.
func (g *classicGroup) electLeader() bool {
	if l := g.byID[g.leader]; l != nil && l.join != nil {
		return true
	}
	for _, m := range g.members {
		if m.join != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

// becomeEmpty ends the last generation. Should its record not be written, a restart finds the generation before,
// whose members are gone and time out; so nothing is taken back.
func (s *shard) becomeEmpty(tx *coordinator.Tx, g *classicGroup) {
	g.generation++
	g.protocol, g.leader = nil, ""
	g.computeSubscribed()
	s.transition(g, empty, tx.NowMs)
	tx.AppendApplied(groupMetadataKey(g.id), g.metadataValue(nil), func(*coordinator.Tx) {})
}

// startGeneration answers every parked JoinGroup; the group then waits for each member's SyncGroup.
func (s *shard) startGeneration(tx *coordinator.Tx, g *classicGroup) {
	g.generation++
	g.protocol = g.selectProtocol()
	g.computeSubscribed()
	s.transition(g, completingRebalance, tx.NowMs)
	for _, m := range g.members {
		g.answerJoin(tx, m, g.joined(m))
		m.keepAlive(tx)
		m.isNew = false
		g.setSyncPending(m, true)
	}
	generation := g.generation
	g.syncTimer.Fire = func(tx *coordinator.Tx) { s.expireSync(tx, g, generation) }
	tx.Schedule(&g.syncTimer, g.rebalanceTimeoutMs())
}

// watchSession sets what happens when m is not heard of for its session timeout.
func (s *shard) watchSession(g *classicGroup, m *member) {
	m.session.Fire = func(tx *coordinator.Tx) {
		if g.byID[m.id] == m && g.state != dead && !m.excused() {
			s.removeMember(tx, g, m)
			s.membersLeft(tx, g)
		}
	}
}

// expirePending forgets an id that was given out and never used.
func (s *shard) expirePending(tx *coordinator.Tx, g *classicGroup, id string) {
	if g.pendingJoin[id] == nil || g.state == dead {
		return
	}
	g.remove(tx, id)
	if g.state == preparingRebalance && g.allJoined() {
		s.completeJoin(tx, g)
	}
}

// removeMember takes m out; its parked JoinGroup gets UNKNOWN_MEMBER_ID, so that a client that is alive after all
// starts anew.
func (s *shard) removeMember(tx *coordinator.Tx, g *classicGroup, m *member) {
	g.answerJoin(tx, m, joinError("", kerr.UnknownMemberID))
	g.answerSync(tx, m, syncError(kerr.UnknownMemberID))
	g.remove(tx, m.id)
}

// membersLeft moves the group on after a session ran out.
func (s *shard) membersLeft(tx *coordinator.Tx, g *classicGroup) {
	switch {
	case g.state == stable, g.state == completingRebalance:
		s.prepareRebalance(tx, g)
	case g.state == preparingRebalance && g.allJoined():
		s.completeJoin(tx, g)
	}
}
