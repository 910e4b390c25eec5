package oracle

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

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
	l.each(30, "acl/create odd acls", aclCreateOdd)
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
	whole(94, "unregister controller", opAlter, func(*Session, int16) kmsg.Request {
		req := kmsg.NewPtrUnregisterControllerRequest()
		req.ControllerID = 99
		return req
	})
	whole(50, "describe credentials", opDescribe, func(s *Session, _ int16) kmsg.Request { return describeScram(s.Name("ann")) })
	whole(51, "alter credentials", opAlter, func(s *Session, _ int16) kmsg.Request {
		return alterScram(deletion(s.Name("ann"), scram256))
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
