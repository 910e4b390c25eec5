package handlers

import "github.com/twmb/franz-go/pkg/kmsg"

// play is every group API at each of its versions, with good requests and bad ones.
func (s *script) play() {
	s.ready()
	s.playFind()
	s.playCommits()
	s.playFetches()
	s.playAdmin()
	s.playJoins()
	s.playStable()
	s.playOffsetDelete()
	s.playDeleteGroups()
	s.playLeaves()
	s.playStatic()
	s.playVersions()
}

func ptrTo[T any](v T) *T { return &v }

func joinRequest(g, m string) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group = g
	r.MemberID = m
	r.SessionTimeoutMillis = 10000
	r.RebalanceTimeoutMillis = 20000
	r.ProtocolType = "consumer"
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff}}}
	return r
}

func commitRequest(g string, gen int32, m, topic string, part int32) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group = g
	r.Generation = gen
	r.MemberID = m
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	pp := kmsg.NewOffsetCommitRequestTopicPartition()
	pp.Partition = part
	pp.Offset = 42
	pp.Metadata = ptrTo("meta")
	t.Partitions = append(t.Partitions, pp)
	r.Topics = append(r.Topics, t)
	return r
}
func (s *script) playFind() {
	for v := int16(0); v <= 6; v++ {
		s.do("find group", v, findCoordinator("g", 0))
	}
	s.do("find empty", 6, findCoordinator("", 0))
	s.do("find txn", 6, findCoordinator("x", 1))
	s.do("find txn", 2, findCoordinator("x", 1))
	s.do("find share", 6, findCoordinator("x", 2))
	s.do("find share", 5, findCoordinator("x", 2))
	s.do("find type 9", 6, findCoordinator("x", 9))
	s.do("find type 9", 2, findCoordinator("x", 9))
	f := findCoordinator("a", 0)
	f.CoordinatorKeys = []string{"a", "a", "b"}
	s.do("find dup", 4, f)
	f.CoordinatorKeys = nil
	s.do("find none", 4, f)
}

func (s *script) playCommits() {
	for v := int16(2); v <= 10; v++ {
		r := commitRequest("simple", -1, "", "t", 0)
		r.Topics[0].TopicID = s.topic
		s.do("commit simple", v, r)
	}
	r := commitRequest("simple", -1, "", "t", 9)
	s.do("commit bad partition", 8, r)
	s.do("commit bad topic", 8, commitRequest("simple", -1, "", "nope", 0))
	r = commitRequest("simple", -1, "", "nope", 0)
	r.Topics[0].TopicID = [16]byte{1}
	s.do("commit unknown id", 10, r)
	r = commitRequest("simple", -1, "", "", 0)
	s.do("commit zero id", 10, r)
	r = commitRequest("simple", -1, "", "t", 0)
	r.Topics[0].Partitions[0].Metadata = ptrTo(string(make([]byte, 5000)))
	s.do("commit big metadata", 8, r)
	r.Topics[0].Partitions[0].Metadata = nil
	s.do("commit nil metadata", 8, r)
	r.Topics[0].Partitions[0].Offset = -7
	s.do("commit negative", 8, r)
	r.Topics = nil
	s.do("commit no topics", 8, r)
	s.do("commit unknown group gen 5", 8, commitRequest("nogroup", 5, "m", "t", 0))
	s.do("commit unknown group gen 5", 9, commitRequest("nogroup", 5, "m", "t", 0))
	s.do("commit simple gen 5", 8, commitRequest("simple", 5, "m", "t", 0))
	s.do("commit simple gen -1 member m", 8, commitRequest("simple", -1, "m", "t", 0))
	s.do("commit empty group", 8, commitRequest("", -1, "", "t", 0))
}

func (s *script) playFetches() {
	of := kmsg.NewPtrOffsetFetchRequest()
	of.Group = "simple"
	of.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 1, 9}}, {Topic: "nope", Partitions: []int32{0}}}
	of.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "simple", MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: s.topic, Partitions: []int32{0, 1, 9}}, {Topic: "nope", TopicID: [16]byte{2}, Partitions: []int32{0}}}}, {Group: "unknown", MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: s.topic, Partitions: []int32{0}}}}, {Group: "simple", MemberEpoch: -1}, {Group: "unknown", MemberEpoch: 5, MemberID: ptrTo("m")}, {Group: "simple", MemberEpoch: 5, MemberID: ptrTo("m"), Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: s.topic, Partitions: []int32{0}}}}}
	for v := int16(1); v <= 10; v++ {
		s.do("fetch", v, of)
	}
	of.RequireStable = true
	s.do("fetch stable", 9, of)
	of.Topics = nil
	for _, v := range []int16{2, 5, 7} {
		s.do("fetch all", v, of)
	}
	of.Topics = []kmsg.OffsetFetchRequestTopic{}
	s.do("fetch empty topics", 5, of)
	of.Groups = nil
	s.do("fetch no groups", 8, of)
}

