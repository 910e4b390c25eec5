package controller

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// creations are of one ACL, bent by each function.
func creations(bend ...func(*kmsg.CreateACLsRequestCreation)) *kmsg.CreateACLsRequest {
	req := kmsg.NewPtrCreateACLsRequest()
	for _, b := range bend {
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceTypeTopic, "t", kmsg.ACLResourcePatternTypeLiteral
		c.Principal, c.Host, c.Operation, c.PermissionType = "User:ann", "*", kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
		b(&c)
		req.Creations = append(req.Creations, c)
	}
	return req
}

// An ACL is made once, however often it is asked for; one that cannot be is refused, and keeps no other from being
// made. Two filters that choose the same ACL both tell it, and one record removes it.
func TestACLsAreMadeAndRemovedOnce(t *testing.T) {
	s := newStage()
	as := func(*kmsg.CreateACLsRequestCreation) {}
	made, resp := s.view().createACLs(creations(as, as,
		func(c *kmsg.CreateACLsRequestCreation) { c.ResourceName = "" },
		func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType = kmsg.ACLResourceTypeAny },
		func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType = kmsg.ACLResourceTypeCluster },
		func(c *kmsg.CreateACLsRequestCreation) { c.Principal = "" },
		func(c *kmsg.CreateACLsRequestCreation) { c.ResourcePatternType = kmsg.ACLResourcePatternTypeMatch },
		func(c *kmsg.CreateACLsRequestCreation) { c.Operation = kmsg.ACLOperationAny },
		func(c *kmsg.CreateACLsRequestCreation) { c.PermissionType = kmsg.ACLPermissionTypeAny },
		func(c *kmsg.CreateACLsRequestCreation) { c.Principal = "ann" },
		func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType = 99 },
		func(c *kmsg.CreateACLsRequestCreation) { c.Operation = 99 },
		func(c *kmsg.CreateACLsRequestCreation) { c.ResourcePatternType = 99 },
		func(c *kmsg.CreateACLsRequestCreation) { c.PermissionType = 99 },
		func(c *kmsg.CreateACLsRequestCreation) { c.Host = "" },
		func(c *kmsg.CreateACLsRequestCreation) { c.Operation, c.ResourceName = lastOperation, "other" },
		func(c *kmsg.CreateACLsRequestCreation) { c.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed },
	))
	for i, result := range resp.Results {
		want := int16(42)
		if i < 2 || i >= len(resp.Results)-2 {
			want = 0
		}
		if result.ErrorCode != want || (*result.ErrorMessage == "") != (want == 0) {
			t.Errorf("creation %d: %+v", i, result)
		}
	}
	if len(made) != 3 {
		t.Fatalf("%d records", len(made))
	}
	s.apply(made)
	if again, _ := s.view().createACLs(creations(as)); len(again) != 0 {
		t.Errorf("%d records for an ACL that is there", len(again))
	}
	req := kmsg.NewPtrDeleteACLsRequest()
	for _, name := range []string{"t", "t", "u"} {
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourceName, f.ResourcePatternType = kmsg.ACLResourceTypeTopic, &name, kmsg.ACLResourcePatternTypeLiteral
		f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		req.Filters = append(req.Filters, f)
	}
	gone, deleted := s.view().deleteACLs(req)
	if len(gone) != 1 || len(deleted.Results[0].MatchingACLs) != 1 || len(deleted.Results[1].MatchingACLs) != 1 || len(deleted.Results[2].MatchingACLs) != 0 {
		t.Errorf("%d records, %+v", len(gone), deleted)
	}
	s.apply(gone)
	if n := s.image.ACLCount(); n != 2 {
		t.Errorf("%d ACLs are left", n)
	}
	if e := made[1].(*metadata.AccessControlEntryRecord); s.image.ACL(e.ID) == nil {
		t.Error("another ACL than the one that was chosen is gone")
	}
}
