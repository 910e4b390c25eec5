package oracle

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// assignmentInterval is long enough for a few requests on a busy machine.
const assignmentInterval = 5 * time.Second

// consumerGroupScenarios are the life of a group of KIP-848.
func consumerGroupScenarios(l *list) {
	l.each(68, "consumer group/one member", consumerOne)
	l.each(68, "consumer group/two members", consumerTwo)
	l.each(68, "consumer group/three members and range", consumerRange)
	l.each(68, "consumer group/assignment interval", consumerInterval)
	l.each(68, "consumer group/member leaves", consumerLeaves)
	l.each(68, "consumer group/static member", consumerStatic)
	l.each(68, "consumer group/subscription changes", consumerSubscription)
	l.each(68, "consumer group/topics change", consumerTopicsChange)
	l.each(68, "consumer group/topic comes later", consumerTopicLater)
	l.each(68, "consumer group/revocation", consumerRevocation)
	l.each(68, "consumer group/rebalance timeout", consumerRebalanceTimeout)
	l.each(68, "consumer group/assignors", consumerAssignors)
	l.each(68, "consumer group/different topics", consumerHeterogeneous)
	l.each(68, "consumer group/full heartbeats", consumerFull)
	l.each(68, "consumer group/heartbeat interval", consumerHeartbeatInterval)
	l.one(68, 1, "consumer group/expression", consumerRegex)
	l.one(68, 1, "consumer group/expressions of two members", consumerRegexTwo)
	l.each(69, "consumer group/describe", consumerDescribe)
	l.each(16, "consumer group/list", consumerList)
	l.each(15, "consumer group/describe as classic", consumerDescribeClassic)
	l.each(68, "internal/consumer group", consumerRecords)
	l.each(68, "internal/static member of a consumer group", consumerStaticRecords)
	l.one(68, 1, "internal/expression of a consumer group", consumerRegexRecords)
}

func consumerOne(s *Session, v int16) {
	m := s.consumer(v, "m", s.Topic("t", 3))
	m.join("join")
	m.heartbeat("nothing new")
	m.confirm("owns what it got")
	m.describe("stable")
	m.heartbeat("again")
	m.leave("leave")
	m.describe("empty")
	m.leave("again")
	m.heartbeat("after leaving")
	m.join("again")
}

func consumerTwo(s *Session, v int16) {
	s.atOnce()
	a := s.consumer(v, "a", s.Topic("t", 4))
	b := s.consumer(v, "b")
	b.topics = a.topics
	a.join("join")
	b.join("join")
	a.describe("b waits")
	a.heartbeat("is to give up two")
	a.describe("a revokes")
	b.heartbeat("nothing free yet")
	a.confirm("has given up")
	b.heartbeat("gets them")
	a.heartbeat("nothing new")
	b.confirm("owns them")
	a.describe("stable")
}

func consumerRange(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 5)
	a, b, c := s.consumer(v, "a", t), s.consumer(v, "b", t), s.consumer(v, "c", t)
	for _, m := range []*consumer{a, b, c} {
		m.assignor = ptr("range")
		m.join("join")
	}
	settleDown(a, b, c)
	a.describe("settled")
	b.leave("the middle one leaves")
	settleDown(a, c)
	a.describe("settled again")
}

func consumerInterval(s *Session, v int16) {
	t := s.Topic("t", 2)
	s.setGroupConfig("consumer.assignment.interval.ms", fmt.Sprint(assignmentInterval.Milliseconds()))
	a, b := s.consumer(v, "a", t), s.consumer(v, "b", t)
	a.join("join")
	b.join("join")
	a.heartbeat("too early")
	a.describe("assigning")
	pause(assignmentInterval + settle)
	a.heartbeat("time to")
	a.describe("reconciling")
}

func consumerLeaves(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 4)
	a, b := s.consumer(v, "a", t), s.consumer(v, "b", t)
	a.join("join")
	b.join("join")
	settleDown(a, b)
	b.leave("leave")
	a.describe("b has left")
	a.heartbeat("gets all")
	a.describe("a alone")
}

func consumerStatic(s *Session, v int16) {
	t := s.Topic("t", 3)
	a := s.consumer(v, "a", t)
	a.instance = ptr("i")
	a.join("join")
	twin := s.consumer(v, "twin", t)
	twin.instance = a.instance
	twin.join("the instance is in use")
	back := a.epoch
	away := a.heartbeatRequest()
	away.MemberEpoch = -2
	a.c.Send(v, away).Note("will be back").Wait()
	a.describe("away")
	a.epoch = back
	a.heartbeat("while away")
	twin.join("takes over")
	a.describe("the twin is in")
	a.heartbeat("fenced")
	a.leave("fenced")
	stranger := s.consumer(v, "stranger", t)
	stranger.instance, stranger.epoch = ptr("other"), 5
	stranger.heartbeat("of no instance")
	twin.heartbeat("good")
	twin.leave("leave for good")
	twin.describe("empty")
}

