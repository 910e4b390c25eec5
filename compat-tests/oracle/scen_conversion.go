package oracle

import "github.com/twmb/franz-go/pkg/kmsg"

// conversionScenarios turn classic groups into consumer groups and back, alive and empty, and let members of both
// protocols live in one group.
func conversionScenarios(l *list) {
	l.each(68, "conversion/empty classic to consumer", emptyToConsumer)
	l.between(11, 3, 9, "conversion/empty consumer to classic", emptyToClassic)
	l.each(68, "conversion/upgrade", upgrade)
	l.each(68, "conversion/upgrade while preparing", upgradePreparing)
	l.each(68, "conversion/upgrade refused", upgradeRefused)
	l.between(11, 3, 9, "conversion/classic member in a consumer group", classicInConsumer)
	l.between(11, 5, 9, "conversion/static members", classicStatic)
	l.each(68, "conversion/downgrade", downgrade)
	l.between(13, 3, 5, "conversion/leave", classicLeaves)
	l.each(68, "internal/conversion", conversionRecords)
}

func emptyToConsumer(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.classicConsumer(5, t)
	c.join()
	c.sendSync(c).Wait()
	c.leave("leave")
	s.commit(c.group, t, 4)
	m := s.consumer(v, "m", t)
	m.join("join")
	m.describe("a consumer group")
	m.c.Send(8, offsetFetch(m.group, t, 0)).Note("offsets are kept").Wait()
	c.heartbeat("of the classic member")
	c.c.Send(5, c.joinRequest()).Note("of the classic member").Wait()
}

func emptyToClassic(s *Session, v int16) {
	t := s.Topic("t", 1)
	m := s.consumer(1, "m", t)
	m.join("join")
	m.leave("leave")
	c := s.classicConsumer(v, t)
	old := c.joinRequest()
	old.MemberID = "old"
	c.c.Send(v, old).Note("with a member id").Wait()
	m.describe("still a consumer group")
	c.join()
	c.sendSync(c).Wait()
	c.describe("a classic group")
	m.describe("no consumer group any more")
	m.heartbeat("of the consumer")
}

// classicOf is a stable classic group of one member that has all of t.
func classicOf(s *Session, v int16, t topic, partitions ...int32) *member {
	learn()
	c := s.classicConsumer(v, t)
	c.join()
	req := c.syncRequest(c)
	req.GroupAssignment[0].MemberAssignment = consumerAssignment(t, partitions...)
	c.c.Do(min(v, 5), req)
	return c
}

func upgrade(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 2)
	c := classicOf(s, 5, t, 0, 1)
	m := s.consumer(v, "m", t)
	m.join("upgrades the group")
	m.describe("both kinds of members")
	c.describe("as a classic group")
	c.heartbeat("told to rejoin")
	c.sendSync(c).Note("before it has rejoined").Wait()
	c.join()
	c.heartbeat("has to revoke")
	m.heartbeat("nothing yet")
	c.owns(t)
	c.join()
	c.sendSync(c).Note("its share").Wait()
	m.describe("it has revoked")
	m.heartbeat("its share")
	c.heartbeat("stable")
	m.describe("stable")
	req := offsetCommit(c.group, t, 0, 3)
	req.MemberID, req.Generation = c.id, c.generation
	c.c.Send(8, req).Note("commit of the classic member").Wait()
	req.Generation++
	c.c.Send(8, req).Note("commit with a later generation").Wait()
}

// owns lets the member say that it has given up what it does not have in the group's target: here the second partition.
func (m *member) owns(t topic) {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics = 1, []string{t.name}
	meta.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: t.name, Partitions: []int32{0}}}
	m.raw = meta.AppendTo(nil)
}

func upgradePreparing(s *Session, v int16) {
	t, u := s.Topic("t", 2), s.Topic("u", 1)
	a := classicOf(s, 5, t, 0, 1)
	b := s.classicConsumer(5, u)
	waiting := b.sendJoin()
	a.awaitHeartbeat(rebalanceInProgress)
	m := s.consumer(v, "m", t)
	m.join("upgrades the group")
	waiting.Note("sent away").Wait()
	m.describe("as it was, and the one that waited")
	a.heartbeat("of the old generation")
}

