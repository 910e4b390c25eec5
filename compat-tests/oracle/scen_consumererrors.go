package oracle

import "github.com/twmb/franz-go/pkg/kmsg"

// consumerErrorScenarios are what a group of KIP-848 refuses, and what others may do to it.
func consumerErrorScenarios(l *list) {
	l.each(68, "consumer group/bad requests", consumerBad)
	l.each(68, "consumer group/unknown and fenced", consumerFenced)
	l.each(8, "consumer group/commit", consumerCommit)
	l.between(8, 9, 10, "consumer group/commit with older epochs", consumerCommitOlder)
	l.between(9, 9, 10, "consumer group/fetch", consumerFetch)
	l.each(42, "consumer group/delete group", consumerDelete)
	l.one(47, 0, "consumer group/delete offsets", consumerDeleteOffsets)
	l.between(28, 3, 6, "consumer group/commit in a transaction", consumerTxnCommit)
}

func consumerBad(s *Session, v int16) {
	t := s.Topic("t", 1)
	m := s.consumer(v, "m", t)
	for _, f := range []struct {
		note   string
		change func(*kmsg.ConsumerGroupHeartbeatRequest)
	}{
		{"no group", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }},
		{"blank group", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "  " }},
		{"no timeout", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }},
		{"null partitions", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil }},
		{"some partitions", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			own := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			own.TopicID, own.Partitions = t.id, []int32{0}
			r.Topics = append(r.Topics, own)
		}},
		{"no subscription", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }},
		{"empty instance", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = ptr("") }},
		{"empty rack", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = ptr("") }},
		{"unknown assignor", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = ptr("roundrobin") }},
		{"epoch -3", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 }},
		{"epoch -2 without an instance", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 }},
		{"epoch -1 without a member", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch, r.MemberID = -1, "" }},
		{"epoch 1 without a member", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch, r.MemberID = 1, "" }},
		{"blank member", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = " " }},
		{"negative timeout", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis, r.Group = -5, s.Name("n") }},
		{"the same topic twice", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames, r.Group = []string{t.name, t.name}, s.Name("w")
		}},
		{"an odd topic name", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames, r.Group = []string{"a b/c"}, s.Name("o")
		}},
	} {
		req := m.fullRequest()
		f.change(req)
		m.c.Send(v, req).Note(f.note).Wait()
	}
	m.describe("no group came of it")
}

func consumerFenced(s *Session, v int16) {
	t := s.Topic("t", 2)
	m := s.consumer(v, "m", t)
	m.epoch = 3
	m.heartbeat("unknown group")
	m.leave("unknown group")
	m.join("join")
	at := func(note string, epoch int32, id string) {
		req := m.heartbeatRequest()
		req.MemberEpoch, req.MemberID = epoch, id
		m.c.Send(v, req).Note(note).Wait()
	}
	at("later epoch", m.epoch+1, m.id)
	at("earlier epoch", m.epoch-1, m.id)
	at("unknown member", m.epoch, s.Name("who"))
	at("unknown member leaves", -1, s.Name("who"))
	static := m.heartbeatRequest()
	static.InstanceID = ptr("i")
	m.c.Send(v, static).Note("as a static member").Wait()
	static.MemberEpoch = -2
	m.c.Send(v, static).Note("leaves as a static member").Wait()
	classic := s.classicConsumer(5, t)
	classic.group, classic.id, classic.generation = m.group, m.id, m.epoch
	classic.heartbeat("of the classic protocol")
	classic.sendSync().Note("of the classic protocol").Wait()
	m.heartbeat("still a member")
	s.commit(s.Name("simple"), t, 1)
	m.group, m.epoch = s.Name("simple"), 2
	m.heartbeat("a simple group")
	m.leave("a simple group")
}

func consumerCommitRequest(m *consumer, t topic, partition int32) *kmsg.OffsetCommitRequest {
	req := offsetCommit(m.group, t, partition, 5)
	req.MemberID, req.Generation, req.InstanceID = m.id, m.epoch, m.instance
	return req
}

func consumerCommit(s *Session, v int16) {
	t := s.Topic("t", 2)
	m := s.consumer(1, "m", t)
	m.join("join")
	m.c.Send(v, consumerCommitRequest(m, t, 0)).Note("good").Wait()
	for _, f := range []struct {
		note  string
		id    string
		epoch int32
	}{
		{"later epoch", m.id, m.epoch + 1}, {"epoch -1", m.id, -1}, {"unknown member", s.Name("who"), m.epoch}, {"no member", "", -1},
	} {
		req := consumerCommitRequest(m, t, 0)
		req.MemberID, req.Generation = f.id, f.epoch
		m.c.Send(v, req).Note(f.note).Wait()
	}
	m.leave("leave")
	m.c.Send(v, consumerCommitRequest(m, t, 0)).Note("after leaving").Wait()
	admin := offsetCommit(m.group, t, 0, 9)
	m.c.Send(v, admin).Note("by an administrator").Wait()
}