func consumerSubscription(s *Session, v int16) {
	s.atOnce()
	t, u := s.Topic("t", 2), s.Topic("u", 2)
	a := s.consumer(v, "a", t)
	a.join("join")
	change := func(note string, names ...string) {
		req := a.heartbeatRequest()
		req.SubscribedTopicNames = append([]string{}, names...)
		a.send(note, req)
	}
	change("both", t.name, u.name)
	change("both, in another order", u.name, t.name)
	change("the other only", u.name)
	a.describe("revoking")
	a.confirm("given up")
	a.describe("the other")
	change("nothing")
	a.confirm("given up")
	a.describe("nothing")
	change("one that does not exist", s.Name("none"))
	a.describe("none")
}

func consumerTopicsChange(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 2)
	a := s.consumer(v, "a", t)
	a.join("join")
	s.setup(2, createPartitions(t.name, 4))
	learn()
	a.heartbeat("two more")
	a.describe("four")
	s.setup(5, deleteTopics(t.name))
	learn()
	a.heartbeat("deleted")
	a.confirm("given up")
	a.describe("none")
}

func consumerTopicLater(s *Session, v int16) {
	s.atOnce()
	a := s.consumer(v, "a")
	a.topics = []string{s.Name("later")}
	a.join("nothing yet")
	a.describe("nothing yet")
	s.Topic("later", 2)
	learn()
	a.heartbeat("there it is")
	a.describe("two")
}

func consumerRevocation(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 2)
	a, b := s.consumer(v, "a", t), s.consumer(v, "b", t)
	a.join("join")
	all := a.owned
	b.join("join")
	a.heartbeat("is to give up one")
	less := a.owned
	a.owned = all
	a.confirm("has not yet")
	a.owned = less
	lost := a.epoch
	a.confirm("has")
	a.epoch = lost
	a.owned = less
	a.confirm("has: the answer was lost")
	a.epoch = lost
	a.owned = all
	a.confirm("an old epoch with more than its own")
	a.epoch = lost
	a.heartbeat("an old epoch that says nothing")
}

func consumerRebalanceTimeout(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 2)
	a, b := s.consumer(v, "a", t), s.consumer(v, "b", t)
	a.timeout = 700
	a.join("join")
	b.join("join")
	a.heartbeat("is to give up one")
	pause(1500 * time.Millisecond)
	a.heartbeat("too late")
	b.heartbeat("has all")
	b.describe("alone")
}

func consumerAssignors(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 2)
	a, b := s.consumer(v, "a", t), s.consumer(v, "b", t)
	a.join("default")
	a.describe("uniform")
	req := a.heartbeatRequest()
	req.ServerAssignor = ptr("range")
	a.send("changes to range", req)
	a.describe("range")
	req = a.heartbeatRequest()
	req.ServerAssignor = ptr("sticky")
	a.send("unknown", req)
	req.ServerAssignor = ptr("")
	a.send("empty", req)
	b.assignor = ptr("range")
	b.join("the same")
	settleDown(a, b)
	a.describe("both")
}

func consumerHeterogeneous(s *Session, v int16) {
	s.atOnce()
	t, u := s.Topic("t", 2), s.Topic("u", 4)
	a, b := s.consumer(v, "a", t, u), s.consumer(v, "b", t)
	a.join("join")
	b.join("join")
	settleDown(a, b)
	a.describe("all of t for b")
}

func consumerFull(s *Session, v int16) {
	t := s.Topic("t", 2)
	a := s.consumer(v, "a", t)
	a.rack = ptr("r1")
	a.join("join")
	a.send("full", a.fullRequest())
	req := a.fullRequest()
	req.Topics = nil
	a.send("without partitions", req)
	req = a.fullRequest()
	req.RebalanceTimeoutMillis = -1
	a.send("without a timeout", req)
	a.rack = ptr("r2")
	a.send("in another rack", a.fullRequest())
	a.describe("in the other rack")
	a.join("joins again")
}

