package handlers

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/metadata/acl"
	"grete/internal/sched"
	"grete/protocol"
)

// authorization is how an API is authorized before its handler runs. It answers a request that is refused whole, and
// returns false. Of any other it takes out what the client may not touch, and has the response amended.
type authorization func(*Broker, *protocol.Request) bool

// free is the authorization of APIs that everyone may use, asksItself that of those whose handlers ask.
func free(*Broker, *protocol.Request) bool       { return true }
func asksItself(*Broker, *protocol.Request) bool { return true }

func topicResource(name string) acl.Resource {
	return acl.Resource{Type: kmsg.ACLResourceTypeTopic, Name: name}
}

// allows says whether the client may do op on a resource, for a choice that denies nothing that was asked for.
func (b *Broker) allows(r *protocol.Request, op kmsg.ACLOperation, on acl.Resource) bool {
	if b.Authorizer == nil {
		return true
	}
	im := b.Image()
	if on.Type == kmsg.ACLResourceTypeCluster && trusted(im, r.Conn) {
		return true
	}
	d := decisionsOf(r.Conn, im)
	q := question{op, on}
	allowed, known := d.look(q)
	if !known {
		allowed = b.Authorizer.rules.Allows(im, subject(r.Conn), op, on)
		d.keep(q, allowed)
	}
	return allowed
}

// may says whether the client may do op on a resource that its request is about. The log is told of a denial.
func (b *Broker) may(r *protocol.Request, op kmsg.ACLOperation, t kmsg.ACLResourceType, name string) bool {
	on := acl.Resource{Type: t, Name: name}
	if b.allows(r, op, on) {
		return true
	}
	b.Authorizer.denied(r, op, on)
	return false
}

// topicAllows, groupAllows and clusterAllows are allows for those types.
func (b *Broker) topicAllows(r *protocol.Request, op kmsg.ACLOperation, name string) bool {
	return b.allows(r, op, topicResource(name))
}

func (b *Broker) groupAllows(r *protocol.Request, op kmsg.ACLOperation, name string) bool {
	return b.allows(r, op, acl.Resource{Type: kmsg.ACLResourceTypeGroup, Name: name})
}

func (b *Broker) clusterAllows(r *protocol.Request, op kmsg.ACLOperation) bool {
	return b.allows(r, op, acl.Cluster)
}

func (b *Broker) mayTopic(r *protocol.Request, op kmsg.ACLOperation, name string) bool {
	return b.may(r, op, kmsg.ACLResourceTypeTopic, name)
}

func (b *Broker) mayGroup(r *protocol.Request, op kmsg.ACLOperation, name string) bool {
	return b.may(r, op, kmsg.ACLResourceTypeGroup, name)
}

func (b *Broker) mayTransaction(r *protocol.Request, op kmsg.ACLOperation, id string) bool {
	return b.may(r, op, kmsg.ACLResourceTypeTransactionalId, id)
}

func (b *Broker) mayCluster(r *protocol.Request, op kmsg.ACLOperation) bool {
	return b.may(r, op, kmsg.ACLResourceTypeCluster, acl.ClusterName)
}

// mayAny says whether the client may do op on some resource of a type.
func (b *Broker) mayAny(r *protocol.Request, op kmsg.ACLOperation, t kmsg.ACLResourceType) bool {
	if b.Authorizer == nil || b.Authorizer.rules.AllowsAny(b.Image(), subject(r.Conn), op, t) {
		return true
	}
	b.Authorizer.denied(r, op, acl.Resource{Type: t})
	return false
}

// trusted says whether the connection is that of a node of the cluster: one that has proven to be it, or the registered
// run of a broker (adr/0009). Nodes need no ACL for what they ask each other.
func trusted(im *metadata.Image, c *protocol.Conn) bool {
	p := c.Peer()
	return p != nil && (p.Proven || isRun(im, p, p.NodeID))
}

// mayEnter says whether a connection to a controller listener may do what only nodes of the cluster do: it has proven
// to be one, or its principal has CLUSTER_ACTION, as Kafka wants it. Without an authorizer nothing but adr/0009 counts.
func (b *Broker) mayEnter(r *protocol.Request) bool {
	return b.mayCluster(r, kmsg.ACLOperationClusterAction)
}

func subject(c *protocol.Conn) acl.Subject {
	p := c.Principal()
	return acl.Subject{Principal: p.Type + ":" + p.Name, Host: strings.TrimPrefix(javaHost(c.RemoteAddr), "/")}
}

// maxDecisions bounds what is remembered of one connection; beyond, it begins anew.
const maxDecisions = 1024

type question struct {
	op       kmsg.ACLOperation
	resource acl.Resource
}

// decisions are answers that hold for one principal of a connection as long as the ACLs stay as they are.
type decisions struct {
	principal protocol.Principal
	version   *byte

	mu    sched.Mutex
	known map[question]bool
}

