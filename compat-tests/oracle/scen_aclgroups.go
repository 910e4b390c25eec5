package oracle

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func aclGroups(l *list) {
	g := func(s *Session) string { return s.Name("g") }
	l.each(11, "acl/join group", func(s *Session, v int16) {
		s.asked(v, func() kmsg.Request { return aclJoin(g(s)) }, toGroup(opDescribe, g(s)))
	})
	l.each(12, "acl/heartbeat", func(s *Session, v int16) {
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID = g(s), "m"
			return req
		}, toGroup(opRead, g(s)))
	})
	l.each(13, "acl/leave group", func(s *Session, v int16) {
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = g(s), "m"
			m := kmsg.NewLeaveGroupRequestMember()
			m.MemberID = "m"
			req.Members = append(req.Members, m)
			return req
		}, toGroup(opRead, g(s)))
	})
	l.each(14, "acl/sync group", func(s *Session, v int16) {
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrSyncGroupRequest()
			req.Group, req.MemberID = g(s), "m"
			req.ProtocolType, req.Protocol = ptr("consumer"), ptr("range")
			return req
		}, toGroup(opRead, g(s)))
	})
	l.each(15, "acl/describe groups", func(s *Session, v int16) {
		t, _ := s.aclTopic()
		s.commit(g(s), t, 5)
		request := func() kmsg.Request {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Groups, req.IncludeAuthorizedOperations = []string{g(s), s.Name("absent")}, true
			return req
		}
		s.asked(v, request, toGroup(opDescribe, g(s)))
		s.asked(v, request, toGroup(opRead, g(s)), toGroup(opRemove, s.Name("absent")))
	})
	l.each(16, "acl/list groups", func(s *Session, v int16) {
		t, _ := s.aclTopic()
		s.commit(g(s), t, 5)
		s.commit(s.Name("h"), t, 5)
		s.asked(v, func() kmsg.Request { return kmsg.NewPtrListGroupsRequest() }, toGroup(opDescribe, g(s)))
	})
	l.each(42, "acl/delete groups", func(s *Session, v int16) {
		t, _ := s.aclTopic()
		s.commit(g(s), t, 5)
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = []string{g(s), s.Name("absent")}
			return req
		}, toGroup(opRemove, g(s)))
	})
	l.each(68, "acl/consumer heartbeat", func(s *Session, v int16) {
		t, none := s.aclTopic()
		request := func() kmsg.Request {
			req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			req.Group, req.MemberID, req.RebalanceTimeoutMillis = g(s), "AAAAAAAAAAAAAAAAAAAAAQ", 1000
			req.SubscribedTopicNames, req.Topics = []string{t.name, none.name}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			return req
		}
		s.asked(v, request, toGroup(opRead, g(s)), toTopic(opDescribe, t.name), toTopic(opDescribe, none.name))
	})
	l.each(69, "acl/consumer describe", func(s *Session, v int16) {
		t, _ := s.aclTopic()
		m := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		m.Group, m.MemberID, m.RebalanceTimeoutMillis = g(s), "AAAAAAAAAAAAAAAAAAAAAQ", 1000
		m.SubscribedTopicNames, m.Topics = []string{t.name}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		s.await(func() bool {
			return s.setup(1, m).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode == 0
		}, "a member")
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrConsumerGroupDescribeRequest()
			req.Groups, req.IncludeAuthorizedOperations = []string{g(s), s.Name("absent")}, true
			return req
		}, toGroup(opDescribe, g(s)), toTopic(opDescribe, t.name))
	})
}

func aclJoin(group string) kmsg.Request {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = group, 6000, 6000, "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	req.Protocols = append(req.Protocols, p)
	return req
}

