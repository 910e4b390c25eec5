package oracle

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// settle is enough for a request that parks to have been read by the broker.
const settle = 150 * time.Millisecond

// groupScenarios are the life of a classic group.
func groupScenarios(l *list) {
	l.each(11, "group/one member", groupOne)
	l.each(11, "group/two members", groupTwo)
	l.each(11, "group/rejoin", groupRejoin)
	l.each(11, "group/not of consumers", groupConnect)
	l.each(11, "group/protocols", groupProtocols)
	l.between(11, 5, 9, "group/equal votes", groupEqualVotes)
	l.each(11, "group/rebalance timeout", groupRebalanceTimeout)
	l.each(11, "group/leader never syncs", groupNeverSyncs)
	l.each(11, "group/leave while preparing", groupLeavePreparing)
	l.each(11, "group/sync again", groupSyncAgain)
	l.between(11, 5, 9, "group/static members", groupStatic)
	l.between(11, 5, 9, "group/static leader returns", groupStaticLeader)
	l.between(11, 5, 9, "group/static member with new metadata", groupStaticChanged)
	for _, v := range []int16{0, 3, 9} {
		l.between(11, v, v, "group/session timeout", groupSessionTimeout)
	}
	l.between(11, 4, 9, "group/pending member", groupPending)
	l.between(11, 8, 9, "group/reason", func(s *Session, v int16) {
		m := s.member(v)
		req := m.joinRequest()
		req.Reason = ptr("because")
		m.id = m.c.Do(v, req).(*kmsg.JoinGroupResponse).MemberID
		req = m.joinRequest()
		req.Reason = ptr("")
		m.c.Do(v, req)
	})
}

func groupOne(s *Session, v int16) {
	m := s.member(v)
	m.join()
	m.describe("completing")
	m.heartbeat("before the sync")
	m.sendSync(m).Wait()
	m.heartbeat("stable")
	m.describe("stable")
	m.leave("leave")
	m.describe("empty")
	m.heartbeat("after leaving")
	m.leave("again")
	m.sendSync(m).Wait()
	m.c.Send(v, m.joinRequest()).Note("with the old id").Wait()
}

func groupTwo(s *Session, v int16) {
	a, b := stablePair(s, v)
	a.heartbeat("leader")
	b.heartbeat("follower")
	a.describe("two members")
	b.leave("follower leaves")
	a.heartbeat("after it left")
	a.join()
	a.sendSync(a).Wait()
	a.heartbeat("alone again")
	b.heartbeat("of the one that left")
}

func groupRejoin(s *Session, v int16) {
	a, b := stablePair(s, v)
	b.c.Send(v, b.joinRequest()).Note("follower, unchanged").Wait()
	a.heartbeat("still stable")
	b.sendSync().Wait()
	b.metadata = "changed"
	changed := b.sendJoin().Note("follower, changed")
	a.awaitHeartbeat(rebalanceInProgress)
	again := a.sendJoin()
	a.joined(again.Wait())
	b.joined(changed.Wait())
	b.c.Send(v, b.joinRequest()).Note("follower, unchanged, while completing").Wait()
	a.sendSync(a, b).Wait()
	b.sendSync().Wait()
	leader := a.sendJoin().Note("leader, unchanged")
	b.awaitHeartbeat(rebalanceInProgress)
	follower := b.sendJoin()
	a.joined(leader.Wait())
	b.joined(follower.Wait())
}

