package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// ConsumerGroupHeartbeat serves a member of the consumer protocol: it joins, stays, and leaves with this one request.
func (s *Service) ConsumerGroupHeartbeat(rc RequestContext, req *kmsg.ConsumerGroupHeartbeatRequest, answer func(*kmsg.ConsumerGroupHeartbeatResponse)) {
	if err := s.checkConsumerHeartbeat(req); err != nil {
		answer(heartbeatError(err))
		return
	}
	s.submit(req.Group, false,
		func(sh *shard, tx *coordinator.Tx) {
			resp, err := sh.consumerHeartbeat(tx, rc, req)
			tx.Reply(func(failed error) {
				switch {
				case failed != nil:
					resp = heartbeatError(failed)
				case err != nil:
					resp = heartbeatError(err)
				}
				answer(resp)
			})
		},
		func(code int16) { answer(&kmsg.ConsumerGroupHeartbeatResponse{ErrorCode: code}) })
}

func heartbeatError(err error) *kmsg.ConsumerGroupHeartbeatResponse {
	return &kmsg.ConsumerGroupHeartbeatResponse{ErrorCode: coordinator.Code(err), ErrorMessage: messageOf(err)}
}

func heartbeatResponse(memberID string, epoch int32) *kmsg.ConsumerGroupHeartbeatResponse {
	id := strings.Clone(memberID)
	return &kmsg.ConsumerGroupHeartbeatResponse{MemberID: &id, MemberEpoch: epoch}
}

// checkConsumerHeartbeat is what needs no state.
func (s *Service) checkConsumerHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) error {
	blank := func(v *string) bool { return v != nil && strings.TrimSpace(*v) == "" }
	needsID := req.Version >= 1 || req.MemberEpoch > 0 || req.MemberEpoch == leavingEpoch
	switch {
	case needsID && blank(&req.MemberID):
		return refuse(kerr.InvalidRequest, "The member id is empty.")
	case blank(&req.Group):
		return refuse(kerr.InvalidRequest, "The group id is empty.")
	case blank(req.InstanceID):
		return refuse(kerr.InvalidRequest, "The instance id is empty.")
	case blank(req.RackID):
		return refuse(kerr.InvalidRequest, "The rack id is empty.")
	case req.MemberEpoch < staticLeaveEpoch:
		return refuse(kerr.InvalidRequest, "Member epochs below -2 mean nothing.")
	case req.MemberEpoch == staticLeaveEpoch && req.InstanceID == nil:
		return refuse(kerr.InvalidRequest, "A member epoch of -2 is for static members: the instance id is missing.")
	}
	if req.MemberEpoch == joiningEpoch {
		if err := checkConsumerJoin(req); err != nil {
			return err
		}
	}
	known := s.o.Config.Consumer.Assignors
	if a := req.ServerAssignor; a != nil && !slices.Contains(known, *a) {
		return refuse(kerr.UnsupportedAssignor, "There is no assignor %s here, only %s.", *a, strings.Join(known, ", "))
	}
	return nil
}

func checkConsumerJoin(req *kmsg.ConsumerGroupHeartbeatRequest) error {
	switch {
	case req.RebalanceTimeoutMillis == -1:
		return refuse(kerr.InvalidRequest, "Who joins must say its rebalance timeout.")
	case req.Topics == nil || len(req.Topics) > 0:
		return refuse(kerr.InvalidRequest, "Who joins has no partitions: the list must be empty, and not null.")
	case req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
		return refuse(kerr.InvalidRequest, "Who joins must subscribe, by names or by an expression.")
	}
	return nil
}

func (s *shard) consumerHeartbeat(tx *coordinator.Tx, rc RequestContext, req *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, error) {
	if req.MemberEpoch == leavingEpoch || req.MemberEpoch == staticLeaveEpoch {
		return s.consumerLeave(tx, req)
	}
	t := &turn{s: s, rc: rc, tx: tx, im: s.image()}
	if err := t.findGroup(req.Group, req.MemberEpoch == joiningEpoch); err != nil {
		return nil, err
	}
	if err := t.checkSize(req.MemberID, req.InstanceID); err != nil {
		return nil, err
	}
	if err := t.findMember(req); err != nil {
		return nil, err
	}
	before := t.old.assigned
	t.m = t.old.heartbeated(rc, req)
	if err := t.heartbeat(req); err != nil {
		return nil, err
	}
	settings := s.groupSettings(t.g.id)
	groupID, memberID := t.g.id, t.m.id
	t.c.whenApplied(func(tx *coordinator.Tx) { s.keepAlive(tx, groupID, memberID, settings.SessionTimeoutMs) })
	t.c.commit(tx)
	resp := heartbeatResponse(t.m.id, t.m.epoch)
	resp.HeartbeatIntervalMillis = settings.HeartbeatIntervalMs
	if req.MemberEpoch == joiningEpoch || isFull(req) || !before.equal(t.m.assigned) {
		resp.Assignment = assignmentResponse(t.m.assigned)
	}
	return resp, nil
}

// heartbeat is the turn of a member of the consumer protocol. A new expression that is not resolved yet raises no
// epoch: its topics will.
func (t *turn) heartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) error {
	named := t.noteMember()
	regex, err := t.noteRegex()
	if err != nil {
		return err
	}
	t.epoch = t.g.epoch
	t.raiseEpoch(named || regex == regexResolved || t.assignorChanged())
	epoch, target := t.target()
	return t.reconcile(epoch, target, named || regex != regexUnchanged, ownedOf(req))
}

// heartbeated is the member with what the request says of it; what is null has not changed.
func (m *consumerMember) heartbeated(rc RequestContext, req *kmsg.ConsumerGroupHeartbeatRequest) *consumerMember {
	next := *m
	next.clientID, next.clientHost, next.classic = strings.Clone(rc.ClientID), strings.Clone(rc.ClientHost), nil
	if req.InstanceID != nil {
		next.instance = cloneString(req.InstanceID)
	}
	if req.RackID != nil {
		next.rack = cloneString(req.RackID)
	}
	if req.RebalanceTimeoutMillis != -1 {
		next.rebalanceTimeoutMs = req.RebalanceTimeoutMillis
	}
	if req.ServerAssignor != nil {
		next.assignor = cloneString(req.ServerAssignor)
	}
	if req.SubscribedTopicNames != nil {
		next.topics = cloneNames(req.SubscribedTopicNames)
	}
	if req.SubscribedTopicRegex != nil {
		next.regex = strings.Clone(*req.SubscribedTopicRegex)
	}
	return &next
}

func cloneNames(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.Clone(name)
	}
	return sortedUnique(out)
}

// isFull tells whether the member says everything, as it does when it is not sure what the coordinator knows.
func isFull(req *kmsg.ConsumerGroupHeartbeatRequest) bool {
	return req.RebalanceTimeoutMillis != -1 && (req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil) && req.Topics != nil
}

func ownedOf(req *kmsg.ConsumerGroupHeartbeatRequest) partitions {
	if req.Topics == nil {
		return nil
	}
	owned := make(partitions, len(req.Topics))
	for _, t := range req.Topics {
		owned[t.TopicID] = append(owned[t.TopicID], t.Partitions...)
	}
	return owned
}

func assignmentResponse(o ownership) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	a := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	plain := o.plain()
	for _, id := range sortedTopics(plain) {
		t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		t.TopicID, t.Partitions = id, plain[id]
		a.Topics = append(a.Topics, t)
	}
	return &a
}
