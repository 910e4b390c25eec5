package oracle

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	opRead           = kmsg.ACLOperationRead
	opWrite          = kmsg.ACLOperationWrite
	opCreate         = kmsg.ACLOperationCreate
	opRemove         = kmsg.ACLOperationDelete
	opAlter          = kmsg.ACLOperationAlter
	opDescribe       = kmsg.ACLOperationDescribe
	opClusterAction  = kmsg.ACLOperationClusterAction
	opDescribeConfig = kmsg.ACLOperationDescribeConfigs
	opAlterConfig    = kmsg.ACLOperationAlterConfigs
	opIdempotent     = kmsg.ACLOperationIdempotentWrite
)

func toCluster(op kmsg.ACLOperation) right { return right{op, onCluster, "kafka-cluster"} }
func toTopic(op kmsg.ACLOperation, name string) right {
	return right{op, onTopic, name}
}
func toGroup(op kmsg.ACLOperation, name string) right { return right{op, onGroup, name} }
func toTxn(op kmsg.ACLOperation, id string) right     { return right{op, onTxn, id} }

// ACLScenarios walk the APIs: each with no right, without each of the rights that it needs, and with all. Where a request names topics, it names one
// that exists, t, and one that does not, none: with no right they must look the same as far as Kafka's do.
func ACLScenarios() []Scenario {
	l := &list{}
	for _, family := range []func(*list){aclData, aclMetadata, aclTopics, aclGroups, aclOffsets, aclTransactions, aclConfigs} {
		family(l)
	}
	l.serial(func() { aclCluster(l) })
	return l.all
}

// aclTopic is the topic of a scenario, with a record, and the one that does not exist.
func (s *Session) aclTopic() (t, none topic) {
	t = s.Topic("t", 1)
	s.Fill(t, 0, batch(0, rec{value: []byte("v")}))
	return t, topic{s.Name("none"), [16]byte{1, 2, 3}}
}

// adminProducer is a producer from the admin's host.
func (s *Session) adminProducer(name string) *txnProducer {
	guest := s.target.Guest
	s.target.Guest = ""
	defer func() { s.target.Guest = guest }()
	return s.producer(name)
}

func aclData(l *list) {
	l.each(0, "acl/produce", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := produce(t, 0, -1, batch(0, rec{value: []byte("v")}).bytes())
			req.Topics = append(req.Topics, produceTopic(none, 0, batch(0, rec{value: []byte("v")}).bytes()))
			return req
		}, toTopic(opWrite, t.name))
		s.asked(v, func() kmsg.Request {
			req := produce(t, 0, -1, batch(0, rec{value: []byte("v")}).bytes())
			req.TransactionID = ptr(s.Name("x"))
			return req
		}, toTopic(opWrite, t.name))
		bad := func() kmsg.Request { return produce(t, 9, -1, []byte("nonsense")) }
		s.asked(v, bad, toTopic(opWrite, t.name))
	})
	l.each(0, "acl/produce in a transaction", func(s *Session, v int16) {
		t, _ := s.aclTopic()
		p := s.adminProducer("txn")
		p.init()
		p.begin(t, 0)
		sequence := int32(0)
		s.asked(v, func() kmsg.Request {
			b := batch(0, rec{value: []byte("v")}).idempotent(p.pid, p.epoch, sequence)
			b.attributes = attrTransactional
			req := produce(t, 0, -1, b.bytes())
			req.TransactionID = &p.id
			return req
		}, toTopic(opWrite, t.name), toTxn(opWrite, p.id))
	})
	l.each(1, "acl/fetch", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := fetch(t, 0, 0)
			req.MaxWaitMillis = 0
			req.Topics = append(req.Topics, fetchTopic(none, fetchPartition(0, 0)))
			return req
		}, toTopic(opRead, t.name))
		s.asked(v, func() kmsg.Request { return fetch(t, 7, 0) }, toTopic(opRead, t.name))
	})
	l.each(2, "acl/list offsets", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := listOffsets(t, 0, -1, 0)
			req.Topics = append(req.Topics, listOffsets(none, 0, -1, 0).Topics...)
			return req
		}, toTopic(opDescribe, t.name))
	})
	l.each(21, "acl/delete records", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := deleteRecords(t, 0, 1)
			req.Topics = append(req.Topics, deleteRecords(none, 0, 1).Topics...)
			return req
		}, toTopic(opRemove, t.name))
	})
	l.each(23, "acl/offset for leader epoch", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := offsetForEpoch(t, 0, -1, 0)
			req.Topics = append(req.Topics, offsetForEpoch(none, 0, -1, 0).Topics...)
			return req
		}, toTopic(opDescribe, t.name))
	})
	l.each(61, "acl/describe producers", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrDescribeProducersRequest()
			for _, name := range []string{t.name, none.name} {
				rt := kmsg.NewDescribeProducersRequestTopic()
				rt.Topic, rt.Partitions = name, []int32{0}
				req.Topics = append(req.Topics, rt)
			}
			return req
		}, toTopic(opRead, t.name))
	})
}

