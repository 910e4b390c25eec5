package acl

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// anyName stands for a resource that nobody has named. Super users, and everyone where nothing is said about any
// resource, may act on it.
const anyName = "hardcode"

// AllowsAny says whether s may do op on at least one resource of a type, whether or not there is one (Kafka's
// Authorizer.authorizeByResourceType).
func (u *Rules) AllowsAny(im *metadata.Image, s Subject, op kmsg.ACLOperation, t kmsg.ACLResourceType) bool {
	if u.Allows(im, s, op, Resource{t, anyName}) {
		return true
	}
	p := permits{allowed: names{}, denied: names{}}
	for _, who := range []string{s.Principal, AnyUser} {
		for e := range im.ACLsOfPrincipal(who, int8(t)) {
			if (e.Host == Wildcard || e.Host == s.Host) &&
				(e.Operation == int8(op) || e.Operation == int8(kmsg.ACLOperationAll)) {
				p.add(e)
			}
		}
	}
	return p.any()
}

type names map[metadata.ACLPattern]bool

// permits are the patterns that are allowed and denied to a subject for one operation.
type permits struct{ allowed, denied names }

func (p permits) add(e *metadata.AccessControlEntryRecord) {
	if e.PermissionType == int8(kmsg.ACLPermissionTypeDeny) {
		p.denied[e.Pattern()] = true
	} else {
		p.allowed[e.Pattern()] = true
	}
}

// any says whether something that is allowed is not wholly denied.
func (p permits) any() bool {
	for pattern := range p.denied {
		if pattern.PatternType == int8(kmsg.ACLResourcePatternTypeLiteral) && pattern.Name == Wildcard {
			return false
		}
	}
	for pattern := range p.allowed {
		literal := pattern.PatternType == int8(kmsg.ACLResourcePatternTypeLiteral)
		if literal && pattern.Name == Wildcard || !p.covered(pattern) {
			return true
		}
	}
	return false
}

// covered says whether a denied pattern has in it all that an allowed one has.
func (p permits) covered(allowed metadata.ACLPattern) bool {
	if allowed.PatternType == int8(kmsg.ACLResourcePatternTypeLiteral) && p.denied[allowed] {
		return true
	}
	prefix := allowed
	prefix.PatternType = int8(kmsg.ACLResourcePatternTypePrefixed)
	for n := 1; n <= len(allowed.Name); n++ {
		prefix.Name = allowed.Name[:n]
		if p.denied[prefix] {
			return true
		}
	}
	return false
}
