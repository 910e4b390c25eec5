package group

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// Heartbeat answers with a Kafka code.
func (s *Service) Heartbeat(req *kmsg.HeartbeatRequest, answer func(code int16)) {
	if req.Group == "" {
		answer(kerr.InvalidGroupID.Code)
		return
	}
	s.rt.Submit(s.PartitionFor(req.Group), op{
		Key: req.Group,
		Run: func(sh *shard, tx *coordinator.Tx) {
			code := sh.heartbeat(tx, req)
			tx.Reply(func(err error) { answer(firstCode(err, code)) })
		},
		Refuse: func(err error) { answer(refusedHeartbeat(err)) },
	})
}

// refusedHeartbeat says that all is well while the shard loads: no member is expired meanwhile. In an overloaded shard
// sessions do end; the code for that is one that clients expect of a Heartbeat, and repeat it for.
func refusedHeartbeat(err error) int16 {
	switch {
	case errors.Is(err, coordinator.ErrLoading):
		return 0
	case errors.Is(err, coordinator.ErrOverloaded):
		return kerr.CoordinatorNotAvailable.Code
	}
	return coordinator.Code(err)
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