// groupConnect: a group of another protocol type, whose metadata the broker cannot read.
func groupConnect(s *Session, v int16) {
	m := s.member(v)
	m.id = ""
	join := func() *kmsg.JoinGroupRequest {
		req := m.joinRequest()
		req.ProtocolType = "connect"
		req.Protocols[0].Name, req.Protocols[0].Metadata = "sessioned", []byte("opaque")
		return req
	}
	if v >= 4 {
		m.id = m.c.Send(v, join()).Note("without an id").Wait().(*kmsg.JoinGroupResponse).MemberID
	}
	m.joined(m.c.Do(v, join()))
	sync := m.syncRequest(m)
	sync.ProtocolType, sync.Protocol = ptr("connect"), ptr("sessioned")
	m.c.Do(min(v, 5), sync)
	m.describe("stable")
	req := kmsg.NewPtrListGroupsRequest()
	m.c.Send(5, req).OwnOnly().Wait()
	t := s.Topic("t", 1)
	commit := offsetCommit(m.group, t, 0, 3)
	commit.MemberID, commit.Generation = m.id, m.generation
	m.c.Do(8, commit)
	m.leave("leave")
	m.describe("empty")
}

// groupEqualVotes: each of two members prefers another protocol.
func groupEqualVotes(s *Session, v int16) {
	for i, pair := range [][2]string{{"range", "sticky"}, {"roundrobin", "range"}, {"cooperative-sticky", "range"}, {"a", "b"}, {"b", "a"}} {
		a, b := s.member(v), s.member(v)
		a.group = s.Name(fmt.Sprintf("g%d", i))
		b.group = a.group
		a.protocols, b.protocols = []string{pair[0], pair[1]}, []string{pair[1], pair[0]}
		a.join()
		joins := b.sendJoin()
		a.awaitHeartbeat(rebalanceInProgress)
		again := a.sendJoin()
		a.joined(again.Wait())
		b.joined(joins.Wait())
		a.leave("leave")
		b.leave("leave")
	}
}

func groupProtocols(s *Session, v int16) {
	a, b := s.member(v), s.member(v)
	a.protocols = []string{"range", "cooperative-sticky", "roundrobin"}
	b.protocols = []string{"sticky", "cooperative-sticky", "roundrobin"} // no tie: Kafka's hash map would decide it
	a.join()
	a.sendSync(a).Wait()
	joining := b.sendJoin()
	a.awaitHeartbeat(rebalanceInProgress)
	again := a.sendJoin()
	a.joined(again.Wait())
	b.joined(joining.Wait())
	a.describe("completing")
	none := s.member(v)
	none.protocols = []string{"sticky"}
	none.sendJoin().Note("no protocol in common").Wait()
}

func groupRebalanceTimeout(s *Session, v int16) {
	a, b := s.member(v), s.member(v)
	a.rebalance, b.rebalance, a.sessionMs, b.sessionMs = 1500, 1500, 6000, 6000
	a.join()
	a.sendSync(a).Wait()
	b.joined(b.sendJoin().Note("the other does not rejoin").Wait())
	a.heartbeat("of the one that did not rejoin")
	b.sendSync(b).Wait()
	b.describe("without it")
}

func groupNeverSyncs(s *Session, v int16) {
	a, b := s.member(v), s.member(v)
	a.rebalance, b.rebalance, a.sessionMs, b.sessionMs = 2000, 2000, 6000, 6000
	a.join()
	joining := b.sendJoin()
	a.awaitHeartbeat(rebalanceInProgress)
	again := a.sendJoin()
	a.joined(again.Wait())
	b.joined(joining.Wait())
	b.sendSync().Note("the leader never does").Wait()
	a.heartbeat("of the leader")
	b.heartbeat("of the follower")
}

func groupLeavePreparing(s *Session, v int16) {
	a, b := s.member(v), s.member(v)
	a.join()
	a.sendSync(a).Wait()
	joining := b.sendJoin()
	a.awaitHeartbeat(rebalanceInProgress)
	a.sendSync(a).Note("while preparing").Wait()
	a.describe("preparing")
	a.leave("while preparing")
	b.joined(joining.Wait())
	b.sendSync(b).Wait()
	b.describe("stable")
}

func groupSyncAgain(s *Session, v int16) {
	a, b := stablePair(s, v)
	a.sendSync(b).Note("leader again, other assignment").Wait()
	b.sendSync(a).Note("follower with an assignment").Wait()
	stranger := s.member(v)
	stranger.id, stranger.generation = "nobody", a.generation
	stranger.sendSync().Note("unknown member").Wait()
	a.generation++
	a.sendSync(a).Note("next generation").Wait()
	a.heartbeat("next generation")
	a.generation -= 2
	a.sendSync(a).Note("generation before").Wait()
	a.heartbeat("generation before")
}