func (s *script) playAdmin() {
	for v := int16(0); v <= 6; v++ {
		d := kmsg.NewPtrDescribeGroupsRequest()
		d.Groups = []string{"simple", "nosuch", ""}
		d.IncludeAuthorizedOperations = v%2 == 0
		s.do("describe", v, d)
	}
	for v := int16(0); v <= 5; v++ {
		s.do("list", v, kmsg.NewPtrListGroupsRequest())
	}
	l := kmsg.NewPtrListGroupsRequest()
	l.StatesFilter = []string{"empty", "Stable"}
	s.do("list empty", 5, l)
	l.StatesFilter = []string{"bogus"}
	s.do("list bogus", 5, l)
	l.StatesFilter = nil
	l.TypesFilter = []string{"Classic"}
	s.do("list classic", 5, l)
	l.TypesFilter = []string{"bogus"}
	s.do("list bogus type", 5, l)
}

func (s *script) playJoins() {
	j := joinRequest("", "")
	s.do("join empty group", 9, j)
	j = joinRequest("gg", "")
	j.SessionTimeoutMillis = 1
	s.do("join short session", 9, j)
	j = joinRequest("gg", "unknown-member")
	s.do("join unknown group with member", 9, j)
	j = joinRequest("gg", "")
	j.ProtocolType = ""
	s.do("join no protocol type", 9, j)
	j = joinRequest("gg", "")
	j.Protocols = nil
	s.do("join no protocols", 9, j)
	s.do("join no protocols", 5, j)
	j = joinRequest("gg", "")
	s.member = s.do("join", 9, j).(*kmsg.JoinGroupResponse).MemberID
	j = joinRequest("gg", s.member)
	j.ProtocolType = "other"
	s.do("join 2", 9, joinRequest("gg", s.member))
	s.do("describe completing", 6, describeRequest("gg"))
	s.do("join inconsistent", 9, j)
	s.do("join inconsistent", 5, j)
	s.do("join same again", 9, joinRequest("gg", s.member))
	s.do("join same again", 6, joinRequest("gg", s.member))
	j = joinRequest("gg", "nobody")
	s.do("join nobody", 9, j)
	s.do("join nobody", 6, j)
	j.InstanceID = ptrTo("inst")
	s.do("join nobody instance", 9, j)
}

func heartbeatRequest(g, m string, generation int32) *kmsg.HeartbeatRequest {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.MemberID, r.Generation = g, m, generation
	return r
}

func syncRequest(g, m string, generation int32) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Group, r.MemberID, r.Generation = g, m, generation
	r.ProtocolType, r.Protocol = ptrTo("consumer"), ptrTo("range")
	r.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: m, MemberAssignment: []byte("assigned")}, {MemberID: "ghost", MemberAssignment: []byte("x")}}
	return r
}

func leaveRequest(g, m string, instance *string) *kmsg.LeaveGroupRequest {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.MemberID = g, m
	r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m, InstanceID: instance}}
	return r
}

func describeRequest(g string) *kmsg.DescribeGroupsRequest {
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Groups = []string{g}
	return r
}

