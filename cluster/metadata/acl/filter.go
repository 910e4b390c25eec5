package acl

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// Filter chooses ACLs (Kafka's AclBindingFilter). A nil string and the value ANY choose all.
type Filter struct {
	ResourceType kmsg.ACLResourceType
	ResourceName *string
	PatternType  kmsg.ACLResourcePatternType
	Principal    *string
	Host         *string
	Operation    kmsg.ACLOperation
	Permission   kmsg.ACLPermissionType
}

// Matches says whether the filter chooses e.
func (f Filter) Matches(e *metadata.AccessControlEntryRecord) bool {
	return f.matchesPattern(e) && is(f.Principal, e.Principal) && is(f.Host, e.Host) &&
		(f.Operation == kmsg.ACLOperationAny || int8(f.Operation) == e.Operation) &&
		(f.Permission == kmsg.ACLPermissionTypeAny || int8(f.Permission) == e.PermissionType)
}

func is(want *string, got string) bool { return want == nil || *want == got }

// matchesPattern is Kafka's ResourcePatternFilter.matches. MATCH chooses every pattern that has the name among its
// resources.
func (f Filter) matchesPattern(e *metadata.AccessControlEntryRecord) bool {
	if f.ResourceType != kmsg.ACLResourceTypeAny && int8(f.ResourceType) != e.ResourceType {
		return false
	}
	switch f.PatternType {
	case kmsg.ACLResourcePatternTypeAny:
		return is(f.ResourceName, e.ResourceName)
	case kmsg.ACLResourcePatternTypeMatch:
		return f.ResourceName == nil || matchesName(e, *f.ResourceName)
	default:
		return int8(f.PatternType) == e.PatternType && is(f.ResourceName, e.ResourceName)
	}
}

func matchesName(e *metadata.AccessControlEntryRecord, name string) bool {
	if e.PatternType == int8(kmsg.ACLResourcePatternTypePrefixed) {
		return strings.HasPrefix(name, e.ResourceName)
	}
	return e.ResourceName == name || e.ResourceName == Wildcard
}
