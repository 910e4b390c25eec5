package oracle

import (
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
