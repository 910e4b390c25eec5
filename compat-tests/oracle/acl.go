package oracle

import (
	"fmt"
	"net"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The scenarios of authorization run on a broker with Kafka's StandardAuthorizer. Everybody there is User:ANONYMOUS: who comes from adminHost may do
// everything, from guestHost what a scenario allows.
const (
	adminHost = "127.0.0.1"
	guestHost = "127.0.0.2"
)

// ACLProperties are the broker's for ACLScenarios. Until there are ACLs everybody may do everything, so that the first can be made.
var ACLProperties = map[string]string{
	"authorizer.class.name":          "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
	"allow.everyone.if.no.acl.found": "true",
}

const (
	onTopic   = kmsg.ACLResourceTypeTopic
	onGroup   = kmsg.ACLResourceTypeGroup
	onCluster = kmsg.ACLResourceTypeCluster
	onTxn     = kmsg.ACLResourceTypeTransactionalId
)

// right is to do an operation on a resource; with the type CLUSTER the name is the cluster's.
type right struct {
	op   kmsg.ACLOperation
	kind kmsg.ACLResourceType
	name string
}

func (r right) String() string { return fmt.Sprintf("%v on %v", r.op, r.kind) }

// CloseDoors lets the admin's host do everything, and nobody else anything.
func CloseDoors(t Target) (err error) {
	s := newSession(t, "acls", "0000")
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("acls of %s: %v", t.Name, r)
		}
		if s.setupConn != nil {
			s.setupConn.Close()
		}
	}()
	for _, kind := range []kmsg.ACLResourceType{onTopic, onGroup, onTxn, kmsg.ACLResourceTypeDelegationToken, onCluster} {
		name := "*"
		if kind == onCluster {
			name = "kafka-cluster"
		}
		s.grant(adminHost, right{kmsg.ACLOperationAll, kind, name})
	}
	return nil
}

func creation(host string, r right) kmsg.CreateACLsRequestCreation {
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = r.kind, r.name, kmsg.ACLResourcePatternTypeLiteral
	c.Principal, c.Host, c.Operation, c.PermissionType = "User:ANONYMOUS", host, r.op, kmsg.ACLPermissionTypeAllow
	return c
}

func (s *Session) grant(host string, rights ...right) {
	if len(rights) == 0 {
		return
	}
	req := kmsg.NewPtrCreateACLsRequest()
	for _, r := range rights {
		req.Creations = append(req.Creations, creation(host, r))
	}
	for _, res := range s.setup(3, req).(*kmsg.CreateACLsResponse).Results {
		if res.ErrorCode != 0 {
			panic(fmt.Sprintf("set-up: create ACL: error %d", res.ErrorCode))
		}
	}
	for _, r := range rights {
		s.await(func() bool { return s.granted(host, r) }, r.String())
	}
}

func (s *Session) revoke(host string, rights ...right) {
	if len(rights) == 0 {
		return
	}
	req := kmsg.NewPtrDeleteACLsRequest()
	for _, r := range rights {
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourceName, f.ResourcePatternType = r.kind, ptr(r.name), kmsg.ACLResourcePatternTypeLiteral
		f.Host, f.Operation, f.PermissionType = ptr(host), r.op, kmsg.ACLPermissionTypeAny
		req.Filters = append(req.Filters, f)
	}
	s.setup(3, req)
	for _, r := range rights {
		s.await(func() bool { return !s.granted(host, r) }, r.String())
	}
}

func (s *Session) granted(host string, r right) bool {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourceName, req.ResourcePatternType = r.kind, ptr(r.name), kmsg.ACLResourcePatternTypeLiteral
	req.Host, req.Operation, req.PermissionType = ptr(host), r.op, kmsg.ACLPermissionTypeAny
	return len(s.setup(3, req).(*kmsg.DescribeACLsResponse).Resources) > 0
}

// dialFrom connects from a host of this machine's.
func dialFrom(host, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	if host != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(host)}
	}
	return d.Dial("tcp", addr)
}

// asked sends one request without any of the rights that it needs, then without each of them, then with all.
func (s *Session) asked(v int16, request func() kmsg.Request, rights ...right) {
	c := s.guest()
	ask := func(note string, granted []right) {
		s.grant(guestHost, granted...)
		defer s.revoke(guestHost, granted...)
		k := c.Send(v, request()).Note(note)
		k.filter = s.ownOnly
		k.Wait()
	}
	ask("without any right", nil)
	for i, r := range rights {
		if len(rights) > 1 {
			ask("without "+r.String(), slices.Delete(slices.Clone(rights), i, i+1))
		}
	}
	ask("with all rights", rights)
}

// guest is a connection from guestHost.
func (s *Session) guest() *Conn {
	if s.target.Guest == "" {
		s.target.Guest = guestHost
	}
	return s.Conn()
}
