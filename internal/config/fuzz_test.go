package config

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// propertyLine writes a property so that Java's format, of which it escapes what means something, reads it as it is.
func propertyLine(name, value string) string {
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`, " ", `\ `, ":", `\:`, "=", `\=`, "#", `\#`, "!", `\!`)
	return escape.Replace(name) + "=" + escape.Replace(value) + "\n"
}

// FuzzProperties: properties that were read and are written again are read the same.
func FuzzProperties(f *testing.F) {
	f.Add([]byte("listeners=PLAINTEXT://:1\nnode.id = 3\n# x\n! y"))
	f.Add([]byte("a\\\n  =b\nlog.dirs=\\u0041\\t\nsasl.jaas.config=a.B required x=\"y;\" ;"))
	f.Add([]byte("a:b\\:c\\=d"))
	f.Fuzz(func(t *testing.T, file []byte) {
		first, err := Sources{FileName: "f", File: file}.parseFile()
		if err != nil {
			return
		}
		var again []byte
		for _, a := range first {
			for _, r := range propertyLine(a.Name, a.Value) {
				if r > 0xff || r == utf8.RuneError {
					return // the file is Latin 1
				}
				again = append(again, byte(r))
			}
		}
		second, err := Sources{FileName: "f", File: again}.parseFile()
		if err != nil || !slices.Equal(first, second) {
			t.Errorf("%q is %v; %q is %v, %v", file, first, again, second, err)
		}
	})
}

// FuzzSuperUsers: what was read of super.users and is written again is read the same, and each is a principal with type
// and name.
func FuzzSuperUsers(f *testing.F) {
	f.Add("User:admin; User:ops")
	f.Add("User:CN=a,O=b;;:x")
	f.Fuzz(func(t *testing.T, text string) {
		load := func(text string) []string {
			b, err := Load(Sources{Flags: []Assignment{{"--set", authorizerClass, standardAuthorizer}, {"--set", "super.users", text}}})
			if err != nil {
				return nil
			}
			return b.Authorizer.SuperUsers
		}
		users := load(text)
		for _, u := range users {
			if kind, name, ok := strings.Cut(u, ":"); !ok || kind == "" || name == "" {
				t.Errorf("%q has the super user %q", text, u)
			}
		}
		if got := load(strings.Join(users, ";")); len(users) > 0 && !slices.Equal(got, users) {
			t.Errorf("%q is %q; written again %q", text, users, got)
		}
	})
}