func aclMetadata(l *list) {
	l.each(3, "acl/metadata", func(s *Session, v int16) {
		t, none := s.aclTopic()
		named := func() kmsg.Request {
			req := metadata(&t.name, &none.name)
			req.AllowAutoTopicCreation, req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = false, true, true
			return req
		}
		if v < 4 {
			named = func() kmsg.Request { return metadata(&t.name) }
		}
		s.asked(v, named, toTopic(opDescribe, t.name))
		s.asked(v, func() kmsg.Request {
			req := metadata()
			if req.Topics = nil; v == 0 {
				req.Topics = []kmsg.MetadataRequestTopic{}
			}
			return req
		}, toTopic(opRead, t.name))
		if v >= 12 {
			s.ids["named"+string(none.id[:])] = "id of ~none" // how many others were seen depends on other scenarios
			s.asked(v, func() kmsg.Request {
				req := kmsg.NewPtrMetadataRequest()
				for _, id := range [][16]byte{t.id, none.id} {
					rt := kmsg.NewMetadataRequestTopic()
					rt.TopicID = id
					req.Topics = append(req.Topics, rt)
				}
				return req
			}, toTopic(opDescribe, t.name))
		}
	})
	l.each(3, "acl/metadata creates", func(s *Session, v int16) {
		made := s.Name("made")
		s.asked(v, func() kmsg.Request {
			req := metadata(&made)
			req.AllowAutoTopicCreation = true
			return req
		}, toTopic(opDescribe, made), toTopic(opCreate, made))
	})
	l.each(75, "acl/describe topic partitions", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request { return describePartitions(10, nil, t.name, none.name) }, toTopic(opDescribe, t.name))
		s.asked(v, func() kmsg.Request { return describePartitions(10, nil, t.name, none.name) }, toTopic(opAlter, t.name), toTopic(opRemove, none.name))
	})
	l.each(10, "acl/find coordinator", func(s *Session, v int16) {
		ask := func(kind int8, key string) func() kmsg.Request {
			return func() kmsg.Request {
				req := kmsg.NewPtrFindCoordinatorRequest()
				req.CoordinatorKey, req.CoordinatorType, req.CoordinatorKeys = key, kind, []string{key, s.Name("other")}
				return req
			}
		}
		s.asked(v, ask(coordinatesGroups, s.Name("g")), toGroup(opDescribe, s.Name("g")))
		if v > 0 {
			s.asked(v, ask(coordinatesTransactions, s.Name("x")), toTxn(opDescribe, s.Name("x")))
		}
		if v > 5 {
			s.asked(v, ask(2, s.Name("g")+":AAAAAAAAAAAAAAAAAAAAAQ:0"))
		}
	})
	l.each(60, "acl/describe cluster", func(s *Session, v int16) {
		s.asked(v, func() kmsg.Request {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.IncludeClusterAuthorizedOperations = true
			return req
		})
	})
	l.each(18, "acl/api versions", func(s *Session, v int16) {
		c := s.guest()
		c.Send(v, apiVersions("a", "1")).Alive().Wait()
	})
}

