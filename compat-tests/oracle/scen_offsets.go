package oracle

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetScenarios are OffsetCommit and OffsetFetch.
func offsetScenarios(l *list) {
	l.each(8, "offset commit/simple", commitSimple)
	l.serial(func() { l.each(8, "offset commit/errors", commitErrors) }) // they make the group "" for a while
	l.each(8, "offset commit/members", commitMembers)
	l.between(8, 7, 10, "offset commit/static members", commitStatic)
	l.each(9, "offset fetch/partitions", offsetFetchPartitions)
	l.each(9, "offset fetch/all", offsetFetchAll)
	l.between(9, 8, 10, "offset fetch/several groups", offsetFetchGroups)
	l.between(9, 9, 10, "offset fetch/members", offsetFetchMembers)
	l.between(9, 7, 10, "offset fetch/stable", func(s *Session, v int16) {
		t := s.Topic("t", 1)
		s.commit(s.Name("g"), t, 5)
		req := offsetFetch(s.Name("g"), t, 0)
		req.RequireStable = true
		s.Conn().Do(v, req)
	})
	l.each(9, "offset fetch/topic deleted", offsetFetchDeleted)
}

// offsetCommit is a commit from outside a group.
func offsetCommit(group string, t topic, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = t.name, t.id
	rt.Partitions = append(rt.Partitions, commitPartition(partition, offset, ptr("meta")))
	req.Topics = append(req.Topics, rt)
	return req
}

func commitPartition(partition int32, offset int64, metadata *string) kmsg.OffsetCommitRequestTopicPartition {
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.Metadata = partition, offset, metadata
	return rp
}

// commit is a set-up commit.
func (s *Session) commit(group string, t topic, offset int64) {
	resp := s.setup(8, offsetCommit(group, t, 0, offset)).(*kmsg.OffsetCommitResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		panic(fmt.Sprintf("set-up: commit: error %d", code))
	}
}

// offsetFetch asks for partitions of one topic, in the way of every version.
func offsetFetch(group string, t topic, partitions ...int32) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = t.name, partitions
	req.Topics = append(req.Topics, rt)
	req.Groups = append(req.Groups, offsetFetchGroup(group, t, partitions...))
	return req
}

func offsetFetchGroup(group string, t topic, partitions ...int32) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	gt := kmsg.NewOffsetFetchRequestGroupTopic()
	gt.Topic, gt.TopicID, gt.Partitions = t.name, t.id, partitions
	g.Topics = append(g.Topics, gt)
	return g
}

func commitSimple(s *Session, v int16) {
	t := s.Topic("t", 4)
	c := s.Conn()
	req := offsetCommit(s.Name("g"), t, 0, 5)
	epoch := commitPartition(3, 9, ptr(""))
	epoch.LeaderEpoch = 4
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, commitPartition(1, 0, nil), commitPartition(2, -1, ptr("ü")), epoch)
	c.Do(v, req)
	c.Do(7, offsetFetch(s.Name("g"), t, 0, 1, 2, 3))
	c.Send(v, offsetCommit(s.Name("g"), t, 0, 2)).Note("backwards").Wait()
	c.Do(7, offsetFetch(s.Name("g"), t, 0))
	c.Send(v, offsetCommit(s.Name("g"), t, 0, 1<<40)).Note("past the end").Wait()
	c.Send(v, offsetCommit(s.Name("g"), t, 0, -7)).Note("-7").Wait()
	c.Do(7, offsetFetch(s.Name("g"), t, 0))
	none := offsetCommit(s.Name("g"), t, 0, 0)
	none.Topics = nil
	c.Send(v, none).Note("no topics").Wait()
	if v <= 4 {
		keep := offsetCommit(s.Name("g"), t, 1, 3)
		keep.RetentionTimeMillis = 5_000_000
		c.Send(v, keep).Note("retention time").Wait()
	}
}

