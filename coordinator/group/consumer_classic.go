package group

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// joinConsumerGroup is the JoinGroup of a member that speaks the classic protocol in a consumer group: answered at
// once, with its epoch as the generation; it leads nothing and gets its assignment with SyncGroup.
func (j *join) joinConsumerGroup(g *consumerGroup) {
	if err := j.classicTurn(g); err != nil {
		j.refuse("", err)
	}
}

func (j *join) classicTurn(g *consumerGroup) error {
	t := &turn{s: j.s, rc: j.rc, tx: j.tx, g: g, im: j.s.image(), epoch: g.epoch}
	id := j.req.MemberID
	if id == "" {
		id = j.s.newMemberID()
	}
	if err := j.checkConsumerJoin(t, id); err != nil {
		return err
	}
	if j.req.MemberID == "" && j.req.InstanceID == nil && j.rc.Version >= 4 {
		j.refuse(id, kerr.MemberIDRequired)
		return nil
	}
	subscription, err := readConsumerSubscription(j.req.Protocols[0].Metadata)
	if err != nil {
		return kerr.InconsistentGroupProtocol
	}
	if err := j.findClassicMember(t, id); err != nil {
		return err
	}
	replaced := g.staticMember(j.req.InstanceID)
	t.m = j.classicMember(t.old, subscription)
	if err := j.advance(t, replaced, subscription); err != nil {
		return err
	}
	t.c.commit(j.tx)
	resp := joinError(t.m.id, nil)
	protocolType, protocolName := consumerProtocolType, t.m.classic.protocols[0].name
	resp.Generation, resp.ProtocolType, resp.Protocol = t.m.epoch, &protocolType, &protocolName
	replyJoin(j.tx, j.answer, resp)
	return nil
}

func (j *join) checkConsumerJoin(t *turn, id string) error {
	if t.s.cfg.Consumer.Migration == (MigrationPolicy{}) {
		return kerr.InconsistentGroupProtocol
	}
	if err := t.checkSize(id, j.req.InstanceID); err != nil {
		return err
	}
	if !t.g.supportsClassic(j.req.ProtocolType, cloneProtocols(j.req.Protocols)) {
		return kerr.InconsistentGroupProtocol
	}
	return nil
}

// findClassicMember: who has a member id is a member, whether it was known or not; an instance must be known under it.
func (j *join) findClassicMember(t *turn, id string) error {
	switch instance := j.req.InstanceID; {
	case instance == nil:
		if t.old = t.g.members[id]; t.old == nil {
			t.old = newConsumerMember(strings.Clone(id))
		}
		return nil
	case j.req.MemberID == "":
		return t.joinStatic(id, instance, false)
	default:
		m, err := t.g.staticByInstance(id, *instance)
		t.old = m
		return err
	}
}

// classicMember is the member with what the request says of it.
func (j *join) classicMember(old *consumerMember, subscription *kmsg.ConsumerMemberMetadata) *consumerMember {
	next := *old
	if j.req.InstanceID != nil {
		next.instance = cloneString(j.req.InstanceID)
	}
	if rack := nonEmpty(subscription.Rack); rack != nil {
		next.rack = cloneString(rack)
	}
	if timeoutMs := rebalanceTimeoutMs(j.req); timeoutMs != -1 {
		next.rebalanceTimeoutMs = timeoutMs
	}
	next.topics, next.regex = cloneNames(subscription.Topics), ""
	next.clientID, next.clientHost = strings.Clone(j.rc.ClientID), strings.Clone(j.rc.ClientHost)
	next.classic = &classicMetadata{j.req.SessionTimeoutMillis, cloneProtocols(j.req.Protocols)}
	return &next
}

// advance is the member's turn; where it replaces the last one of the consumer protocol it ends with the downgrade.
func (j *join) advance(t *turn, replaced *consumerMember, subscription *kmsg.ConsumerMemberMetadata) error {
	named := t.noteMember()
	regex, err := t.noteRegex()
	if err != nil {
		return err
	}
	changed := named || regex != regexUnchanged
	t.raiseEpoch(changed)
	owned := t.ownedBy(subscription)
	if replaced == nil || replaced.classic != nil || !tallyWith(t.g, t.m, t.s.downgradeable) {
		epoch, target := t.target()
		j.watch(t)
		return t.reconcile(epoch, target, changed, owned)
	}
	rebalance := t.g.assignmentEpoch < t.epoch
	if !rebalance {
		target, _ := t.g.targetOf(t.m)
		if err := t.reconcile(t.g.assignmentEpoch, target, changed, owned); err != nil {
			return err
		}
	}
	t.s.downgrade(j.tx, &t.c, t.g, t.g.membersWith(t.m), t.m, rebalance)
	return nil
}

func (t *turn) ownedBy(subscription *kmsg.ConsumerMemberMetadata) partitions {
	owned := make(partitions)
	for _, topic := range subscription.OwnedPartitions {
		if known := t.im.Topic(topic.Topic); known != nil {
			owned[known.ID] = append(owned[known.ID], topic.Partitions...)
		}
	}
	return owned
}