func aclTopics(l *list) {
	l.each(19, "acl/create topics", func(s *Session, v int16) {
		made, other := s.Name("made"), s.Name("other")
		s.asked(v, func() kmsg.Request {
			return createTopics(newTopic(made, 1, 1), newTopic(other, 1, 1), newTopic("__cluster_metadata", 1, 1))
		}, toTopic(opCreate, made), toTopic(opDescribeConfig, made))
		s.asked(v, func() kmsg.Request {
			return createTopics(newTopic(made, 1, 1), newTopic(other, -1, 9), newTopic("bad name!", 1, 1))
		}, toTopic(opCreate, made))
		s.asked(v, func() kmsg.Request { return createTopics(newTopic(made, 1, 1), newTopic(made, 1, 1)) })
	})
	l.each(20, "acl/delete topics", func(s *Session, v int16) {
		t, none := s.aclTopic()
		u := s.Topic("u", 1)
		request := func() kmsg.Request {
			req := deleteTopics(t.name, none.name, u.name)
			req.TimeoutMillis = 5000
			for _, name := range req.TopicNames {
				req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: ptr(name)})
			}
			return req
		}
		s.asked(v, request, toTopic(opDescribe, none.name), toTopic(opDescribe, t.name))
		if v >= 6 {
			s.asked(v, func() kmsg.Request {
				req := deleteTopics()
				req.TimeoutMillis = 5000
				for _, id := range [][16]byte{t.id, none.id} {
					req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{TopicID: id})
				}
				return req
			}, toTopic(opDescribe, t.name))
			s.asked(v, func() kmsg.Request {
				req := deleteTopics()
				req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &t.name}, {TopicID: t.id}, {Topic: &u.name}, {Topic: &u.name}, {}}
				return req
			}, toTopic(opDescribe, u.name))
		}
		s.asked(v, request, toTopic(opRemove, t.name))
	})
	l.each(37, "acl/create partitions", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := createPartitions(t.name, 2)
			req.Topics = append(req.Topics, createPartitions(none.name, 2).Topics...)
			return req
		}, toTopic(opAlter, t.name))
		s.asked(v, func() kmsg.Request {
			req := createPartitions(t.name, 2)
			req.Topics = append(req.Topics, req.Topics...)
			return req
		})
	})
}

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

func aclConfigs(l *list) {
	l.each(32, "acl/describe configs", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := describeConfigs(resourceTopic, t.name, "retention.ms")
			req.Resources = append(req.Resources, describeConfigs(resourceTopic, none.name, "retention.ms").Resources...)
			return req
		}, toTopic(opDescribeConfig, t.name))
		for _, kind := range []kmsg.ConfigResourceType{resourceBroker, resourceBrokerLogger, resourceClientMetrics} {
			s.asked(v, func() kmsg.Request { return describeConfigs(kind, "1", "num.partitions") })
		}
		s.asked(v, func() kmsg.Request { return describeConfigs(resourceGroup, s.Name("g"), "consumer.session.timeout.ms") }, toGroup(opDescribeConfig, s.Name("g")))
	})
	set := configOp{"retention.ms", opSet, ptr("7000000")}
	l.each(44, "acl/incremental alter configs", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := incremental(resourceTopic, t.name, set)
			req.Resources = append(req.Resources, incremental(resourceTopic, none.name, set).Resources...)
			return req
		}, toTopic(opAlterConfig, t.name))
		for _, kind := range []kmsg.ConfigResourceType{resourceBroker, resourceBrokerLogger, resourceClientMetrics, 99, 0} {
			s.asked(v, func() kmsg.Request { return incremental(kind, "1", set) })
		}
		s.asked(v, func() kmsg.Request {
			return incremental(resourceGroup, s.Name("g"), configOp{"consumer.session.timeout.ms", opSet, ptr("50000")})
		}, toGroup(opAlterConfig, s.Name("g")))
		s.asked(v, func() kmsg.Request {
			req := incremental(resourceTopic, t.name, set)
			req.Resources = append(req.Resources, req.Resources...)
			return req
		})
	})
	l.each(33, "acl/alter configs", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := alterConfigs(resourceTopic, t.name, [2]string{"retention.ms", "7000000"})
			req.Resources = append(req.Resources, alterConfigs(resourceTopic, none.name, [2]string{"retention.ms", "7000000"}).Resources...)
			return req
		}, toTopic(opAlterConfig, t.name))
		for _, kind := range []kmsg.ConfigResourceType{resourceBroker, resourceBrokerLogger, 99} {
			s.asked(v, func() kmsg.Request { return alterConfigs(kind, "1", [2]string{"num.partitions", "1"}) })
		}
	})
}

