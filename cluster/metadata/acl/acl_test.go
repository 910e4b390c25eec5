package acl

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// world is the ACLs as a list, which the plain rules below read from end to end, and as an image.
type world struct {
	acls []*metadata.AccessControlEntryRecord
	im   *metadata.Image
	n    byte
}

func (w *world) apply(t *testing.T, r metadata.Record) {
	t.Helper()
	next, _, err := w.im.Apply([]metadata.Record{r}, w.im.Offset()+1, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.im = next
}

func (w *world) add(t *testing.T, e metadata.AccessControlEntryRecord) {
	t.Helper()
	w.n++
	e.ID = metadata.UUID{15: w.n}
	w.acls = append(w.acls, &e)
	w.apply(t, &e)
}

func (w *world) remove(t *testing.T, i int) {
	t.Helper()
	w.apply(t, &metadata.RemoveAccessControlEntryRecord{ID: w.acls[i].ID})
	w.acls = slices.Delete(w.acls, i, i+1)
}

// allows is the rule without any index: each ACL is looked at.
func (w *world) allows(u Rules, s Subject, op kmsg.ACLOperation, r Resource) bool {
	if u.SuperUsers[s.Principal] {
		return true
	}
	found, allowed := false, false
	for _, e := range w.acls {
		if e.ResourceType != int8(r.Type) || !matchesName(e, r.Name) {
			continue
		}
		found = true
		if e.Principal != s.Principal && e.Principal != AnyUser || !concerns(e, s.Host, op) {
			continue
		}
		if e.PermissionType == int8(kmsg.ACLPermissionTypeDeny) {
			return false
		}
		allowed = true
	}
	return allowed || !found && u.AllowWithoutACL
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomACL(r *rand.Rand) metadata.AccessControlEntryRecord {
	return metadata.AccessControlEntryRecord{
		ResourceType: int8(pick(r, kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup)),
		ResourceName: pick(r, "", "a", "ab", "abc", "abd", "b", "ba", "*"),
		PatternType:  int8(pick(r, kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed)),
		Principal:    pick(r, "User:ann", "User:bob", AnyUser),
		Host:         pick(r, Wildcard, "10.0.0.1"),
		Operation: int8(pick(r, kmsg.ACLOperationAll, kmsg.ACLOperationRead, kmsg.ACLOperationDescribe,
			kmsg.ACLOperationAlterConfigs, kmsg.ACLOperationDescribeConfigs)),
		PermissionType: int8(pick(r, kmsg.ACLPermissionTypeAllow, kmsg.ACLPermissionTypeAllow, kmsg.ACLPermissionTypeDeny)),
	}
}

// TestModel holds the index against the rules that read every ACL, while ACLs come and go.
func TestModel(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := &world{im: &metadata.Image{}}
		u := Rules{SuperUsers: map[string]bool{"User:root": true}, AllowWithoutACL: r.IntN(2) == 0}
		for range 40 {
			if len(w.acls) > 0 && r.IntN(3) == 0 {
				w.remove(t, r.IntN(len(w.acls)))
			} else {
				w.add(t, randomACL(r))
			}
			for range 20 {
				s := Subject{pick(r, "User:ann", "User:bob", "User:root", "User:eve"), pick(r, "10.0.0.1", "10.0.0.2")}
				op := pick(r, kmsg.ACLOperationRead, kmsg.ACLOperationDescribe, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribeConfigs)
				what := Resource{pick(r, kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup), pick(r, "a", "ab", "abcd", "abx", "b", "c")}
				if got, want := u.Allows(w.im, s, op, what), w.allows(u, s, op, what); got != want {
					t.Fatalf("seed %d: %v may %v %v: %v, want %v under\n%s", seed, s, op, what, got, want, w)
				}
			}
		}
	}
}

func (w *world) String() string {
	var b strings.Builder
	for _, e := range w.acls {
		fmt.Fprintln(&b, *e)
	}
	return b.String()
}

// TestAllowsAny has the cases of KIP-679: what is allowed counts as far as nothing covers it.
func TestAllowsAny(t *testing.T) {
	type entry struct {
		deny, prefixed  bool
		name, principal string
	}
	for name, c := range map[string]struct {
		entries []entry
		want    bool
	}{
		"nothing":                      {nil, false},
		"literal":                      {[]entry{{name: "a"}}, true},
		"literal denied":               {[]entry{{name: "a"}, {name: "a", deny: true}}, false},
		"literal under denied prefix":  {[]entry{{name: "abc"}, {name: "ab", deny: true, prefixed: true}}, false},
		"prefix under denied prefix":   {[]entry{{name: "abc", prefixed: true}, {name: "a", deny: true, prefixed: true}}, false},
		"prefix above denied prefix":   {[]entry{{name: "a", prefixed: true}, {name: "ab", deny: true, prefixed: true}}, true},
		"prefix beside denied literal": {[]entry{{name: "a", prefixed: true}, {name: "a", deny: true}}, true},
		"wildcard":                     {[]entry{{name: "*"}, {name: "a", deny: true}}, true},
		"wildcard denied":              {[]entry{{name: "a"}, {name: "*", deny: true}}, false},
		"somebody else's":              {[]entry{{name: "a", principal: "User:bob"}}, false},
		"everybody's":                  {[]entry{{name: "a", principal: AnyUser}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{im: &metadata.Image{}}
			for _, e := range c.entries {
				r := metadata.AccessControlEntryRecord{
					ResourceType: int8(kmsg.ACLResourceTypeTopic), ResourceName: e.name, PatternType: int8(kmsg.ACLResourcePatternTypeLiteral),
					Principal: "User:ann", Host: Wildcard, Operation: int8(kmsg.ACLOperationWrite), PermissionType: int8(kmsg.ACLPermissionTypeAllow),
				}
				if e.deny {
					r.PermissionType = int8(kmsg.ACLPermissionTypeDeny)
				}
				if e.prefixed {
					r.PatternType = int8(kmsg.ACLResourcePatternTypePrefixed)
				}
				if e.principal != "" {
					r.Principal = e.principal
				}
				w.add(t, r)
			}
			got := new(Rules).AllowsAny(w.im, Subject{"User:ann", "h"}, kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTopic)
			if got != c.want {
				t.Fatalf("got %v", got)
			}
		})
	}
}

func BenchmarkAllows(b *testing.B) {
	records := make([]metadata.Record, 10_000)
	for i := range records {
		records[i] = &metadata.AccessControlEntryRecord{
			ID: metadata.UUID{0: byte(i >> 8), 1: byte(i)}, ResourceType: int8(kmsg.ACLResourceTypeTopic),
			ResourceName: fmt.Sprintf("topic-%d", i), PatternType: int8(pick(rand.New(rand.NewPCG(uint64(i), 1)), kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed)),
			Principal: "User:ann", Host: Wildcard, Operation: int8(kmsg.ACLOperationWrite), PermissionType: int8(kmsg.ACLPermissionTypeAllow),
		}
	}
	im, _, err := new(metadata.Image).Apply(records, 1, 1)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		new(Rules).Allows(im, Subject{"User:ann", "h"}, kmsg.ACLOperationWrite, Resource{kmsg.ACLResourceTypeTopic, "topic-7777"})
	}
}
