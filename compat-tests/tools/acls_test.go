package tools

import "testing"

const aclCommand = "org.apache.kafka.tools.AclCommand"

// TestACLs makes, lists and removes ACLs with kafka-acls.
func TestACLs(t *testing.T) {
	t.Parallel()
	k := newBenchWith(t, map[string]string{
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "allow.everyone.if.no.acl.found": "true",
	})
	acls := func(args ...string) string {
		return k.run("", aclCommand, append([]string{"--bootstrap-server", "{b}"}, args...)...)
	}
	k.want(acls("--add", "--allow-principal", "User:ann", "--allow-host", "10.0.0.1", "--consumer", "--topic", "t", "--group", "g"), "name=t, patternType=LITERAL", "principal=User:ann", "operation=READ")
	k.want(acls("--add", "--deny-principal", "User:bob", "--operation", "Write", "--topic", "ab", "--resource-pattern-type", "prefixed"), "patternType=PREFIXED", "permissionType=DENY")
	k.want(acls("--list", "--topic", "abc", "--resource-pattern-type", "match"), "name=ab, patternType=PREFIXED", "principal=User:bob")
	k.want(acls("--list", "--principal", "User:ann"), "resourceType=GROUP, name=g", "host=10.0.0.1")
	acls("--remove", "--force", "--topic", "ab", "--resource-pattern-type", "prefixed")
	if left := acls("--list"); line(left, "User:bob") != "" {
		t.Errorf("an ACL that was removed is listed:\n%s", left)
	}
}