// watch expects the member's SyncGroup within its rebalance timeout, and its heartbeats.
func (j *join) watch(t *turn) {
	s, groupID, memberID := j.s, t.g.id, t.m.id
	sessionMs, rebalanceMs := j.req.SessionTimeoutMillis, rebalanceTimeoutMs(j.req)
	t.c.whenApplied(func(tx *coordinator.Tx) {
		g, m := s.consumerMember(groupID, memberID)
		if m == nil {
			return
		}
		timers := s.timersOf(g, m)
		tx.Cancel(&timers.join)
		tx.Schedule(&timers.session, int64(sessionMs))
		tx.Schedule(&timers.sync, int64(rebalanceMs))
	})
}

// classicMemberOf finds the member of a consumer group that sends a request of the classic protocol.
func (g *consumerGroup) classicMemberOf(id string, instance *string, generation int32) (*consumerMember, error) {
	m, err := g.member(id, instance)
	switch {
	case err != nil:
		return nil, err
	case m.classic == nil:
		return nil, kerr.UnknownMemberID
	case m.epoch != generation:
		return nil, kerr.IllegalGeneration
	}
	return m, nil
}

func (s *shard) syncConsumerGroup(tx *coordinator.Tx, g *consumerGroup, req *kmsg.SyncGroupRequest, answer syncAnswer) {
	m, err := g.classicMemberOf(req.MemberID, req.InstanceID, req.Generation)
	if err == nil {
		err = s.checkConsumerSync(tx, g, m, req)
	}
	if err != nil {
		replySync(tx, answer, syncError(kafkaError(err)))
		return
	}
	timers := s.timersOf(g, m)
	tx.Cancel(&timers.sync)
	tx.Schedule(&timers.session, int64(m.classic.sessionTimeoutMs))
	resp := syncError(nil)
	resp.ProtocolType, resp.Protocol = req.ProtocolType, req.Protocol
	resp.MemberAssignment = consumerAssignment(m.assigned.plain(), m.classic.protocols[0].metadata, s.image())
	replySync(tx, answer, resp)
}

func (s *shard) checkConsumerSync(tx *coordinator.Tx, g *consumerGroup, m *consumerMember, req *kmsg.SyncGroupRequest) error {
	protocolType := consumerProtocolType
	switch {
	case differ(req.ProtocolType, &protocolType), differ(req.Protocol, &m.classic.protocols[0].name):
		return kerr.InconsistentGroupProtocol
	case g.assignmentEpoch > m.epoch && m.state != memberUnrevoked:
		s.awaitRejoin(tx, g, m)
		return kerr.RebalanceInProgress
	}
	return nil
}

// heartbeatConsumerGroup sends a classic member to join again when its target is newer, when it has to revoke, or when
// what it waited for is free.
func (s *shard) heartbeatConsumerGroup(tx *coordinator.Tx, g *consumerGroup, req *kmsg.HeartbeatRequest) error {
	m, err := g.classicMemberOf(req.MemberID, req.InstanceID, req.Generation)
	if err != nil {
		return err
	}
	tx.Schedule(&s.timersOf(g, m).session, int64(m.classic.sessionTimeoutMs))
	if m.epoch < g.assignmentEpoch || m.state == memberUnrevoked || (m.state == memberUnreleased && !g.waits(m)) {
		s.awaitRejoin(tx, g, m)
		return kerr.RebalanceInProgress
	}
	return nil
}

// waits tells whether others still have partitions of m's target.
func (g *consumerGroup) waits(m *consumerMember) bool {
	for id, ps := range g.target[m.id] {
		for _, p := range ps {
			if _, taken := g.owners[topicPartition{id, p}]; taken && !m.assigned.has(id, p) {
				return true
			}
		}
	}
	return false
}

// leaveConsumerGroup takes members out by LeaveGroup, whatever protocol they speak.
func (s *shard) leaveConsumerGroup(tx *coordinator.Tx, g *consumerGroup, req *kmsg.LeaveGroupRequest) []kmsg.LeaveGroupResponseMember {
	out := make([]kmsg.LeaveGroupResponseMember, 0, len(req.Members))
	gone := make(map[string]bool)
	for _, who := range req.Members {
		m, err := g.classicLeaver(who)
		if err == nil {
			gone[m.id] = true
		}
		out = append(out, leftMember(who, err))
	}
	var c changes
	s.removeMembers(tx, &c, g, gone)
	c.commit(tx)
	return out
}

// classicLeaver: without a member id it is an administrator who removes a static member.
func (g *consumerGroup) classicLeaver(who kmsg.LeaveGroupRequestMember) (*consumerMember, error) {
	switch m := g.staticMember(who.InstanceID); {
	case who.InstanceID == nil:
		return g.member(who.MemberID, nil)
	case m != nil && who.MemberID == "":
		return m, nil
	default:
		return g.staticByInstance(who.MemberID, *who.InstanceID)
	}
}
