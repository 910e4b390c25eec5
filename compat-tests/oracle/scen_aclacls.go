package oracle

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fromNowhere asks for ACLs of a host that does not exist.
func fromNowhere(rights ...right) *kmsg.CreateACLsRequest {
	req := kmsg.NewPtrCreateACLsRequest()
	for _, r := range rights {
		req.Creations = append(req.Creations, creation("10.0.0.1", r))
	}
	return req
}

func aclCreate(s *Session, v int16) {
	good := toTopic(opRead, s.Name("t"))
	s.asked(v, func() kmsg.Request {
		return fromNowhere(good, good, right{opRead, onCluster, "other"}, right{opIdempotent, onTopic, good.name}, right{opRead, onTopic, ""})
	}, toCluster(opAlter))
}

// aclCreateOdd asks for ACLs that are odd in one way, each beside a good one.
func aclCreateOdd(s *Session, v int16) {
	c := s.guest()
	s.grant(guestHost, toCluster(opAlter))
	defer s.revoke(guestHost, toCluster(opAlter))
	tries := 0
	try := func(note string, bend func(*kmsg.CreateACLsRequestCreation)) {
		tries++
		name := s.Name(fmt.Sprint("t", tries))
		req := fromNowhere(toTopic(opRead, name), toTopic(opWrite, name))
		bend(&req.Creations[1])
		c.Send(v, req).Note(note).Wait()
	}
	type odd = *kmsg.CreateACLsRequestCreation
	for _, principal := range []string{"nobody", "", ":", "User:", ":ann", "user:ann", "User:a:b", "Group:g", "User:*", "User: ann "} {
		try(fmt.Sprintf("principal %q", principal), func(a odd) { a.Principal = principal })
	}
	try("another cluster", func(a odd) { a.ResourceType, a.ResourceName = onCluster, "other" })
	try("no name", func(a odd) { a.ResourceName = "" })
	try("no host", func(a odd) { a.Host = "" })
	try("any type", func(a odd) { a.ResourceType = kmsg.ACLResourceTypeAny })
	try("unknown type", func(a odd) { a.ResourceType = 99 })
	try("any pattern", func(a odd) { a.ResourcePatternType = kmsg.ACLResourcePatternTypeAny })
	try("match", func(a odd) { a.ResourcePatternType = kmsg.ACLResourcePatternTypeMatch })
	try("unknown pattern", func(a odd) { a.ResourcePatternType = 99 })
	try("any operation", func(a odd) { a.Operation = kmsg.ACLOperationAny })
	try("unknown operation", func(a odd) { a.Operation = 99 })
	try("two-phase commit", func(a odd) { a.Operation = 15 })
	try("operation of another type", func(a odd) { a.Operation = opIdempotent })
	try("any permission", func(a odd) { a.PermissionType = kmsg.ACLPermissionTypeAny })
	try("unknown permission", func(a odd) { a.PermissionType = 99 })
	try("twice", func(a odd) { a.Operation = opRead })
}

func aclDelete(s *Session, v int16) {
	s.grant("10.0.0.1", toTopic(opRead, s.Name("t")), toTopic(opWrite, s.Name("t")))
	s.grant("10.0.0.2", toTopic(opRead, s.Name("t")))
	s.asked(v, func() kmsg.Request {
		req := kmsg.NewPtrDeleteACLsRequest()
		for i := range 5 {
			f := kmsg.NewDeleteACLsRequestFilter()
			f.ResourceType, f.ResourceName, f.ResourcePatternType = onTopic, ptr(s.Name("t")), kmsg.ACLResourcePatternTypeLiteral
			f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
			switch i {
			case 0:
				f.Host = ptr("10.0.0.1")
			case 1:
				f.Operation = opRead
			case 2:
				f.ResourceName = ptr(s.Name("none"))
			case 3:
				f.PermissionType = kmsg.ACLPermissionTypeDeny
			case 4:
				f.Principal = ptr("User:ANONYMOUS")
			}
			req.Filters = append(req.Filters, f)
		}
		return req
	}, toCluster(opAlter))
}

func moveNowhere(s *Session) kmsg.Request {
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir = "/nowhere"
	dt := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	dt.Topic, dt.Partitions = s.Name("none"), []int32{0}
	d.Topics = append(d.Topics, dt)
	req.Dirs = append(req.Dirs, d)
	return req
}
