package oracle

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupErrorScenarios are what group requests are refused for, and the requests about groups from outside.
func groupErrorScenarios(l *list) {
	l.each(11, "join group/errors", joinErrors)
	l.each(14, "sync group/errors", syncErrors)
	l.each(12, "heartbeat/errors", heartbeatErrors)
	l.each(13, "leave group/errors", leaveErrors)
	l.each(15, "describe groups", describeGroups)
	l.each(16, "list groups", listGroups)
	l.each(42, "delete groups", deleteGroups)
	l.each(10, "find coordinator", findCoordinator)
}

func joinErrors(s *Session, v int16) {
	send := func(note string, bend func(*member, *kmsg.JoinGroupRequest)) {
		m := s.member(v)
		m.group = s.Name(strings.ReplaceAll(note, " ", "-"))
		req := m.joinRequest()
		bend(m, req)
		m.c.Send(v, req).Note(note).Wait()
	}
	send("empty group id", func(_ *member, r *kmsg.JoinGroupRequest) { r.Group = "" })
	for _, ms := range []int32{5999, 0, -1, 1_800_001, math.MaxInt32} {
		send(fmt.Sprintf("session timeout %d", ms), func(_ *member, r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = ms })
	}
	send("unknown member id", func(_ *member, r *kmsg.JoinGroupRequest) { r.MemberID = "made-up" })
	send("no protocols", func(_ *member, r *kmsg.JoinGroupRequest) { r.Protocols = nil })
	send("no protocol type", func(_ *member, r *kmsg.JoinGroupRequest) { r.ProtocolType = "" })
	send("neither", func(_ *member, r *kmsg.JoinGroupRequest) { r.ProtocolType, r.Protocols = "", nil })
	send("other protocol type", func(_ *member, r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })
	if v >= 5 {
		for _, id := range []string{"", ".", "..", "a b", strings.Repeat("x", 250)} {
			send("instance id "+shortName(id), func(_ *member, r *kmsg.JoinGroupRequest) { r.InstanceID = &id })
		}
	}
	m := s.member(v)
	m.join()
	other := s.member(v)
	req := other.joinRequest()
	req.ProtocolType = "connect"
	other.c.Send(v, req).Note("another protocol type than the group's").Wait()
	req = other.joinRequest()
	req.Protocols = nil
	other.c.Send(v, req).Note("no protocols, group in use").Wait()
	req = other.joinRequest()
	req.MemberID = "made-up"
	other.c.Send(v, req).Note("unknown member id, group in use").Wait()
}

// joinFor is the JoinGroup version whose companions have this version.
func joinFor(v int16) int16 { return v + 4 }

func syncErrors(s *Session, v int16) {
	m := s.member(joinFor(v))
	m.id, m.generation = "made-up", 1
	send := func(note string, req *kmsg.SyncGroupRequest) { m.c.Send(v, req).Note(note).Wait() }
	send("unknown group", m.syncRequest())
	empty := m.syncRequest()
	empty.Group = ""
	send("empty group id", empty)
	m.id = ""
	m.join()
	bad := m.syncRequest(m)
	bad.Generation = 7
	send("wrong generation", bad)
	bad = m.syncRequest(m)
	bad.Generation = -1
	send("generation -1", bad)
	bad = m.syncRequest(m)
	bad.MemberID = "made-up"
	send("unknown member", bad)
	bad = m.syncRequest(m)
	bad.ProtocolType = ptr("connect")
	send("wrong protocol type", bad)
	bad = m.syncRequest(m)
	bad.Protocol = ptr("sticky")
	send("wrong protocol", bad)
	bad = m.syncRequest(m)
	bad.Protocol, bad.ProtocolType = nil, nil
	send("null protocol", bad)
	bad = m.syncRequest(m)
	bad.InstanceID = ptr("instance")
	send("instance id of nobody", bad)
	send("good", m.syncRequest(m))
	stranger := *m
	stranger.id = "stranger"
	send("assignment for a stranger, when stable", m.syncRequest(&stranger))
}

func heartbeatErrors(s *Session, v int16) {
	m := s.member(joinFor(v))
	m.id, m.generation = "made-up", 1
	send := func(note string, bend func(*kmsg.HeartbeatRequest)) {
		req := m.heartbeatRequest()
		bend(req)
		m.c.Send(v, req).Note(note).Wait()
	}
	send("unknown group", func(*kmsg.HeartbeatRequest) {})
	send("empty group id", func(r *kmsg.HeartbeatRequest) { r.Group = "" })
	m.id = ""
	m.join()
	send("completing", func(*kmsg.HeartbeatRequest) {})
	send("unknown member", func(r *kmsg.HeartbeatRequest) { r.MemberID = "made-up" })
	send("empty member id", func(r *kmsg.HeartbeatRequest) { r.MemberID = "" })
	send("wrong generation", func(r *kmsg.HeartbeatRequest) { r.Generation = 5 })
	send("generation -1", func(r *kmsg.HeartbeatRequest) { r.Generation = -1 })
	send("instance id of nobody", func(r *kmsg.HeartbeatRequest) { r.InstanceID = ptr("instance") })
}

