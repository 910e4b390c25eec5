package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// LeaveGroup takes members out; Members must be set also for versions that name only one. The response has an error
// per member, and one at the top only when the group cannot be served.
func (s *Service) LeaveGroup(req *kmsg.LeaveGroupRequest, answer func(*kmsg.LeaveGroupResponse)) {
	fail := func(code int16) {
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = code
		answer(resp)
	}
	if req.Group == "" {
		fail(kerr.InvalidGroupID.Code)
		return
	}
	s.submit(req.Group, false,
		func(sh *shard, tx *coordinator.Tx) {
			resp := kmsg.NewPtrLeaveGroupResponse()
			resp.Members = sh.leave(tx, req)
			tx.Reply(func(err error) {
				if err != nil {
					fail(coordinator.Code(err))
					return
				}
				answer(resp)
			})
		}, fail)
}

func (s *shard) leave(tx *coordinator.Tx, req *kmsg.LeaveGroupRequest) []kmsg.LeaveGroupResponseMember {
	if g, ok := s.groups[req.Group].(*consumerGroup); ok {
		return s.leaveConsumerGroup(tx, g, req)
	}
	g, groupErr := s.classic(req.Group)
	out := make([]kmsg.LeaveGroupResponseMember, 0, len(req.Members))
	left := false
	for _, who := range req.Members {
		err := groupErr
		if err == nil {
			err = s.leaveOne(tx, g, who)
		}
		left = left || err == nil
		out = append(out, leftMember(who, err))
	}
	if left {
		s.membersGone(tx, g)
	}
	return out
}

func leftMember(who kmsg.LeaveGroupRequestMember, err error) kmsg.LeaveGroupResponseMember {
	r := kmsg.NewLeaveGroupResponseMember()
	r.MemberID, r.InstanceID, r.ErrorCode = who.MemberID, who.InstanceID, coordinator.Code(err)
	return r
}

// leaveOne: without a member id it is an administrator who removes a static member by its instance id.
func (s *shard) leaveOne(tx *coordinator.Tx, g *classicGroup, who kmsg.LeaveGroupRequestMember) error {
	switch {
	case who.MemberID == "":
		if who.InstanceID == nil || g.static[*who.InstanceID] == nil {
			return kerr.UnknownMemberID
		}
		s.removeMember(tx, g, g.static[*who.InstanceID])
		return nil
	case g.pendingJoin[who.MemberID] != nil:
		g.remove(tx, who.MemberID)
		return nil
	}
	if err := g.checkMember(who.MemberID, who.InstanceID); err != nil {
		return err
	}
	s.removeMember(tx, g, g.byID[who.MemberID])
	return nil
}

// membersGone moves the group on after a LeaveGroup.
func (s *shard) membersGone(tx *coordinator.Tx, g *classicGroup) {
	switch g.state {
	case stable, completingRebalance:
		s.prepareRebalance(tx, g)
	case preparingRebalance:
		s.maybeCompleteJoin(tx, g)
	}
}
