package acl

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// FuzzNames holds the index against the rules that read every ACL, for names of any bytes; and a filter by name against
// both.
func FuzzNames(f *testing.F) {
	f.Add("a", "ab", "abc", "User:ann", "h", byte(3))
	f.Add("", "*", "\xff\xfe", "User:*", "*", byte(7))
	f.Add("\x00", "\x00\x00", "\x00\x00a", ":", "", byte(12))
	f.Fuzz(func(t *testing.T, one, two, asked, principal, host string, bits byte) {
		w := &world{im: &metadata.Image{}}
		for i, name := range []string{one, two, asked, one + two} {
			e := metadata.AccessControlEntryRecord{
				ResourceType: 2, ResourceName: name, PatternType: 3 + int8(bits>>i&1), Principal: principal, Host: Wildcard,
				Operation: int8(kmsg.ACLOperationRead), PermissionType: int8(kmsg.ACLPermissionTypeAllow) - int8(bits>>(i+4)&1),
			}
			if i%2 == 1 {
				e.Host = host
			}
			w.add(t, e)
		}
		u := Rules{AllowWithoutACL: bits%2 == 0}
		for range 2 {
			for _, name := range []string{one, two, asked, asked + one, ""} {
				s, r := Subject{principal, host}, Resource{kmsg.ACLResourceTypeTopic, name}
				if got, want := u.Allows(w.im, s, kmsg.ACLOperationRead, r), w.allows(u, s, kmsg.ACLOperationRead, r); got != want {
					t.Fatalf("%q: %v, want %v under\n%s", name, got, want, w)
				}
				u.AllowsAny(w.im, s, kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic)
				filter := Filter{ResourceType: kmsg.ACLResourceTypeAny, ResourceName: &name, PatternType: kmsg.ACLResourcePatternTypeMatch, Operation: kmsg.ACLOperationAny, Permission: kmsg.ACLPermissionTypeAny}
				for e := range w.im.ACLs() {
					if filter.Matches(e) != matchesName(e, name) {
						t.Fatalf("%v is not as %q", *e, name)
					}
				}
			}
			w.remove(t, int(bits)%len(w.acls))
		}
	})
}