// decisionsOf returns what is known of the connection under these ACLs.
func decisionsOf(c *protocol.Conn, im *metadata.Image) *decisions {
	d, _ := c.Memo().(*decisions)
	if principal := c.Principal(); d == nil || d.version != im.ACLVersion() || d.principal != principal {
		d = &decisions{principal: principal, version: im.ACLVersion(), known: map[question]bool{}}
		c.SetMemo(d)
	}
	return d
}

func (d *decisions) look(q question) (allowed, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	allowed, known = d.known[q]
	return allowed, known
}

func (d *decisions) keep(q question, allowed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxDecisions {
		clear(d.known)
	}
	d.known[q] = allowed
}

// permitted is the part of ops that the client may do, as the bit field of authorized operations.
func (b *Broker) permitted(r *protocol.Request, t kmsg.ACLResourceType, name string, ops int32) int32 {
	if b.Authorizer == nil {
		return ops
	}
	var out int32
	for op := kmsg.ACLOperation(0); op < 32; op++ {
		if bit := int32(1) << op; ops&bit != 0 && b.allows(r, op, acl.Resource{Type: t, Name: name}) {
			out |= bit
		}
	}
	return out
}

// topicPermissions and clusterPermissions are the authorized operations of those resources. Of a cluster that the
// client may not describe nothing is told.
func (b *Broker) topicPermissions(r *protocol.Request, name string) int32 {
	return b.permitted(r, kmsg.ACLResourceTypeTopic, name, topicOperations)
}

func (b *Broker) groupPermissions(r *protocol.Request, name string) int32 {
	return b.permitted(r, kmsg.ACLResourceTypeGroup, name, groupOperations)
}

func (b *Broker) clusterPermissions(r *protocol.Request) int32 {
	if !b.mayCluster(r, kmsg.ACLOperationDescribe) {
		return 0
	}
	return b.permitted(r, kmsg.ACLResourceTypeCluster, acl.ClusterName, clusterOperations)
}

// withhold splits list into what the client may touch, in place, and the rest.
func withhold[T any](list []T, may func(*T) bool) (kept, refused []T) {
	kept = list[:0]
	for i := range list {
		if may(&list[i]) {
			kept = append(kept, list[i])
		} else {
			refused = append(refused, list[i])
		}
	}
	return kept, refused
}

// repeated are the keys that list has more than once. Kafka refuses these before it asks who may do what.
func repeated[T any, K comparable](list []T, key func(*T) K) map[K]bool {
	seen, twice := map[K]bool{}, map[K]bool{}
	for i := range list {
		k := key(&list[i])
		twice[k] = seen[k] || twice[k]
		seen[k] = true
	}
	return twice
}

// amend has f add to a response of its type.
func amend[R kmsg.Response](r *protocol.Request, f func(R)) {
	r.Amend(func(resp kmsg.Response) { f(resp.(R)) })
}

// wants authorizes a request to the controller by one operation on the cluster. The handler answers a refusal as it
// answers any other failure of the whole request; where the answer has room for a text, Kafka's has one.
func wants(op kmsg.ACLOperation) authorization {
	return func(b *Broker, r *protocol.Request) bool {
		if !b.mayCluster(r, op) {
			r.Refusal = kerr.ClusterAuthorizationFailed
			r.Amend(explainDenial)
		}
		return true
	}
}

// refusal is the answer to a request that the client may not make.
func refusal[R kmsg.Response](r *protocol.Request, fail func(R)) bool {
	resp := r.Body.ResponseKind().(R)
	fail(resp)
	r.Respond(resp)
	return false
}

// explainDenial puts Kafka's text beside the code of a request that is denied as a whole.
func explainDenial(resp kmsg.Response) {
	text := kmsg.StringPtr(clusterUnauthorizedText)
	switch resp := resp.(type) {
	case *kmsg.ElectLeadersResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				resp.Topics[i].Partitions[j].ErrorMessage = text
			}
		}
	case *kmsg.AlterPartitionAssignmentsResponse:
		resp.ErrorMessage = text
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				resp.Topics[i].Partitions[j].ErrorMessage = text
			}
		}
	case *kmsg.ListPartitionReassignmentsResponse:
		resp.ErrorMessage = text
	case *kmsg.UnregisterControllerResponse:
		resp.ErrorMessage = text
	case *kmsg.AlterUserSCRAMCredentialsResponse:
		for i := range resp.Results {
			resp.Results[i].ErrorMessage = text
		}
	case *kmsg.DescribeQuorumResponse:
		resp.ErrorMessage = text
	case *kmsg.UpdateFeaturesResponse:
		resp.ErrorMessage = text
	case *kmsg.UnregisterBrokerResponse:
		resp.ErrorMessage = text
	case *kmsg.AddRaftVoterResponse:
		resp.ErrorMessage = text
	case *kmsg.RemoveRaftVoterResponse:
		resp.ErrorMessage = text
	}
}