// consumerCommitOlder: a partition may be committed with an older epoch, if the member has had it since.
func consumerCommitOlder(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 2)
	a, b := s.consumer(1, "a", t), s.consumer(1, "b", t)
	a.join("join")
	old := a.epoch
	b.join("join")
	settleDown(a, b)
	at := func(m *consumer, note string, epoch int32, partition int32) {
		req := consumerCommitRequest(m, t, partition)
		req.Generation = epoch
		m.c.Send(v, req).Note(note).Wait()
	}
	kept, lost := a.owned[0].Partitions[0], b.owned[0].Partitions[0]
	at(a, "what it has kept", old, kept)
	at(a, "what it has lost", old, lost)
	at(a, "before it joined", old-1, kept)
	at(b, "what it got later", old, lost)
	at(b, "now", b.epoch, kept)
	both := consumerCommitRequest(a, t, kept)
	both.Generation = old
	both.Topics[0].Partitions = append(both.Topics[0].Partitions, commitPartition(lost, 6, nil))
	a.c.Send(v, both).Note("one of each").Wait()
}

func consumerFetch(s *Session, v int16) {
	t := s.Topic("t", 1)
	m := s.consumer(1, "m", t)
	m.join("join")
	m.c.Send(9, consumerCommitRequest(m, t, 0)).Note("good").Wait()
	for _, f := range []struct {
		note  string
		id    *string
		epoch int32
	}{
		{"good", &m.id, m.epoch}, {"anonymous", nil, -1}, {"anonymous with an epoch", nil, m.epoch}, {"unknown member", ptr("who"), m.epoch},
		{"later epoch", &m.id, m.epoch + 1}, {"earlier epoch", &m.id, m.epoch - 1}, {"epoch -1", &m.id, -1},
	} {
		req := kmsg.NewPtrOffsetFetchRequest()
		g := offsetFetchGroup(m.group, t, 0)
		g.MemberID, g.MemberEpoch = f.id, f.epoch
		req.Groups = append(req.Groups, g)
		m.c.Send(v, req).Note(f.note).Wait()
	}
}

func consumerDelete(s *Session, v int16) {
	t := s.Topic("t", 1)
	m := s.consumer(1, "m", t)
	m.join("join")
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{m.group}
	m.c.Send(v, req).Note("not empty").Wait()
	m.leave("leave")
	m.c.Send(v, req).Note("empty").Wait()
	m.c.Send(v, req).Note("gone").Wait()
	m.describe("gone")
}

func consumerDeleteOffsets(s *Session) {
	t, u := s.Topic("t", 1), s.Topic("u", 1)
	m := s.consumer(1, "m", t)
	m.join("join")
	m.c.Send(9, consumerCommitRequest(m, t, 0)).Note("subscribed").Wait()
	m.c.Send(9, consumerCommitRequest(m, u, 0)).Note("not subscribed").Wait()
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = m.group
	for _, name := range []string{t.name, u.name} {
		req.Topics = append(req.Topics, kmsg.OffsetDeleteRequestTopic{Topic: name, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}})
	}
	m.c.Do(0, req)
	m.leave("leave")
	m.c.Send(0, req).Note("empty").Wait()
}

func consumerTxnCommit(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 2)
	a, b := s.consumer(1, "a", t), s.consumer(1, "b", t)
	a.join("join")
	old := a.epoch
	b.join("join")
	settleDown(a, b)
	p := s.producer("p")
	if resp := s.setup(4, p.addOffsetsRequest(a.group)).(*kmsg.AddOffsetsToTxnResponse); resp.ErrorCode != 0 {
		panic("set-up: offsets cannot be added to the transaction")
	}
	for _, f := range []struct {
		note  string
		id    string
		epoch int32
	}{
		{"good", a.id, a.epoch}, {"older epoch", a.id, old}, {"later epoch", a.id, a.epoch + 1}, {"unknown member", "who", a.epoch}, {"no member", "", -1},
	} {
		req := p.offsetsRequest(a.group, t, a.owned[0].Partitions[0], 7)
		req.MemberID, req.Generation = f.id, f.epoch
		a.c.Send(v, req).Note(f.note).Wait()
	}
}
