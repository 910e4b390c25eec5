package oracle

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// adminScenarios are log directories, ACLs without an authorizer, and SASL on a plaintext listener.
func adminScenarios(l *list) {
	l.each(34, "alter log dirs", alterLogDirs)
	l.each(35, "log dirs/topics", logDirs)
	l.each(29, "acls/describe", func(s *Session, v int16) {
		req := kmsg.NewPtrDescribeACLsRequest()
		req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType = 1, 1, 1, 1
		s.twiceOnOne(v, req)
	})
	l.each(30, "acls/create", func(s *Session, v int16) {
		req := kmsg.NewPtrCreateACLsRequest()
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType = 2, "x", 3
		c.Principal, c.Host, c.Operation, c.PermissionType = "User:a", "*", 3, 3
		req.Creations = append(req.Creations, c, c)
		s.twiceOnOne(v, req)
	})
	l.each(31, "acls/delete", func(s *Session, v int16) {
		req := kmsg.NewPtrDeleteACLsRequest()
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType = 1, 1, 1, 1
		req.Filters = append(req.Filters, f)
		s.twiceOnOne(v, req)
	})
	l.each(17, "sasl handshake/plaintext", func(s *Session, v int16) {
		for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "", "NONE"} {
			c := s.Conn()
			req := kmsg.NewPtrSASLHandshakeRequest()
			req.Mechanism = mechanism
			c.Send(v, req).Note(mechanism).Wait()
			c.Send(4, metadata()).Note("afterwards").Wait()
		}
	})
}

func (s *Session) twiceOnOne(v int16, req kmsg.Request) {
	c := s.Conn()
	c.Do(v, req)
	c.Do(v, req)
}

// alterLogDirs: there is one directory, so that nothing can move.
func alterLogDirs(s *Session, v int16) {
	t := s.Topic("t", 2)
	own := s.setup(1, kmsg.NewPtrDescribeLogDirsRequest()).(*kmsg.DescribeLogDirsResponse).Dirs[0].Dir
	c := s.Conn()
	move := func(note string, dirs ...kmsg.AlterReplicaLogDirsRequestDir) {
		req := kmsg.NewPtrAlterReplicaLogDirsRequest()
		req.Dirs = dirs
		c.Send(v, req).Note(note).Wait()
	}
	to := func(dir, name string, partitions ...int32) kmsg.AlterReplicaLogDirsRequestDir {
		d := kmsg.NewAlterReplicaLogDirsRequestDir()
		rt := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
		rt.Topic, rt.Partitions = name, partitions
		d.Dir, d.Topics = dir, append(d.Topics, rt)
		return d
	}
	move("where it is", to(own, t.name, 0, 1))
	move("with a slash", to(own+"/", t.name, 0))
	move("no such directory", to("/nowhere/at/all", t.name, 0))
	move("a relative one", to("nowhere", t.name, 0))
	move("an empty one", to("", t.name, 0))
	move("no such partition", to(own, t.name, 9))
	move("a negative partition", to(own, t.name, -1))
	move("no such topic", to(own, s.Name("none"), 0))
	move("a topic without a name", to(own, "", 0))
	move("a long name", to(own, strings.Repeat("x", 249), 0))
	move("a long name nowhere", to("/nowhere", strings.Repeat("x", 249), 0))
	move("an internal topic", to(own, "__cluster_metadata", 0))
	move("no partitions", to(own, t.name))
	move("twice", to(own, t.name, 0, 0))
	move("to two places", to("/nowhere", t.name, 0), to(own, t.name, 0))
	move("two topics", to(own, t.name, 0), to(own, s.Name("none"), 0))
	move("nothing")
}

func logDirs(s *Session, v int16) {
	t := s.Topic("t", 3)
	s.Fill(t, 1, batch(codecNone, text("a")))
	c := s.Conn()
	ask := func(note, name string, partitions ...int32) {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		rt := kmsg.NewDescribeLogDirsRequestTopic()
		rt.Topic, rt.Partitions = name, partitions
		req.Topics = append(req.Topics, rt)
		c.Send(v, req).Note(note).Wait()
	}
	ask("all partitions", t.name, 0, 1, 2)
	ask("one partition", t.name, 1)
	ask("no partitions", t.name)
	ask("no such partition", t.name, 9)
	ask("no such topic", s.Name("none"), 0)
	all := kmsg.NewPtrDescribeLogDirsRequest()
	all.Topics = nil
	c.Send(v, all).Note("everything").OwnOnly().Wait()
	none := kmsg.NewPtrDescribeLogDirsRequest()
	none.Topics = []kmsg.DescribeLogDirsRequestTopic{}
	c.Send(v, none).Note("empty list").Wait()
}