func upgradeRefused(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.classicConsumer(5, t).join()
	m := s.consumer(v, "m", t)
	m.epoch = 3
	m.heartbeat("is no member")
	other := s.member(5)
	other.group = s.Name("bad")
	other.raw = []byte{0}
	other.join()
	other.sendSync(other).Wait()
	m.group = other.group
	m.join("a subscription that cannot be read")
	custom := s.classicConsumer(5, t)
	custom.group = s.Name("custom")
	custom.join()
	req := custom.syncRequest(custom)
	a := kmsg.NewConsumerMemberAssignment()
	a.UserData = []byte("own")
	req.GroupAssignment[0].MemberAssignment = a.AppendTo(nil)
	custom.c.Do(5, req)
	m.group = custom.group
	m.join("an assignor with data of its own")
	connect := s.Conn()
	join := s.member(5).joinRequest()
	join.Group, join.ProtocolType = s.Name("connect"), "connect"
	join.MemberID = connect.Send(5, join).Note("connect").Wait().(*kmsg.JoinGroupResponse).MemberID
	connect.Send(5, join).Note("connect").Wait()
	m.group = join.Group
	m.join("another protocol type")
}

func classicInConsumer(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 2)
	m := s.consumer(1, "m", t)
	m.join("join")
	c := s.classicConsumer(v, t)
	other := s.classicConsumer(v, t)
	bad := c.joinRequest()
	bad.ProtocolType = "connect"
	c.c.Send(v, bad).Note("another protocol type").Wait()
	bad = c.joinRequest()
	bad.Protocols[0].Metadata = []byte{1}
	bad.MemberID = s.Name("bad")
	c.c.Send(v, bad).Note("a subscription that cannot be read").Wait()
	c.join()
	c.sendSync().Note("nothing yet").Wait()
	c.heartbeat("nothing yet")
	m.heartbeat("is to give up one")
	m.confirm("has")
	c.awaitHeartbeat(rebalanceInProgress)
	c.join()
	c.sendSync().Note("one").Wait()
	m.describe("both")
	other.protocols = []string{"sticky"}
	other.sendJoin().Note("no protocol in common").Wait()
	c.generation++
	c.heartbeat("later generation")
	c.sendSync().Note("later generation").Wait()
	c.generation--
	c.protocol = ptr("sticky")
	c.sendSync().Note("another protocol").Wait()
	c.protocol = ptr("range")
	who := *c
	who.id = "who"
	who.heartbeat("unknown member")
	who.sendSync().Note("unknown member").Wait()
	c.sendJoin().Note("rejoins unchanged").Wait()
}

func classicStatic(s *Session, v int16) {
	t := s.Topic("t", 2)
	m := s.consumer(1, "m", t)
	m.join("join")
	c := s.classicConsumer(v, t)
	c.instance = ptr("i")
	c.join()
	twin := s.classicConsumer(v, t)
	twin.instance = c.instance
	twin.join()
	c.heartbeat("fenced")
	c.sendJoin().Note("fenced").Wait()
	stranger := s.classicConsumer(v, t)
	stranger.instance, stranger.id = ptr("other"), "stranger"
	stranger.sendJoin().Note("an instance that is not known").Wait()
	up := s.consumer(1, "up", t)
	up.instance = c.instance
	up.join("takes the place of the classic member")
	up.describe("two members")
	twin.heartbeat("fenced")
}

func downgrade(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 2)
	c := classicOf(s, 5, t, 0, 1)
	m := s.consumer(v, "m", t)
	m.join("upgrades the group")
	c.join()
	m.leave("the only consumer leaves")
	c.describe("classic again")
	m.describe("no consumer group any more")
	c.heartbeat("told to rejoin")
	c.join()
	c.sendSync(c).Wait()
	c.describe("stable")
}

func classicLeaves(s *Session, v int16) {
	t := s.Topic("t", 2)
	m := s.consumer(1, "m", t)
	m.join("join")
	c := s.classicConsumer(5, t)
	c.join()
	static := s.consumer(1, "static", t)
	static.instance = ptr("i")
	static.join("join")
	req := c.leaveRequest()
	for _, who := range [][2]string{{"who", ""}, {"", "i"}, {"who", "i"}, {"", "none"}} {
		lm := kmsg.NewLeaveGroupRequestMember()
		lm.MemberID = who[0]
		if who[1] != "" {
			lm.InstanceID = ptr(who[1])
		}
		req.Members = append(req.Members, lm)
	}
	c.c.Do(v, req)
	m.describe("m is left")
	c.c.Send(v, c.leaveRequest()).Note("again").Wait()
}

func conversionRecords(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 2)
	log := s.watch()
	classicOf(s, 5, t, 0, 1)
	m := s.consumer(v, "m", t)
	m.join("upgrades the group")
	m.leave("downgrades it")
	log.record()
}