// aclCluster are the requests that need a right on the cluster. They run alone: what one may do, all may do meanwhile.
func aclCluster(l *list) {
	whole := func(key int16, name string, op kmsg.ACLOperation, request func(*Session, int16) kmsg.Request) {
		l.each(key, "acl/"+name, func(s *Session, v int16) {
			s.asked(v, func() kmsg.Request { return request(s, v) }, toCluster(op))
		})
	}
	whole(29, "describe acls", opDescribe, func(s *Session, _ int16) kmsg.Request {
		req := kmsg.NewPtrDescribeACLsRequest()
		req.ResourceType, req.ResourceName, req.ResourcePatternType = onTopic, ptr(s.Name("t")), kmsg.ACLResourcePatternTypeMatch
		req.Operation, req.PermissionType, req.Host = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny, ptr(guestHost)
		return req
	})
	l.each(30, "acl/create acls", aclCreate)
	l.each(31, "acl/delete acls", aclDelete)
	l.between(34, 1, 2, "acl/alter replica log dirs", func(s *Session, v int16) {
		s.asked(v, func() kmsg.Request { return moveNowhere(s) }, toCluster(opAlter))
	})
	l.each(35, "acl/describe log dirs", func(s *Session, v int16) {
		c := s.guest()
		c.Send(v, kmsg.NewPtrDescribeLogDirsRequest()).Note("without any right").Wait()
		s.grant(guestHost, toCluster(opDescribe))
		defer s.revoke(guestHost, toCluster(opDescribe))
		c.Send(v, kmsg.NewPtrDescribeLogDirsRequest()).Alive().Wait()
	})
	whole(43, "elect leaders", opAlter, func(s *Session, _ int16) kmsg.Request { return electLeaders(electPreferred, s.Name("none"), 0) })
	whole(45, "alter reassignments", opAlter, func(s *Session, _ int16) kmsg.Request { return reassign(s.Name("none"), 0, 1) })
	whole(46, "list reassignments", opDescribe, func(s *Session, _ int16) kmsg.Request { return kmsg.NewPtrListPartitionReassignmentsRequest() })
	l.each(55, "acl/describe quorum", func(s *Session, v int16) {
		s.asked(v, func() kmsg.Request { return describeQuorum(metadataTopic, 7) }, toCluster(opDescribe))
	})
	whole(57, "update features", opAlter, func(s *Session, _ int16) kmsg.Request {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		f.Feature, f.MaxVersionLevel, f.UpgradeType = "no.such", 1, 1
		req.FeatureUpdates = append(req.FeatureUpdates, f)
		return req
	})
	whole(60, "describe cluster operations", opDescribe, func(s *Session, _ int16) kmsg.Request {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.IncludeClusterAuthorizedOperations = true
		return req
	})
	whole(64, "unregister broker", opAlter, func(*Session, int16) kmsg.Request {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = 99
		return req
	})
	whole(80, "add voter", opAlter, func(*Session, int16) kmsg.Request {
		req := kmsg.NewPtrAddRaftVoterRequest()
		req.ClusterID = ptr("nonsense")
		return req
	})
	whole(81, "remove voter", opAlter, func(*Session, int16) kmsg.Request {
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.ClusterID = ptr("nonsense")
		return req
	})
	l.each(74, "acl/list config resources", func(s *Session, v int16) {
		s.asked(v, func() kmsg.Request { return kmsg.NewPtrListConfigResourcesRequest() }, toCluster(opDescribeConfig))
	})
	l.between(24, 4, 5, "acl/add partitions in a batch", func(s *Session, v int16) {
		t, _ := s.aclTopic()
		p := s.adminProducer("x")
		s.asked(v, func() kmsg.Request { return inVersion(v, p.addRequest(t.name, 0)) }, toCluster(opClusterAction))
	})
	for _, op := range []kmsg.ACLOperation{opAlter, opClusterAction} {
		whole(27, fmt.Sprint("write markers/", op), op, func(s *Session, _ int16) kmsg.Request {
			mt := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
			mt.Topic, mt.Partitions = s.Name("none"), []int32{0}
			return markers(7, 0, true, 0, 0, mt)
		})
	}
	whole(22, "init producer id without a transaction", opIdempotent, func(*Session, int16) kmsg.Request { return initProducerID(nil) })
	l.each(22, "acl/init producer id as a writer", func(s *Session, v int16) {
		s.asked(v, func() kmsg.Request { return initProducerID(nil) }, toTopic(opWrite, s.Name("any")))
	})
	follower := func(s *Session, v int16) {
		t, _ := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := fetch(t, 0, 0)
			req.MaxWaitMillis = 0
			req.ReplicaID, req.ReplicaState.ID = 99, 99
			return req
		})
	}
	l.between(1, 4, 11, "acl/fetch of a follower", follower) // before 15 a tag for the replica is none that Kafka takes
	l.between(1, 15, 18, "acl/fetch of a follower", follower)
	whole(19, "create topics anywhere", opCreate, func(s *Session, _ int16) kmsg.Request { return createTopics(newTopic(s.Name("made"), 1, 1)) })
	l.each(20, "acl/delete topics anywhere", func(s *Session, v int16) {
		t, none := s.aclTopic()
		s.asked(v, func() kmsg.Request {
			req := deleteTopics(t.name, none.name)
			req.TimeoutMillis = 5000
			for _, name := range req.TopicNames {
				req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: ptr(name)})
			}
			return req
		}, toCluster(opRemove))
	})
	l.each(3, "acl/metadata creates anywhere", func(s *Session, v int16) {
		made := s.Name("made")
		s.asked(v, func() kmsg.Request {
			req := metadata(&made)
			req.AllowAutoTopicCreation = true
			return req
		}, toTopic(opDescribe, made), toCluster(opCreate))
	})
	l.each(16, "acl/list all groups", func(s *Session, v int16) {
		t, _ := s.aclTopic()
		s.commit(s.Name("g"), t, 5)
		s.asked(v, func() kmsg.Request { return kmsg.NewPtrListGroupsRequest() }, toCluster(opDescribe))
	})
}