func commitErrors(s *Session, v int16) {
	t := s.Topic("t", 2)
	c := s.Conn()
	g := s.Name("g")
	c.Send(v, offsetCommit(g, t, 7, 5)).Note("no such partition").Wait()
	c.Send(v, offsetCommit(g, t, -1, 5)).Note("partition -1").Wait()
	c.Send(v, offsetCommit(g, topic{s.Name("none"), [16]byte{6}}, 0, 5)).Note("no such topic").Wait()
	c.Send(v, offsetCommit(g, topic{"", [16]byte{}}, 0, 5)).Note("no name, zero id").Wait()
	mixed := offsetCommit(g, t, 0, 5)
	mixed.Topics = append(mixed.Topics, offsetCommit(g, topic{s.Name("none"), [16]byte{6}}, 0, 5).Topics...)
	mixed.Topics[0].Partitions = append(mixed.Topics[0].Partitions, commitPartition(9, 1, nil))
	c.Send(v, mixed).Note("good and bad").Wait()
	c.Do(7, offsetFetch(g, t, 0))
	for _, size := range []int{4096, 4097} {
		large := offsetCommit(g, t, 1, 5)
		large.Topics[0].Partitions[0].Metadata = ptr(strings.Repeat("m", size))
		c.Send(v, large).Note(fmt.Sprintf("metadata of %d bytes", size)).Wait()
	}
	for _, f := range []struct {
		group, member string
		generation    int32
	}{{"", "", -1}, {"unknown", "", 3}, {"unknown", "made-up", 0}, {"unknown", "made-up", -1}, {"g", "", 0}, {"g", "made-up", 1}, {"g", "made-up", -1}} {
		name := f.group
		if name != "" {
			name = s.Name(name)
		}
		req := offsetCommit(name, t, 0, 8)
		req.MemberID, req.Generation = f.member, f.generation
		c.Send(v, req).Note(fmt.Sprintf("group %q, member %q, generation %d", f.group, f.member, f.generation)).Wait()
	}
	s.forgetGroup("")
}

func commitMembers(s *Session, v int16) {
	t := s.Topic("t", 1)
	a := s.member(9)
	send := func(note string, bend func(*kmsg.OffsetCommitRequest)) {
		req := offsetCommit(a.group, t, 0, 3)
		req.MemberID, req.Generation = a.id, a.generation
		bend(req)
		a.c.Send(v, req).Note(note).Wait()
	}
	same := func(*kmsg.OffsetCommitRequest) {}
	a.join()
	send("completing", same)
	a.sendSync(a).Wait()
	send("stable", same)
	send("wrong generation", func(r *kmsg.OffsetCommitRequest) { r.Generation++ })
	send("unknown member", func(r *kmsg.OffsetCommitRequest) { r.MemberID = "made-up" })
	send("from outside", func(r *kmsg.OffsetCommitRequest) { r.MemberID, r.Generation = "", -1 })
	send("member without a generation", func(r *kmsg.OffsetCommitRequest) { r.Generation = -1 })
	send("generation without a member", func(r *kmsg.OffsetCommitRequest) { r.MemberID = "" })
	send("instance id of nobody", func(r *kmsg.OffsetCommitRequest) { r.InstanceID = ptr("instance") })
	b := s.member(9)
	joining := b.sendJoin()
	a.awaitHeartbeat(rebalanceInProgress)
	send("preparing", same)
	a.leave("leave")
	b.joined(joining.Wait())
	send("after leaving", same)
	b.leave("leave")
	send("old generation, empty group", same)
	send("from outside, empty group", func(r *kmsg.OffsetCommitRequest) { r.MemberID, r.Generation = "", -1 })
}

func commitStatic(s *Session, v int16) {
	t := s.Topic("t", 1)
	a := s.member(9)
	a.instance = ptr("instance")
	a.join()
	a.sendSync(a).Wait()
	returned := s.member(9)
	returned.instance = a.instance
	returned.join()
	for _, m := range []*member{a, returned} {
		req := offsetCommit(m.group, t, 0, 3)
		req.MemberID, req.Generation, req.InstanceID = m.id, m.generation, m.instance
		m.c.Do(v, req)
	}
}

