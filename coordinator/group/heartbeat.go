package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// Heartbeat answers with a Kafka code. While the shard loads it says that all is well: nobody is expired meanwhile.
func (s *Service) Heartbeat(req *kmsg.HeartbeatRequest, answer func(code int16)) {
	if req.Group == "" {
		answer(kerr.InvalidGroupID.Code)
		return
	}
	s.submit(req.Group, false,
		func(sh *shard, tx *coordinator.Tx) {
			code := sh.heartbeat(tx, req)
			tx.Reply(func(err error) { answer(firstCode(err, code)) })
		},
		func(code int16) {
			if code == kerr.CoordinatorLoadInProgress.Code {
				code = 0
			}
			answer(code)
		})
}

// firstCode is that of err, or else code.
func firstCode(err error, code int16) int16 {
	if err != nil {
		return coordinator.Code(err)
	}
	return code
}

func (s *shard) heartbeat(tx *coordinator.Tx, req *kmsg.HeartbeatRequest) int16 {
	if g, ok := s.groups[req.Group].(*consumerGroup); ok {
		return coordinator.Code(s.heartbeatConsumerGroup(tx, g, req))
	}
	g, err := s.classic(req.Group)
	if err == nil {
		err = g.checkMember(req.MemberID, req.InstanceID)
	}
	switch {
	case err != nil:
		return coordinator.Code(err)
	case req.Generation != g.generation:
		return kerr.IllegalGeneration.Code
	case g.state == empty:
		return kerr.UnknownMemberID.Code
	}
	g.byID[req.MemberID].keepAlive(tx)
	if g.state == preparingRebalance {
		return kerr.RebalanceInProgress.Code
	}
	return 0
}