func aclCreate(s *Session, v int16) {
	request := func(rights ...right) kmsg.Request {
		req := kmsg.NewPtrCreateACLsRequest()
		for _, r := range rights {
			req.Creations = append(req.Creations, creation("10.0.0.1", r))
		}
		return req
	}
	name := s.Name("t")
	good := toTopic(opRead, name)
	s.asked(v, func() kmsg.Request {
		bent := request(good, good, right{opRead, onCluster, "other"}, right{opRead, onTopic, ""}, right{opRead, kmsg.ACLResourceTypeAny, name},
			right{kmsg.ACLOperationAny, onTopic, name}, right{opRead, onTopic, name}, right{opRead, onTopic, name}, right{opRead, onTopic, name},
			right{opRead, onTopic, name}, right{opRead, onTopic, name}, right{opIdempotent, onTopic, name}, right{opRead, kmsg.ACLResourceType(99), name}).(*kmsg.CreateACLsRequest)
		c := bent.Creations
		c[6].ResourcePatternType = kmsg.ACLResourcePatternTypeMatch
		c[7].PermissionType = kmsg.ACLPermissionTypeAny
		c[8].Principal = "nobody"
		c[9].Host = ""
		c[10].Principal = ""
		return bent
	}, toCluster(opAlter))
}

func aclDelete(s *Session, v int16) {
	s.grant("10.0.0.1", toTopic(opRead, s.Name("t")), toTopic(opWrite, s.Name("t")))
	s.grant("10.0.0.2", toTopic(opRead, s.Name("t")))
	s.asked(v, func() kmsg.Request {
		req := kmsg.NewPtrDeleteACLsRequest()
		for i := range 5 {
			f := kmsg.NewDeleteACLsRequestFilter()
			f.ResourceType, f.ResourceName, f.ResourcePatternType = onTopic, ptr(s.Name("t")), kmsg.ACLResourcePatternTypeLiteral
			f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
			switch i {
			case 0:
				f.Host = ptr("10.0.0.1")
			case 1:
				f.Operation = opRead
			case 2:
				f.ResourceName = ptr(s.Name("none"))
			case 3:
				f.PermissionType = kmsg.ACLPermissionTypeDeny
			case 4:
				f.Principal = ptr("User:ANONYMOUS")
			}
			req.Filters = append(req.Filters, f)
		}
		return req
	}, toCluster(opAlter))
}

func moveNowhere(s *Session) kmsg.Request {
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir = "/nowhere"
	dt := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	dt.Topic, dt.Partitions = s.Name("none"), []int32{0}
	d.Topics = append(d.Topics, dt)
	req.Dirs = append(req.Dirs, d)
	return req
}
