package kerberos

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of rules.
const (
	maxRules     = 256
	maxRuleBytes = 4096
)

// Rules make the short name of a principal, which is the name of the user (sasl.kerberos.principal.to.local.rules,
// Kafka's KerberosShortNamer). The first rule that applies decides.
type Rules struct {
	defaultRealm string
	rules        []rule
}

// rule is RULE:[components:format](match)s/from/to/g/L, or DEFAULT.
type rule struct {
	text       string
	isDefault  bool
	components int
	format     []piece
	match      *regexp.Regexp // of the whole; nil: anything
	from       *regexp.Regexp // nil: no substitution
	to         []piece
	repeat     bool
	letters    string // L or U: the case of the result
}

// piece is a literal, after which comes the part of that number; -1: none.
type piece struct {
	literal string
	part    int
}

var ruleText = regexp.MustCompile(`^(?:(DEFAULT)|RULE:\[(\d*):([^\]]*)\](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?/?([LU])?)$`)

// ParseRules reads Kafka's rules. Patterns are those of package regexp: a back-reference or a look-around is an
// error.
func ParseRules(texts []string, defaultRealm string) (*Rules, error) {
	if len(texts) > maxRules {
		return nil, fmt.Errorf("there are more than %d rules", maxRules)
	}
	out := &Rules{defaultRealm: defaultRealm}
	for _, text := range texts {
		r, err := parseRule(text)
		if err != nil {
			return nil, fmt.Errorf("invalid rule %.128q: %w", text, err)
		}
		out.rules = append(out.rules, r)
	}
	if len(out.rules) == 0 {
		out.rules = []rule{{text: "DEFAULT", isDefault: true}}
	}
	return out, nil
}

func parseRule(text string) (r rule, err error) {
	if len(text) > maxRuleBytes {
		return r, fmt.Errorf("longer than %d bytes", maxRuleBytes)
	}
	m := ruleText.FindStringSubmatch(text)
	if m == nil {
		return r, errors.New("not DEFAULT or RULE:[n:format](pattern)s/pattern/replacement/g/L")
	}
	r = rule{text: text, isDefault: m[1] != "", repeat: m[9] != "", letters: m[10]}
	if r.isDefault {
		return r, nil
	}
	components, err := strconv.ParseInt(m[2], 10, 32)
	if err != nil {
		return r, errors.New("no number of components")
	}
	r.components = int(components)
	if r.format, err = parseFormat(m[3], r.components); err != nil {
		return r, err
	}
	if m[4] != "" {
		if r.match, err = regexp.Compile(`^(?:` + m[5] + `)$`); err != nil {
			return r, err
		}
	}
	if m[6] != "" {
		if r.from, err = regexp.Compile(m[7]); err == nil {
			r.to, err = parseReplacement(m[8], r.from)
		}
	}
	return r, err
}

// parseFormat reads the text that $0, the realm, and $1, $2, the components, are put into.
func parseFormat(text string, components int) ([]piece, error) {
	var out []piece
	for text != "" {
		literal, rest, has := strings.Cut(text, "$")
		if !has {
			return append(out, piece{literal, -1}), nil
		}
		digits := leadingDigits(rest)
		n, err := strconv.Atoi(digits)
		if err != nil || n > components {
			return nil, fmt.Errorf("$%s is no component", digits)
		}
		out, text = append(out, piece{literal, n}), rest[len(digits):]
	}
	return out, nil
}

func leadingDigits(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
}

// parseReplacement reads a replacement as Java's Matcher does: $1 and ${name} are groups, a backslash makes the next
// character literal.
func parseReplacement(text string, of *regexp.Regexp) ([]piece, error) {
	var out []piece
	literal := ""
	for text != "" {
		c := text[0]
		text = text[1:]
		switch {
		case c == '\\' && text == "":
			return nil, errors.New("the replacement ends in a backslash")
		case c == '\\':
			literal += text[:1]
			text = text[1:]
		case c == '$':
			group, length := groupOf(text, of)
			if group < 0 {
				return nil, errors.New("the replacement names a group that the pattern does not have")
			}
			out = append(out, piece{literal, group})
			literal, text = "", text[length:]
		default:
			literal += string([]byte{c})
		}
	}
	return append(out, piece{literal, -1}), nil
}

// groupOf reads the name or number of a group; -1: there is none. A number takes as many digits as there are groups
// for.
func groupOf(text string, of *regexp.Regexp) (group, length int) {
	if rest, ok := strings.CutPrefix(text, "{"); ok {
		name, _, ended := strings.Cut(rest, "}")
		if !ended {
			return -1, 0
		}
		return of.SubexpIndex(name), len(name) + len("{}")
	}
	digits := leadingDigits(text)
	if digits == "" {
		return -1, 0
	}
	group, length = int(digits[0]-'0'), 1
	if group > of.NumSubexp() {
		return -1, 0
	}
	for ; length < len(digits); length++ {
		next := 10*group + int(digits[length]-'0')
		if next > of.NumSubexp() {
			break
		}
		group = next
	}
	return group, length
}

// ShortName is the name of the user that a principal is.
func (r *Rules) ShortName(p Principal) (string, error) {
	if len(p.Components) > 2 {
		return "", fmt.Errorf("%q has more than two components", p.String())
	}
	params := append([]string{p.Realm}, p.Components...)
	for i := range r.rules {
		name, applies, err := r.apply(&r.rules[i], params)
		if err != nil || applies {
			return name, err
		}
	}
	return "", fmt.Errorf("no rule of sasl.kerberos.principal.to.local.rules is for %q", p.String())
}

func (r *Rules) apply(by *rule, params []string) (name string, applies bool, err error) {
	switch {
	case by.isDefault && params[0] == r.defaultRealm:
		name = params[1]
	case by.isDefault || by.components != len(params)-1:
		return "", false, nil
	default:
		base := expand(by.format, params)
		if by.match != nil && !by.match.MatchString(base) {
			return "", false, nil
		}
		name = by.substitute(base)
	}
	if name == "" || strings.ContainsAny(name, "/@") {
		return "", false, fmt.Errorf("%.128q after the rule %.128q is no simple name", name, by.text)
	}
	switch by.letters {
	case "L":
		name = strings.ToLower(name)
	case "U":
		name = strings.ToUpper(name)
	}
	return name, true, nil
}

func expand(pieces []piece, parts []string) string {
	var out strings.Builder
	for _, p := range pieces {
		out.WriteString(p.literal)
		if p.part >= 0 {
			out.WriteString(parts[p.part])
		}
	}
	return out.String()
}

// substitute replaces the first match, or all.
func (by *rule) substitute(base string) string {
	if by.from == nil {
		return base
	}
	most := 1
	if by.repeat {
		most = -1
	}
	var out strings.Builder
	done := 0
	for _, at := range by.from.FindAllStringSubmatchIndex(base, most) {
		groups := make([]string, len(at)/2)
		for i := range groups {
			if at[2*i] >= 0 {
				groups[i] = base[at[2*i]:at[2*i+1]]
			}
		}
		out.WriteString(base[done:at[0]])
		out.WriteString(expand(by.to, groups))
		done = at[1]
	}
	return out.String() + base[done:]
}
