package config

import (
	"slices"
	"strings"
	"testing"
)

func TestAuthorizer(t *testing.T) {
	on := "authorizer.class.name=" + standardAuthorizer + "\n"
	for file, want := range map[string]*Authorizer{
		"":                        nil,
		"authorizer.class.name=":  nil,
		"super.users=User:a":      nil,
		on:                        {},
		on + "super.users=":       {},
		on + "super.users=User:a": {SuperUsers: []string{"User:a"}},
		on + "super.users= User:a ; ;User:CN=b,O=c:d": {SuperUsers: []string{"User:a", "User:CN=b,O=c:d"}},
		on + "allow.everyone.if.no.acl.found=true":    {AllowWithoutACL: true},
	} {
		b, err := Load(Sources{FileName: "f", File: []byte(file)})
		if err != nil {
			t.Errorf("%q: %v", file, err)
			continue
		}
		got := b.Authorizer
		if (got == nil) != (want == nil) || got != nil && (!slices.Equal(got.SuperUsers, want.SuperUsers) || got.AllowWithoutACL != want.AllowWithoutACL) {
			t.Errorf("%q: %+v, want %+v", file, got, want)
		}
		if len(b.Unused)+len(b.Unknown) > 0 {
			t.Errorf("%q: unused %v, unknown %v", file, b.Unused, b.Unknown)
		}
	}
	for file, want := range map[string]string{
		"authorizer.class.name=kafka.security.authorizer.AclAuthorizer": "there is no authorizer here but",
		"authorizer.class.name=x":                     "there is no authorizer here but",
		on + "super.users=a":                          "super.users=a (f): expected principals",
		on + "super.users=User:":                      "expected principals",
		on + "super.users=:a":                         "expected principals",
		on + "super.users=User:a,b;c":                 "but got c",
		on + "allow.everyone.if.no.acl.found=perhaps": "allow.everyone.if.no.acl.found",
	} {
		if problem := fails(Sources{FileName: "f", File: []byte(file)}, want); problem != "" {
			t.Errorf("%q: %s", strings.TrimSpace(file), problem)
		}
	}
}
