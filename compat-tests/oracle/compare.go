package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Difference is one place where an answer is not the recorded one.
type Difference struct {
	Scenario string
	Path     string // "3 Fetch v11: Topics[0].Partitions[0].ErrorCode"
	Want     any
	Got      any
}

func (d Difference) String() string {
	return fmt.Sprintf("%s | %s | want %s | got %s", d.Scenario, d.Path, show(d.Want), show(d.Got))
}

// Wording is true when both have a text and only its words differ: our sentences are our own.
func (d Difference) Wording() bool {
	want, ok1 := d.Want.(string)
	got, ok2 := d.Got.(string)
	last := d.Path[strings.LastIndex(d.Path, ".")+1:]
	return ok1 && ok2 && want != "" && got != "" && strings.HasSuffix(last, "ErrorMessage")
}

// absent stands for a step, field or element that is not there.
type absent struct{}

const showLimit = 400 // bytes of a value in a report

func show(v any) string {
	if s := jsonOf(v); len(s) > showLimit {
		return s[:showLimit] + "…"
	} else {
		return s
	}
}

func jsonOf(v any) string {
	if _, ok := v.(absent); ok {
		return "nothing"
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// Fold writes one line for differences that are the same but for versions: scenarios name theirs.
func Fold(found []Difference) []string {
	versionsOf := map[string][]string{}
	var lines []string
	for _, d := range found {
		scenario, version := d.Scenario, "-"
		if i := strings.LastIndex(scenario, "/v"); i >= 0 {
			scenario, version = scenario[:i], scenario[i+2:]
		}
		rest := fmt.Sprintf("%s | want %s | got %s", versionPattern.ReplaceAllString(d.Path, ""), show(d.Want), show(d.Got))
		key := scenario + "\x00" + rest
		if versionsOf[key] == nil {
			lines = append(lines, key)
		}
		versionsOf[key] = append(versionsOf[key], version)
	}
	for i, key := range lines {
		scenario, rest, _ := strings.Cut(key, "\x00")
		lines[i] = fmt.Sprintf("%s [%s] | %s", scenario, strings.Join(versionsOf[key], ","), rest)
	}
	return lines
}

var versionPattern = regexp.MustCompile(` v\d+`)

// Compare lists the differences of a scenario's transcript from the recorded one.
func Compare(scenario string, want, got []Step) []Difference {
	c := comparison{scenario: scenario}
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			c.add(fmt.Sprintf("%d %s", i+1, want[i].Request), want[i].Answer, absent{})
		case i >= len(want):
			c.add(fmt.Sprintf("%d %s", i+1, got[i].Request), absent{}, got[i].Answer)
		default:
			c.step(i, want[i], got[i])
		}
	}
	return c.found
}

type comparison struct {
	scenario string
	found    []Difference
}

func (c *comparison) add(path string, want, got any) {
	c.found = append(c.found, Difference{c.scenario, path, want, got})
}

func (c *comparison) step(i int, want, got Step) {
	path := fmt.Sprintf("%d %s", i+1, want.Request)
	if want.Request != got.Request || want.Conn != got.Conn {
		c.add(path, want.Request, got.Request)
		return
	}
	c.value(path+": ", want.Answer, got.Answer)
}

func (c *comparison) value(path string, want, got any) {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			c.fields(path, w, g)
			return
		}
	case []any:
		if g, ok := got.([]any); ok {
			c.elements(path, w, g)
			return
		}
	}
	if jsonOf(want) != jsonOf(got) {
		c.add(path, want, got)
	}
}

func (c *comparison) fields(path string, want, got map[string]any) {
	names := slices.Sorted(maps.Keys(want))
	for n := range got {
		if _, ok := want[n]; !ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		c.value(path+"."+n, fieldOf(want, n), fieldOf(got, n))
	}
}

func fieldOf(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return absent{}
}

// elements pairs structures by what identifies them, else by position.
func (c *comparison) elements(path string, want, got []any) {
	w, okW := byIdentity(want)
	g, okG := byIdentity(got)
	switch {
	case okW && okG:
		c.fields(path, w, g)
	case len(want) == len(got):
		for i := range want {
			c.value(fmt.Sprintf("%s[%d]", path, i), want[i], got[i])
		}
	default:
		c.add(path, want, got)
	}
}

func byIdentity(list []any) (map[string]any, bool) {
	out := map[string]any{}
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			return nil, false
		}
		out["{"+strings.Map(printable, identity(m))+"}"] = e
	}
	return out, len(out) == len(list) && len(list) > 0
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

func identity(m map[string]any) string {
	for _, f := range []string{"Topic", "TopicID", "Name", "ConfigName", "ResourceName", "Group", "MemberID", "Partition", "ApiKey"} {
		if v, ok := m[f]; ok {
			return fmt.Sprint(v)
		}
	}
	if _, ok := m["Magic"]; ok { // a record batch
		return fmt.Sprint(m["BaseOffset"])
	}
	return ""
}