func consumerHeartbeatInterval(s *Session, v int16) {
	s.setGroupConfig("consumer.heartbeat.interval.ms", "7000")
	a := s.consumer(v, "a", s.Topic("t", 1))
	a.join("seven seconds")
	for _, f := range [][2]string{
		{"consumer.heartbeat.interval.ms", "4000"}, {"consumer.heartbeat.interval.ms", "16000"}, {"consumer.session.timeout.ms", "44000"},
		{"consumer.session.timeout.ms", "61000"}, {"consumer.assignment.interval.ms", "-1"}, {"consumer.assignment.interval.ms", "15001"},
		{"consumer.session.timeout.ms", "x"}, {"consumer.no.such", "1"},
	} {
		a.c.Send(v, incremental(resourceGroup, s.Name("g"), configOp{f[0], opSet, &f[1]})).Note(f[0] + "=" + f[1]).Wait()
	}
}

func consumerRegex(s *Session) {
	s.atOnce()
	s.Topic("one", 1)
	s.Topic("two", 1)
	a := s.consumer(1, "a")
	a.topics, a.regex = nil, ptr(s.Name("(one|three)"))
	a.join("nothing resolved yet")
	settleDown(a)
	a.describe("one")
	for _, bad := range []string{"[", "a{2000}", "(?P<x", "*", `\8`} {
		req := a.heartbeatRequest()
		req.SubscribedTopicRegex = ptr(bad)
		a.send("bad: "+bad, req)
	}
	change := func(note, regex string) {
		req := a.heartbeatRequest()
		req.SubscribedTopicRegex = &regex
		a.send(note, req)
	}
	change("none", "")
	a.confirm("given up")
	a.describe("none")
	both := a.heartbeatRequest()
	both.SubscribedTopicNames = []string{s.Name("two")}
	a.send("by name", both)
	a.describe("by name")
}

func consumerRegexTwo(s *Session) {
	s.atOnce()
	s.Topic("one", 2)
	a, b := s.consumer(1, "a"), s.consumer(1, "b")
	for _, m := range []*consumer{a, b} {
		m.topics, m.regex = []string{}, ptr(s.Name("o.e"))
	}
	a.join("first")
	settleDown(a)
	b.join("resolved already")
	settleDown(a, b)
	a.describe("shared")
	part := s.consumer(1, "part")
	part.topics, part.regex = nil, ptr(s.Name("on"))
	part.join("only the whole name counts; and not within ten seconds")
	part.describe("nothing for it")
}

func consumerDescribe(s *Session, v int16) {
	t := s.Topic("t", 1)
	a := s.consumer(min(v, 1), "a", t)
	a.instance, a.rack = ptr("i"), ptr("r")
	a.join("join")
	s.commit(s.Name("simple"), t, 3)
	c := s.Conn()
	s.describeConsumers(c, v, "good, unknown, simple, empty id", a.group, s.Name("none"), s.Name("simple"), "")
	s.describeConsumers(c, v, "none")
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{a.group, s.Name("none")}, true
	c.Send(v, req).Note("with operations").Wait()
}

func consumerList(s *Session, v int16) {
	a := s.consumer(1, "a", s.Topic("t", 1))
	a.join("join")
	list := func(note string, states, types []string) {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = states, types
		s.conns[0].Send(v, req).Note(note).OwnOnly().Wait()
	}
	list("all", nil, nil)
	list("stable", []string{"stable"}, nil)
	list("empty", []string{"Empty"}, nil)
	list("consumer", nil, []string{"Consumer"})
	list("classic", nil, []string{"classic"})
	a.leave("leave")
	list("all", nil, nil)
}

func consumerDescribeClassic(s *Session, v int16) {
	a := s.consumer(1, "a", s.Topic("t", 1))
	a.join("join")
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{a.group}
	a.c.Do(v, req)
}

func consumerRecords(s *Session, v int16) {
	s.atOnce()
	t := s.Topic("t", 2)
	log := s.watch()
	a, b := s.consumer(v, "a", t), s.consumer(v, "b", t)
	a.join("join")
	a.confirm("nothing new")
	b.join("join")
	a.heartbeat("revoke")
	a.confirm("revoked")
	b.heartbeat("gets it")
	b.leave("leave")
	a.leave("leave")
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{a.group}
	a.c.Do(2, req)
	log.record()
}

func consumerStaticRecords(s *Session, v int16) {
	log := s.watch()
	a := s.consumer(v, "a", s.Topic("t", 1))
	a.instance, a.rack, a.assignor = ptr("i"), ptr("r"), ptr("range")
	a.join("join")
	away := a.heartbeatRequest()
	away.MemberEpoch = -2
	a.c.Send(v, away).Note("will be back").Wait()
	a.join("is back")
	log.record()
}

func consumerRegexRecords(s *Session) {
	s.Topic("t", 1)
	log := s.watch()
	a := s.consumer(1, "a")
	a.topics, a.regex = nil, ptr(s.Name("t"))
	a.join("join")
	learn() // Kafka resolves in the background
	a.heartbeat("resolved")
	a.leave("leave")
	log.record()
}