func groupStatic(s *Session, v int16) {
	a := s.member(v)
	a.instance = ptr("instance-a")
	a.join()
	a.sendSync(a).Wait()
	b := s.member(v)
	b.instance = ptr("instance-b")
	joining := b.sendJoin()
	a.awaitHeartbeat(rebalanceInProgress)
	again := a.sendJoin()
	a.joined(again.Wait())
	b.joined(joining.Wait())
	waiting := b.sendSync()
	pause(settle)
	a.sendSync(a, b).Wait()
	waiting.Wait()

	returned := s.member(v)
	returned.instance = b.instance
	returned.join()
	returned.sendSync().Wait()
	a.heartbeat("undisturbed")
	b.heartbeat("of the fenced one")
	b.sendSync().Note("of the fenced one").Wait()
	b.c.Send(v, b.joinRequest()).Note("of the fenced one").Wait()
	b.leave("of the fenced one")
	unknown := s.member(v)
	unknown.instance, unknown.id = ptr("instance-c"), "made-up"
	unknown.c.Send(v, unknown.joinRequest()).Note("unknown instance with an id").Wait()
	a.describe("two static members")
	if v >= 5 {
		leave := a.leaveRequest()
		leave.Members[0].MemberID, leave.Members[0].InstanceID = "", b.instance
		other := leave.Members[0]
		other.InstanceID = ptr("nobody")
		leave.Members = append(leave.Members, other)
		a.c.Send(5, leave).Note("by instance id, one unknown").Wait()
	}
	a.heartbeat("after it left")
}

func groupStaticLeader(s *Session, v int16) {
	a, b := s.member(v), s.member(v)
	a.instance, b.instance = ptr("instance-a"), ptr("instance-b")
	a.join()
	a.sendSync(a).Wait()
	joining := b.sendJoin()
	a.awaitHeartbeat(rebalanceInProgress)
	again := a.sendJoin()
	a.joined(again.Wait())
	b.joined(joining.Wait())
	waiting := b.sendSync()
	pause(settle)
	a.sendSync(a, b).Wait()
	waiting.Wait()
	returned := s.member(v)
	returned.instance = a.instance
	returned.join()
	returned.sendSync(returned, b).Wait()
	b.heartbeat("undisturbed")
}

func groupStaticChanged(s *Session, v int16) {
	a := s.member(v)
	a.instance = ptr("instance-a")
	a.join()
	a.sendSync(a).Wait()
	returned := s.member(v)
	returned.instance, returned.metadata = a.instance, "changed"
	returned.join()
	returned.sendSync(returned).Wait()
	returned.heartbeat("stable")
	known := s.member(v)
	known.instance, known.id = returned.instance, returned.id
	known.c.Send(v, known.joinRequest()).Note("same id, changed back").Wait()
}

func groupSessionTimeout(s *Session, v int16) {
	a := s.member(v)
	a.sessionMs = 6000
	a.join()
	a.sendSync(a).Wait()
	pause(2 * time.Second)
	a.heartbeat("in time")
	pause(3 * time.Second)
	a.describe("still there")
	pause(5 * time.Second)
	a.describe("expired")
	a.heartbeat("too late")
}

func groupPending(s *Session, v int16) {
	a, b := s.member(v), s.member(v)
	a.join()
	a.sendSync(a).Wait()
	b.id = b.c.Send(v, b.joinRequest()).Note("without an id").Wait().(*kmsg.JoinGroupResponse).MemberID
	a.heartbeat("a pending member changes nothing")
	a.describe("a pending member is not shown")
	b.heartbeat("of the pending member")
	b.sendSync().Note("of the pending member").Wait()
	b.leave("of the pending member")
	b.c.Send(v, b.joinRequest()).Note("after leaving").Wait()
}
