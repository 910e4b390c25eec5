package certs

import (
	"fmt"
	"regexp"
	"strings"
)

// Mapping is a list of rules that make the name of a principal of the name in a certificate
// (ssl.principal.mapping.rules, Kafka's SslPrincipalMapper). The first rule that matches decides.
type Mapping []rule

type rule struct {
	pattern     *regexp.Regexp // nil: DEFAULT, the name as it is
	replacement string
	letters     byte // L or U: the case of the result; 0: as it is
}

// rulesText matches one rule and what separates it from the next.
var rulesText = regexp.MustCompile(`^\s*(?:(DEFAULT)|RULE:((?:[^/\\]|\\.)*)/((?:[^/\\]|\\.)*)/([LU]?))\s*(?:,|$)`)

// ParseMapping reads rules of the form DEFAULT or RULE:pattern/replacement/[LU], separated by commas. Patterns are
// those of package regexp: a back-reference or a look-around is an error.
func ParseMapping(text string) (Mapping, error) {
	var out Mapping
	for rest := strings.TrimSpace(text); rest != ""; {
		m := rulesText.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("invalid rule %q: not DEFAULT or RULE:pattern/replacement/[LU]", rest)
		}
		rest = strings.TrimSpace(rest[len(m[0]):])
		if m[1] != "" {
			out = append(out, rule{})
			continue
		}
		pattern, err := regexp.Compile(`^(?:` + strings.ReplaceAll(m[2], `\/`, `/`) + `)$`)
		if err != nil {
			return nil, fmt.Errorf("invalid rule %q: %w", m[0], err)
		}
		r := rule{pattern: pattern, replacement: template(strings.ReplaceAll(m[3], `\/`, `/`))}
		if m[4] != "" {
			r.letters = m[4][0]
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		out = Mapping{{}}
	}
	return out, nil
}

var reference = regexp.MustCompile(`\$(\d)`)

// template writes $1 as ${1}, so that letters after it are not taken for a part of the name.
func template(s string) string { return reference.ReplaceAllString(s, "$${$1}") }

// Name returns the principal's name for the name in a certificate; false when no rule matches.
func (m Mapping) Name(dn string) (string, bool) {
	for _, r := range m {
		if r.pattern == nil {
			return dn, true
		}
		at := r.pattern.FindStringSubmatchIndex(dn)
		if at == nil {
			continue
		}
		name := string(r.pattern.ExpandString(nil, r.replacement, dn, at))
		switch r.letters {
		case 'L':
			name = strings.ToLower(name)
		case 'U':
			name = strings.ToUpper(name)
		}
		return name, true
	}
	return "", false
}