func (s *script) playStable() {
	s.do("completing", 4, heartbeatRequest("gg", s.member, 1))
	s.do("completing", 8, commitRequest("gg", 1, s.member, "t", 0))
	s.do("generation -1 member", 8, commitRequest("gg", -1, s.member, "t", 0))
	s.do("generation -1 nobody", 8, commitRequest("gg", -1, "", "t", 0))
	sy := syncRequest("gg", s.member, 1)
	sy.ProtocolType, sy.Protocol = nil, nil
	s.do("no protocol", 5, sy)
	sy.ProtocolType, sy.Protocol = ptrTo("consumer"), ptrTo("roundrobin")
	s.do("other protocol", 5, sy)
	s.do("other generation", 5, syncRequest("gg", s.member, 7))
	s.do("other member", 5, syncRequest("gg", "who", 1))
	s.do("good", 5, syncRequest("gg", s.member, 1))
	s.do("again", 5, syncRequest("gg", s.member, 1))
	s.do("again", 0, syncRequest("gg", s.member, 1))
	s.do("stable", 6, describeRequest("gg"))
	s.do("stable", 5, kmsg.NewPtrListGroupsRequest())
	s.do("good", 8, commitRequest("gg", 1, s.member, "t", 0))
	s.do("other generation", 8, commitRequest("gg", 3, s.member, "t", 0))
	s.do("other member", 8, commitRequest("gg", 1, "x", "t", 0))
}

func (s *script) playOffsetDelete() {
	od := kmsg.NewPtrOffsetDeleteRequest()
	od.Topics = []kmsg.OffsetDeleteRequestTopic{
		{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 1}, {Partition: 7}}},
		{Topic: "nope", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}},
	}
	for _, g := range []string{"gg", "nosuch", "", "simple"} {
		od.Group = g
		s.do("of "+g, 0, od)
	}
}

func (s *script) playDeleteGroups() {
	dg := kmsg.NewPtrDeleteGroupsRequest()
	dg.Groups = []string{"gg", "nosuch", "simple", "", "simple"}
	for v := int16(0); v <= 3; v++ {
		s.do("several", v, dg)
	}
}

func (s *script) playLeaves() {
	lv := leaveRequest("gg", "zz", nil)
	lv.Members = append(lv.Members, kmsg.LeaveGroupRequestMember{MemberID: s.member, InstanceID: ptrTo("nope")}, kmsg.LeaveGroupRequestMember{InstanceID: ptrTo("none")})
	for _, g := range []string{"gg", "nosuch", ""} {
		lv.Group = g
		s.do("strangers of "+g, 2, lv)
		s.do("strangers of "+g, 5, lv)
	}
	s.do("good", 1, leaveRequest("gg", s.member, nil))
	s.do("empty", 6, describeRequest("gg"))
	s.do("empty", 9, joinRequest("gg", s.member))
	for _, g := range []string{"gg", "nosuch", ""} {
		s.do("of "+g, 4, heartbeatRequest(g, s.member, 1))
		s.do("of "+g, 5, syncRequest(g, s.member, 1))
	}
}

func (s *script) playStatic() {
	j := joinRequest("st", "")
	j.InstanceID = ptrTo("inst")
	first := s.do("static", 9, j).(*kmsg.JoinGroupResponse).MemberID
	sy := syncRequest("st", first, 1)
	sy.InstanceID = j.InstanceID
	s.do("static", 5, sy)
	second := s.do("static again", 9, j).(*kmsg.JoinGroupResponse).MemberID
	third := s.do("static again", 7, j).(*kmsg.JoinGroupResponse).MemberID
	for _, m := range []string{second, third} {
		hb := heartbeatRequest("st", m, 1)
		hb.InstanceID = j.InstanceID
		s.do("static", 4, hb)
	}
	j.MemberID, sy.MemberID = second, second
	s.do("fenced", 9, j)
	s.do("fenced", 6, j)
	s.do("fenced", 5, sy)
	cm := commitRequest("st", 1, second, "t", 0)
	cm.InstanceID = j.InstanceID
	s.do("fenced", 8, cm)
	s.do("fenced", 5, leaveRequest("st", second, j.InstanceID))
	s.do("by an administrator", 5, leaveRequest("st", "", j.InstanceID))
	dg := kmsg.NewPtrDeleteGroupsRequest()
	dg.Groups = []string{"gg"}
	s.do("empty", 3, dg)
}

// playVersions takes a member through its life at each version.
func (s *script) playVersions() {
	for v := int16(0); v <= 9; v++ {
		g := "life" + string(rune('0'+v))
		id := s.do("new", v, joinRequest(g, "")).(*kmsg.JoinGroupResponse).MemberID
		if v >= 4 {
			s.do("with id", v, joinRequest(g, id))
		}
		s.do("good", min(v, 5), syncRequest(g, id, 1))
		s.do("good", min(v, 4), heartbeatRequest(g, id, 1))
		s.do("good", min(v, 5), leaveRequest(g, id, nil))
	}
}
