package controller

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/metadata/acl"
)

// The last of Kafka's AclOperation and ResourceType.
const (
	lastOperation    = kmsg.ACLOperation(15) // TWO_PHASE_COMMIT
	lastResourceType = kmsg.ACLResourceTypeUser
)

// createACLs is AclControlManager.createAcls. An ACL that is there already is created with success and no record.
func (v *view) createACLs(req *kmsg.CreateACLsRequest) ([]metadata.Record, *kmsg.CreateACLsResponse) {
	resp := req.ResponseKind().(*kmsg.CreateACLsResponse)
	var records []metadata.Record
	made := map[metadata.AccessControlEntryRecord]bool{}
	for _, c := range req.Creations {
		result := kmsg.NewCreateACLsResponseResult()
		f := refuseACL(c)
		result.ErrorCode, result.ErrorMessage = f.fields()
		if f == nil {
			result.ErrorMessage = kmsg.StringPtr("") // as Kafka
			e := aclOf(c)
			if !made[e] && !v.hasACL(e) {
				made[e] = true
				e.ID = v.newID()
				records = append(records, &e)
			}
		}
		resp.Results = append(resp.Results, result)
	}
	if f := tooLarge(records); f != nil {
		for i := range resp.Results {
			resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = f.fields()
		}
		return nil, resp
	}
	return records, resp
}

// aclOf is the record of a creation, without its id.
func aclOf(c kmsg.CreateACLsRequestCreation) metadata.AccessControlEntryRecord {
	return metadata.AccessControlEntryRecord{
		ResourceType: int8(c.ResourceType), ResourceName: c.ResourceName, PatternType: int8(c.ResourcePatternType),
		Principal: c.Principal, Host: c.Host, Operation: int8(c.Operation), PermissionType: int8(c.PermissionType),
	}
}

func (v *view) hasACL(e metadata.AccessControlEntryRecord) bool {
	for _, old := range v.image.ACLsOf(e.Principal, e.Pattern()) {
		e.ID = old.ID
		if *old == e {
			return true
		}
	}
	return false
}

// refuseACL says why an ACL cannot be created (ControllerApis and AclControlManager.validateNewAcl).
func refuseACL(c kmsg.CreateACLsRequestCreation) *fault {
	switch {
	case c.ResourceType == kmsg.ACLResourceTypeCluster && c.ResourceName != acl.ClusterName:
		return refuse(kerr.InvalidRequest, "The only valid name for the CLUSTER resource is %s", acl.ClusterName)
	case c.ResourceName == "":
		return refuse(kerr.InvalidRequest, "Invalid empty resource name")
	case c.ResourceType <= kmsg.ACLResourceTypeAny || c.ResourceType > lastResourceType:
		return refuse(kerr.InvalidRequest, "Invalid resourceType %v", c.ResourceType)
	case c.ResourcePatternType != kmsg.ACLResourcePatternTypeLiteral && c.ResourcePatternType != kmsg.ACLResourcePatternTypePrefixed:
		return refuse(kerr.InvalidRequest, "Invalid patternType %v", c.ResourcePatternType)
	case c.Operation <= kmsg.ACLOperationAny || c.Operation > lastOperation:
		return refuse(kerr.InvalidRequest, "Invalid operation %v", c.Operation)
	case c.PermissionType != kmsg.ACLPermissionTypeDeny && c.PermissionType != kmsg.ACLPermissionTypeAllow:
		return refuse(kerr.InvalidRequest, "Invalid permissionType %v", c.PermissionType)
	case c.Host == "":
		return refuse(kerr.InvalidRequest, "Host pattern cannot be null or empty")
	case !strings.Contains(c.Principal, ":"):
		return refuse(kerr.InvalidRequest, "Could not parse principal from `%s` (no colon is present separating the principal type from the principal name)", c.Principal)
	}
	return nil
}

// deleteACLs is AclControlManager.deleteAcls: each filter takes what it chooses. An ACL that two filters choose is
// removed once, and told by both.
func (v *view) deleteACLs(req *kmsg.DeleteACLsRequest) ([]metadata.Record, *kmsg.DeleteACLsResponse) {
	resp := req.ResponseKind().(*kmsg.DeleteACLsResponse)
	var records []metadata.Record
	gone := map[metadata.UUID]bool{}
	for _, f := range req.Filters {
		result := kmsg.NewDeleteACLsResponseResult()
		filter := acl.Filter{
			ResourceType: f.ResourceType, ResourceName: f.ResourceName, PatternType: f.ResourcePatternType,
			Principal: f.Principal, Host: f.Host, Operation: f.Operation, Permission: f.PermissionType,
		}
		for e := range v.image.ACLs() {
			if !filter.Matches(e) {
				continue
			}
			result.MatchingACLs = append(result.MatchingACLs, matchingACL(e))
			if !gone[e.ID] {
				gone[e.ID] = true
				records = append(records, &metadata.RemoveAccessControlEntryRecord{ID: e.ID})
			}
		}
		resp.Results = append(resp.Results, result)
	}
	if f := tooLarge(records); f != nil {
		for i := range resp.Results {
			resp.Results[i].MatchingACLs = nil
			resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = f.fields()
		}
		return nil, resp
	}
	return records, resp
}

func matchingACL(e *metadata.AccessControlEntryRecord) kmsg.DeleteACLsResponseResultMatchingACL {
	m := kmsg.NewDeleteACLsResponseResultMatchingACL()
	m.ResourceType, m.ResourceName = kmsg.ACLResourceType(e.ResourceType), e.ResourceName
	m.ResourcePatternType, m.Principal, m.Host = kmsg.ACLResourcePatternType(e.PatternType), e.Principal, e.Host
	m.Operation, m.PermissionType = kmsg.ACLOperation(e.Operation), kmsg.ACLPermissionType(e.PermissionType)
	return m
}
