package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// rule is what a value must satisfy beyond its type, read from the "allowed" column of the tables.
type rule struct {
	text     string // the column
	kind     ruleKind
	min, max string // range bounds as written, "" where open
	choices  []string
}

type ruleKind int8

const (
	anything ruleKind = iota
	within            // [min,...,max]
	oneOf
	oneOfAnyCase
	list
	nonEmptyList
	nonEmpty
	gzipLevel
	throttledReplicas
	voters
	servers
	offsetReset
)

var ruleWords = []struct {
	word string
	kind ruleKind
}{
	{"-", anything}, {"in", oneOf}, {"in any case", oneOfAnyCase}, {"list", list}, {"non-empty list", nonEmptyList},
	{"non-empty", nonEmpty}, {"gzip level", gzipLevel}, {"throttled replicas", throttledReplicas},
	{"voters", voters}, {"servers", servers}, {"offset reset", offsetReset},
}

func parseRule(text string) (rule, error) {
	if strings.HasPrefix(text, "[") {
		low, high, ok := strings.Cut(strings.Trim(text, "[]"), ",...")
		if !ok {
			return rule{}, fmt.Errorf("range %s", text)
		}
		return rule{text: text, kind: within, min: low, max: strings.TrimPrefix(high, ",")}, nil
	}
	word, choices, _ := strings.Cut(text, ": ")
	for _, w := range ruleWords {
		if w.word == word {
			r := rule{text: text, kind: w.kind}
			if choices != "" {
				r.choices = strings.Split(choices, ", ")
			}
			return r, nil
		}
	}
	return rule{}, fmt.Errorf("rule %s", text)
}

func (r *rule) checkNumber(d *Def, value string, f float64) error {
	switch {
	case r.kind == gzipLevel && f != -1 && (f < 1 || f > 9):
		return d.invalid(value, "Value must be between 1 and 9 or equal to -1")
	case r.kind != within:
		return nil
	}
	if low, err := strconv.ParseFloat(r.min, 64); err == nil && f < low {
		return d.invalid(value, "Value must be at least %s", r.min)
	}
	if high, err := strconv.ParseFloat(r.max, 64); err == nil && f > high {
		return d.invalid(value, "Value must be no more than %s", r.max)
	}
	return nil
}

func (r *rule) checkString(d *Def, value string) error {
	switch r.kind {
	case oneOf:
		return r.checkChoice(d, value)
	case oneOfAnyCase:
		if !slices.Contains(r.choices, strings.ToUpper(value)) {
			return d.invalid(value, "String must be one of (case insensitive): %s", strings.Join(r.choices, ", "))
		}
	case nonEmpty:
		if value == "" {
			return d.invalid(value, "String must be non-empty")
		}
	case offsetReset:
		return checkOffsetReset(d, value)
	}
	return nil
}

func (r *rule) checkChoice(d *Def, value string) error {
	if !slices.Contains(r.choices, value) {
		return d.invalid(value, "String must be one of: %s", strings.Join(r.choices, ", "))
	}
	return nil
}

// isSet: a list whose repetitions mean nothing and are dropped, as Kafka drops them since KIP-1161.
func (r *rule) isSet() bool { return r.kind == list || r.kind == nonEmptyList }

func (r *rule) checkList(d *Def, items []string) error {
	switch r.kind {
	case list, nonEmptyList:
		return r.checkMembers(d, items)
	case throttledReplicas:
		return checkThrottledReplicas(d, items)
	case voters:
		return checkVoters(d, items)
	case servers:
		return checkServers(d, items)
	}
	return nil
}