func offsetFetchPartitions(s *Session, v int16) {
	t := s.Topic("t", 3)
	g := s.Name("g")
	s.commit(g, t, 5)
	c := s.Conn()
	c.Do(v, offsetFetch(g, t, 0, 1))
	c.Send(v, offsetFetch(g, t, 9, -1)).Note("no such partitions").Wait()
	c.Send(v, offsetFetch(g, topic{s.Name("none"), [16]byte{2}}, 0)).Note("no such topic").Wait()
	c.Send(v, offsetFetch(g, topic{}, 0)).Note("no name, zero id").Wait()
	c.Send(v, offsetFetch(s.Name("unknown"), t, 0)).Note("unknown group").Wait()
	c.Send(v, offsetFetch("", t, 0)).Note("empty group id").Wait()
	c.Send(v, offsetFetch(g, t, 0, 0)).Note("twice").Wait()
	c.Send(v, offsetFetch(g, t)).Note("no partitions").Wait()
}

func offsetFetchAll(s *Session, v int16) {
	a, b := s.Topic("a", 1), s.Topic("b", 1)
	g := s.Name("g")
	s.commit(g, a, 5)
	s.commit(g, b, 6)
	c := s.Conn()
	empty := offsetFetch(g, a)
	empty.Topics, empty.Groups[0].Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
	c.Send(v, empty).Note("empty list").Wait()
	if v >= 2 {
		all := offsetFetch(g, a)
		all.Topics, all.Groups[0].Topics = nil, nil
		c.Send(v, all).Note("null list").Wait()
		none := offsetFetch(s.Name("unknown"), a)
		none.Topics, none.Groups[0].Topics = nil, nil
		c.Send(v, none).Note("null list, unknown group").Wait()
	}
}

func offsetFetchGroups(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.commit(s.Name("a"), t, 5)
	s.commit(s.Name("b"), t, 6)
	c := s.Conn()
	req := offsetFetch(s.Name("a"), t, 0)
	all := offsetFetchGroup(s.Name("b"), t)
	all.Topics = nil
	req.Groups = append(req.Groups, all, offsetFetchGroup(s.Name("unknown"), t, 0))
	c.Do(v, req)
	req.Groups = append(req.Groups, req.Groups[0])
	c.Send(v, req).Note("one twice").Wait()
	req.Groups = nil
	c.Send(v, req).Note("none").Wait()
}

func offsetFetchMembers(s *Session, v int16) {
	t := s.Topic("t", 1)
	m := s.member(9)
	s.commit(m.group, t, 5)
	m.join()
	m.sendSync(m).Wait()
	for _, f := range []struct {
		note  string
		id    *string
		epoch int32
	}{{"its own", &m.id, m.generation}, {"wrong epoch", &m.id, 9}, {"made-up member", ptr("made-up"), 1}, {"epoch alone", nil, 3}, {"epoch -1", &m.id, -1}} {
		req := offsetFetch(m.group, t, 0)
		req.Groups[0].MemberID, req.Groups[0].MemberEpoch = f.id, f.epoch
		m.c.Send(v, req).Note(f.note).Wait()
	}
}

func offsetFetchDeleted(s *Session, v int16) {
	a, b := s.Topic("a", 1), s.Topic("b", 1)
	g := s.Name("g")
	s.commit(g, a, 5)
	s.commit(g, b, 5)
	if resp := s.setup(5, deleteTopics(a.name)).(*kmsg.DeleteTopicsResponse); resp.Topics[0].ErrorCode != 0 {
		panic("set-up: delete topic")
	}
	s.await(func() bool { return !s.known(a.name) }, "deletion")
	s.await(func() bool {
		resp := s.setup(5, offsetFetch(g, a, 0)).(*kmsg.OffsetFetchResponse)
		return resp.Topics[0].Partitions[0].Offset == -1
	}, "offsets of the deleted topic")
	c := s.Conn()
	c.Do(v, offsetFetch(g, a, 0))
	if v >= 2 {
		all := offsetFetch(g, a)
		all.Topics, all.Groups[0].Topics = nil, nil
		c.Send(v, all).Note("all").Wait()
	}
}
