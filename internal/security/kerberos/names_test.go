package kerberos

import (
	"os"
	"strings"
	"testing"
)

// stricter are rules that Kafka takes at the start, to fail with every name, or that need what package regexp has
// not. They are refused at the start.
var stricter = map[string]bool{
	"RULE:[1:$2]": true, "RULE:[1:$]": true, "RULE:[1:$1]s/a/$2/": true, `RULE:[1:$1]s/a/\/`: true, "RULE:[1:$1](a(?=n).*)": true,
}

// Names are those that Kafka makes.
func TestShortNames(t *testing.T) {
	text, err := os.ReadFile("testdata/short-names.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 {
			continue
		}
		if got := shortName(f[0], f[1]); got != f[2] && !(stricter[f[0]] && got == "!!") && !(f[2] == "" && got == "!") {
			t.Errorf("%s, %s: %q, Kafka %q", f[0], f[1], got, f[2])
		}
	}
}

func shortName(rules, principal string) string {
	var list []string
	if rules != "" {
		list = strings.Split(rules, ",")
	}
	r, err := ParseRules(list, "REALM.COM")
	if err != nil {
		return "!!"
	}
	p, err := ParsePrincipal(principal, "")
	if err != nil {
		return "!"
	}
	name, err := r.ShortName(p)
	if err != nil {
		return "!"
	}
	return name
}

func TestPrincipals(t *testing.T) {
	for text, want := range map[string]string{
		"a@R": "a@R", "a/b@R": "a/b@R", "a": "a@D", "a/b": "a/b@D", "a/b/c@R": "a/b/c@R",
		"": "!", "@R": "!", "a@": "!", "a/@R": "!", "/a@R": "!", "a@R@S": "!", `a\@b@R`: "!", "a\x00b@R": "!", strings.Repeat("a", maxPrincipalBytes) + "@R": "!",
	} {
		p, err := ParsePrincipal(text, "D")
		got := p.String()
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	rules, err := ParseRules(nil, "R")
	if err != nil {
		t.Fatal(err)
	}
	if name, err := rules.ShortName(Principal{[]string{"a", "b", "c"}, "R"}); err == nil {
		t.Errorf("a name of three components is %q", name)
	}
}

// Rules are bounded in number and length.
func TestRulesAreBounded(t *testing.T) {
	if _, err := ParseRules(make([]string, maxRules+1), "R"); err == nil || !strings.Contains(err.Error(), "more than 256 rules") {
		t.Error(err)
	}
	if _, err := ParseRules([]string{"RULE:[1:" + strings.Repeat("a", maxRuleBytes) + "]"}, "R"); err == nil || !strings.Contains(err.Error(), "longer than 4096 bytes") {
		t.Error(err)
	}
}

func FuzzRules(f *testing.F) {
	for _, rule := range []string{"DEFAULT", `RULE:[2:$1;$2](^.*;admin$)s/;admin$///L`, `RULE:[1:$1@$0](.*@R)s/(.)(?<x>.)/${x}$1\$/g/U`, "RULE:[1:$1]()"} {
		f.Add(rule, "ann/admin@R")
	}
	f.Fuzz(func(t *testing.T, rule, principal string) {
		rules, err := ParseRules(strings.Split(rule, ","), "R")
		if err != nil {
			return
		}
		p, err := ParsePrincipal(principal, "R")
		if err != nil {
			return
		}
		if name, err := rules.ShortName(p); err == nil && (name == "" || strings.ContainsAny(name, "/@")) {
			t.Errorf("%q of %q", name, principal)
		}
	})
}