func aclOffsets(l *list) {
	g := func(s *Session) string { return s.Name("g") }
	l.each(8, "acl/offset commit", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := offsetCommit(g(s), t, 0, 5)
			req.Topics = append(req.Topics, offsetCommit(g(s), none, 0, 5).Topics...)
			return req
		}, toGroup(opRead, g(s)), toTopic(opRead, t.name))
	})
	l.each(9, "acl/offset fetch", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.commit(g(s), t, 5)
		s.asked(v, func() kmsg.Request {
			req := offsetFetch(g(s), t, 0)
			more := offsetFetch(g(s), none, 0)
			req.Topics = append(req.Topics, more.Topics...)
			req.Groups[0].Topics = append(req.Groups[0].Topics, more.Groups[0].Topics...)
			return req
		}, toGroup(opDescribe, g(s)), toTopic(opDescribe, t.name))
		if v >= 2 {
			s.asked(v, func() kmsg.Request {
				req := offsetFetch(g(s), t, 0)
				req.Topics, req.Groups[0].Topics = nil, nil
				return req
			}, toGroup(opDescribe, g(s)), toTopic(opDescribe, t.name))
		}
	})
	l.each(47, "acl/offset delete", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.commit(g(s), t, 5)
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrOffsetDeleteRequest()
			req.Group = g(s)
			for _, name := range []string{t.name, none.name} {
				rt := kmsg.NewOffsetDeleteRequestTopic()
				rt.Topic = name
				rt.Partitions = append(rt.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
				req.Topics = append(req.Topics, rt)
			}
			return req
		}, toGroup(opRemove, g(s)), toTopic(opRead, t.name))
	})
}

func aclTransactions(l *list) {
	l.each(22, "acl/init producer id", func(s *Session, v int16) {
		id := s.Name("x")
		s.txnReady(id)
		s.asked(v, func() kmsg.Request { return initProducerID(&id) }, toTxn(opWrite, id))
	})
	l.between(24, 0, 3, "acl/add partitions", func(s *Session, v int16) {
		t, none := s.aclTopic()
		p := s.adminProducer("x")
		s.asked(v, func() kmsg.Request { return inVersion(v, p.addRequest(t.name, 0)) }, toTxn(opWrite, p.id), toTopic(opWrite, t.name))
		s.asked(v, func() kmsg.Request { return inVersion(v, p.addRequest(t.name, 0, none.name, 0)) }, toTxn(opWrite, p.id), toTopic(opWrite, t.name))
		s.asked(v, func() kmsg.Request { return inVersion(v, p.addRequest(t.name, 0, "__consumer_offsets", 0)) }, toTxn(opWrite, p.id), toTopic(opWrite, t.name))
	})
	l.each(25, "acl/add offsets", func(s *Session, v int16) {
		p := s.adminProducer("x")
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrAddOffsetsToTxnRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = p.id, p.pid, p.epoch, s.Name("g")
			return req
		}, toTxn(opWrite, p.id), toGroup(opRead, s.Name("g")))
	})
	l.each(26, "acl/end transaction", func(s *Session, v int16) {
		p := s.adminProducer("x")
		s.asked(v, func() kmsg.Request { return p.endRequest(true) }, toTxn(opWrite, p.id))
	})
	l.each(28, "acl/commit in a transaction", func(s *Session, v int16) {
		t, none := s.aclTopic()
		p := s.adminProducer("x")
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrTxnOffsetCommitRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group, req.Generation = p.id, p.pid+7, p.epoch, s.Name("g"), -1
			for _, t := range []topic{t, none} {
				rt := kmsg.NewTxnOffsetCommitRequestTopic()
				rt.Topic, rt.TopicID = t.name, t.id
				rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
				rp.Offset = 5
				rt.Partitions = append(rt.Partitions, rp)
				req.Topics = append(req.Topics, rt)
			}
			return req
		}, toTxn(opWrite, p.id), toGroup(opRead, s.Name("g")), toTopic(opRead, t.name))
	})
	l.each(65, "acl/describe transactions", func(s *Session, v int16) {
		t, _ := s.aclTopic()
		p := s.adminProducer("x")
		p.begin(t, 0)
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrDescribeTransactionsRequest()
			req.TransactionalIDs = []string{p.id, s.Name("absent")}
			return req
		}, toTxn(opDescribe, p.id), toTopic(opDescribe, t.name))
	})
	l.each(66, "acl/list transactions", func(s *Session, v int16) {
		p := s.adminProducer("x")
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrListTransactionsRequest()
			req.ProducerIDFilters = []int64{p.pid}
			return req
		}, toTxn(opDescribe, p.id))
	})
}
