// Package acl decides what a principal may do. It is pure: the ACLs are those of a metadata image. The rules are those
// of Kafka's StandardAuthorizer.
package acl

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// Wildcard stands for every name of a literal pattern, and for every host.
const Wildcard = "*"

// AnyUser is the principal of ACLs that are about every user.
const AnyUser = "User:*"

// ClusterName is the name of the one resource of the type CLUSTER.
const ClusterName = "kafka-cluster"

// Resource is what an operation acts on.
type Resource struct {
	Type kmsg.ACLResourceType
	Name string
}

// Cluster is the resource of operations on the cluster itself.
var Cluster = Resource{kmsg.ACLResourceTypeCluster, ClusterName}

// Subject is a client whose right to do something is in question.
type Subject struct {
	Principal string // Type:Name
	Host      string // the client's address without port
}

// Rules are the settings of an authorizer.
type Rules struct {
	SuperUsers      map[string]bool // super.users: principals that may do everything
	AllowWithoutACL bool            // allow.everyone.if.no.acl.found
}

// Allows says whether s may do op on r. An ACL that denies wins over those that allow.
func (u *Rules) Allows(im *metadata.Image, s Subject, op kmsg.ACLOperation, r Resource) bool {
	if u.SuperUsers[s.Principal] {
		return true
	}
	allowed, denied := false, false
	for e := range matching(im, s.Principal, r) {
		if !concerns(e, s.Host, op) {
			continue
		}
		if e.PermissionType == int8(kmsg.ACLPermissionTypeDeny) {
			denied = true
			break
		}
		allowed = true
	}
	switch {
	case denied:
		return false
	case allowed:
		return true
	default:
		return u.AllowWithoutACL && !mentioned(im, r)
	}
}

// concerns says whether an entry of the right principal and resource is about op from host. To allow reading, writing,
// deleting or altering allows describing; to deny them does not deny it.
func concerns(e *metadata.AccessControlEntryRecord, host string, op kmsg.ACLOperation) bool {
	if e.Host != Wildcard && e.Host != host {
		return false
	}
	entry := kmsg.ACLOperation(e.Operation)
	if entry == kmsg.ACLOperationAll || entry == op {
		return true
	}
	if e.PermissionType != int8(kmsg.ACLPermissionTypeAllow) {
		return false
	}
	switch op {
	case kmsg.ACLOperationDescribe:
		return entry == kmsg.ACLOperationRead || entry == kmsg.ACLOperationWrite || entry == kmsg.ACLOperationDelete ||
			entry == kmsg.ACLOperationAlter
	case kmsg.ACLOperationDescribeConfigs:
		return entry == kmsg.ACLOperationAlterConfigs
	default:
		return false
	}
}

// patterns returns those that match r exactly, as the wildcard, and as what prefixes are looked for under.
func patterns(r Resource) (exact, wildcard, prefixed metadata.ACLPattern) {
	literal := metadata.ACLPattern{ResourceType: int8(r.Type), PatternType: int8(kmsg.ACLResourcePatternTypeLiteral), Name: r.Name}
	exact, wildcard, prefixed = literal, literal, literal
	wildcard.Name = Wildcard
	prefixed.PatternType = int8(kmsg.ACLResourcePatternTypePrefixed)
	return exact, wildcard, prefixed
}

// matching iterates over the ACLs of the principal, and of every user, whose pattern matches r.
func matching(im *metadata.Image, principal string, r Resource) iter.Seq[*metadata.AccessControlEntryRecord] {
	exact, wildcard, prefixed := patterns(r)
	return func(yield func(*metadata.AccessControlEntryRecord) bool) {
		for _, who := range []string{principal, AnyUser} {
			for _, p := range []metadata.ACLPattern{exact, wildcard} {
				for _, e := range im.ACLsOf(who, p) {
					if !yield(e) {
						return
					}
				}
			}
			for e := range im.PrefixACLsOf(who, prefixed) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// mentioned says whether an ACL of any principal matches r.
func mentioned(im *metadata.Image, r Resource) bool {
	exact, wildcard, prefixed := patterns(r)
	return im.HasACLs(exact) || im.HasACLs(wildcard) || im.HasPrefixACLs(prefixed)
}