// checkMembers applies Kafka's ValidList, whose messages name no value.
func (r *rule) checkMembers(d *Def, items []string) error {
	text := strings.Join(items, ",")
	whole := func(reason string) error {
		return &ValueError{Name: d.Name, Value: text, Reason: "Configuration '" + d.Name + "' " + reason, Whole: true}
	}
	if len(items) == 0 && r.kind == nonEmptyList {
		valid := "any non-empty value"
		if len(r.choices) > 0 {
			valid = "[" + strings.Join(r.choices, ", ") + "]"
		}
		return whole("must not be empty. Valid values include: " + valid)
	}
	for _, item := range items {
		if item == "" {
			return whole("values must not be empty.")
		}
		if len(r.choices) > 0 {
			if err := r.checkChoice(d, item); err != nil {
				return err
			}
		}
	}
	return nil
}

var replicaPair = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

func checkThrottledReplicas(d *Def, items []string) error {
	if len(items) == 1 && items[0] == "*" {
		return nil
	}
	for _, item := range items {
		if !replicaPair.MatchString(item) {
			return d.invalid("["+strings.Join(items, ", ")+"]", "%s must be the literal '*' or a list of replicas in the "+
				"following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...", d.Name)
		}
	}
	return nil
}

func checkVoters(d *Def, items []string) error {
	for _, item := range items {
		id, address, ok := strings.Cut(item, "@")
		if _, _, err := net.SplitHostPort(address); !ok || err != nil {
			return &ValueError{d.Name, item, "Invalid configuration value for " + d.Name +
				". Each entry should be in the form `{id}@{host}:{port}`.", true}
		}
		if _, err := strconv.ParseInt(id, 10, 32); err != nil {
			return &ValueError{d.Name, item, "Failed to parse voter ID as an integer from " + id, true}
		}
	}
	return nil
}

func checkServers(d *Def, items []string) error {
	for _, item := range items {
		if _, _, err := net.SplitHostPort(item); err != nil {
			return &ValueError{d.Name, item, fmt.Sprintf("Failed to parse host name from %s for the configuration %s. "+
				`Each entry should be in the form "{host}:{port}"`, item, d.Name), true}
		}
	}
	return nil
}

// isoDuration is the part of ISO-8601 that Java's Duration reads, without a sign: only past offsets make sense.
var isoDuration = regexp.MustCompile(`^(?i:P(\d+D)?(T(\d+H)?(\d+M)?(\d+([.,]\d{0,9})?S)?)?)$`)

func checkOffsetReset(d *Def, value string) error {
	if value == "latest" || value == "earliest" {
		return nil
	}
	if span, ok := strings.CutPrefix(value, "by_duration:"); ok {
		if isoDuration.MatchString(span) && strings.ContainsAny(span, "0123456789") && !strings.HasSuffix(span, "T") {
			return nil
		}
	}
	return d.invalid(value, "Invalid value `%s` for configuration %s. The value must be either 'earliest', 'latest' or of the "+
		"format 'by_duration:<PnDTnHnMn.nS>'.", value, d.Name)
}

// Allowed says in a few words what the property may be, for messages to people.
func (d *Def) Allowed() string {
	kind := d.Type.String()
	switch r := d.rule; r.kind {
	case within:
		switch {
		case r.max == "":
			return kind + " of at least " + r.min
		case r.min == "":
			return kind + " of at most " + r.max
		}
		return kind + " from " + r.min + " to " + r.max
	case oneOf, oneOfAnyCase:
		return "one of " + strings.Join(r.choices, ", ")
	case gzipLevel:
		return "-1, or 1 to 9"
	case list, nonEmptyList:
		return listAllowed(&r)
	case nonEmpty:
		return "a text that is not empty"
	case throttledReplicas:
		return "* or partition:broker,partition:broker,..."
	case voters:
		return "id@host:port,id@host:port,..."
	case servers:
		return "host:port,host:port,..."
	case offsetReset:
		return "earliest, latest or by_duration:PnDTnHnMn.nS"
	}
	if d.Type == Boolean {
		return "true or false"
	}
	return "a value of type " + kind
}

func listAllowed(r *rule) string {
	text := "a list"
	if r.kind == nonEmptyList {
		text = "a list of at least one"
	}
	if len(r.choices) > 0 {
		text += ", of " + strings.Join(r.choices, ", ")
	}
	return text
}