func leaveErrors(s *Session, v int16) {
	m := s.member(joinFor(v))
	m.id = "made-up"
	send := func(note string, req *kmsg.LeaveGroupRequest) { m.c.Send(v, req).Note(note).Wait() }
	send("unknown group", m.leaveRequest())
	empty := m.leaveRequest()
	empty.Group = ""
	send("empty group id", empty)
	m.id = ""
	m.join()
	stranger := m.leaveRequest()
	stranger.MemberID, stranger.Members[0].MemberID = "made-up", "made-up"
	send("unknown member", stranger)
	if v >= 3 {
		several := m.leaveRequest()
		several.Members = append(several.Members, stranger.Members[0], several.Members[0])
		send("itself, a stranger, itself", several)
		none := m.leaveRequest()
		none.Members = nil
		send("no members", none)
	} else {
		send("itself", m.leaveRequest())
	}
	m.describe("afterwards")
}

func describeGroups(s *Session, v int16) {
	m := s.member(9)
	m.instance = ptr("instance")
	m.join()
	m.sendSync(m).Wait()
	ask := func(note string, groups ...string) {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = groups
		m.c.Send(v, req).Note(note).Wait()
	}
	ask("stable", m.group)
	ask("unknown", s.Name("none"))
	ask("empty id", "")
	ask("several", s.Name("none"), m.group)
	ask("twice", m.group, m.group)
	ask("none")
	s.commit(s.Name("offsets"), s.Topic("t", 1), 5)
	ask("offsets only", s.Name("offsets"))
	if v >= 3 {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups, req.IncludeAuthorizedOperations = []string{m.group, s.Name("none")}, true
		m.c.Send(v, req).Note("authorized operations").Wait()
	}
}

func listGroups(s *Session, v int16) {
	m := s.member(9)
	m.join()
	m.sendSync(m).Wait()
	s.commit(s.Name("offsets"), s.Topic("t", 1), 5)
	ask := func(states, types []string) {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = states, types
		m.c.Send(v, req).Note(fmt.Sprint(states, types)).OwnOnly().Wait()
	}
	ask(nil, nil)
	if v >= 4 {
		for _, state := range []string{"Stable", "stable", "Empty", "Dead", "PreparingRebalance", "NoSuchState", ""} {
			ask([]string{state}, nil)
		}
		ask([]string{"Stable", "Empty"}, nil)
	}
	if v >= 5 {
		for _, kind := range []string{"classic", "Classic", "consumer", "share", "streams", "nosuchtype", ""} {
			ask(nil, []string{kind})
		}
		ask([]string{"Empty"}, []string{"classic", "consumer"})
	}
}

func deleteGroups(s *Session, v int16) {
	m := s.member(9)
	m.join()
	m.sendSync(m).Wait()
	t := s.Topic("t", 1)
	s.commit(s.Name("offsets"), t, 5)
	ask := func(note string, groups ...string) {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = groups
		m.c.Send(v, req).Note(note).Wait()
	}
	ask("in use", m.group)
	ask("unknown", s.Name("none"))
	ask("empty id", "")
	ask("several", s.Name("offsets"), m.group, s.Name("none"))
	m.c.Send(7, offsetFetch(s.Name("offsets"), t, 0)).Note("of the deleted").Wait()
	ask("deleted before", s.Name("offsets"))
	m.leave("leave")
	ask("now empty, twice", m.group, m.group)
	m.heartbeat("of the deleted group")
	ask("none")
}

func findCoordinator(s *Session, v int16) {
	c := s.Conn()
	ask := func(kind int8, keys ...string) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKeys = kind, keys
		if len(keys) > 0 {
			req.CoordinatorKey = keys[0]
		}
		c.Send(v, req).Note(fmt.Sprintf("type %d, %d keys", kind, len(keys))).Wait()
	}
	ask(0, s.Name("a"))
	ask(0, "")
	ask(0, s.Name("a"), s.Name("b"), s.Name("a"))
	ask(0)
	ask(3, s.Name("a"))
	ask(-1, s.Name("a"))
	ask(9, s.Name("a"))
	ask(1, "")
}
