package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ValueError says why a property cannot have a value; its text is that of Kafka's ConfigException, which clients see.
type ValueError struct {
	Name, Value string
	Reason      string
	// Whole: the reason is the entire message and names the property itself.
	Whole bool
}

func (e *ValueError) Error() string {
	if e.Whole {
		return e.Reason
	}
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", e.Value, e.Name, e.Reason)
}

func (d *Def) invalid(value, format string, args ...any) *ValueError {
	return &ValueError{Name: d.Name, Value: value, Reason: fmt.Sprintf(format, args...)}
}

// Validate checks the text of a value as Kafka's ConfigDef does; an error is a *ValueError.
func (d *Def) Validate(value string) error {
	_, err := d.Canonical(value)
	return err
}

// Canonical validates value and returns it as Kafka describes it: trimmed, numbers and lists in their plain form.
func (d *Def) Canonical(value string) (string, error) {
	trimmed := trim(value)
	var err error
	switch d.Type {
	case Boolean:
		trimmed, err = d.canonicalBool(value)
	case Int:
		trimmed, err = d.canonicalInt(value, 32)
	case Short:
		trimmed, err = d.canonicalInt(value, 16)
	case Long:
		trimmed, err = d.canonicalInt(value, 64)
	case Double:
		trimmed, err = d.canonicalDouble(value)
	case List:
		items := SplitList(value)
		if d.rule.isSet() {
			items = withoutRepetition(items)
		}
		return strings.Join(items, ","), d.rule.checkList(d, items)
	}
	if err != nil {
		return "", err
	}
	return trimmed, d.rule.checkString(d, trimmed)
}

func (d *Def) canonicalBool(value string) (string, error) {
	v := strings.ToLower(trim(value))
	if v != "true" && v != "false" {
		return "", d.invalid(value, "Expected value to be either true or false")
	}
	return v, nil
}

func (d *Def) canonicalInt(value string, bits int) (string, error) {
	n, err := strconv.ParseInt(trim(value), 10, bits)
	if err != nil {
		return "", d.notANumber(value)
	}
	text := strconv.FormatInt(n, 10)
	return text, d.rule.checkNumber(d, text, float64(n))
}

func (d *Def) canonicalDouble(value string) (string, error) {
	f, err := parseJavaDouble(trim(value))
	if err != nil {
		return "", d.notANumber(value)
	}
	text := formatJavaDouble(f)
	return text, d.rule.checkNumber(d, text, f)
}

func (d *Def) notANumber(value string) *ValueError {
	return d.invalid(value, "Not a number of type %s", strings.ToUpper(d.Type.String()))
}

// trim cuts what Java's String.trim does: everything up to the space character.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}

// SplitList splits the text of a list property; the empty text is the empty list.
func SplitList(value string) []string {
	value = trim(value)
	if value == "" {
		return nil
	}
	items := strings.Split(value, ",")
	for i, item := range items {
		items[i] = strings.TrimSpace(item)
	}
	return items
}

func withoutRepetition(items []string) []string {
	var out []string
	for _, item := range items {
		if !slices.Contains(out, item) {
			out = append(out, item)
		}
	}
	return out
}

// parseJavaDouble reads what Double.parseDouble reads, which differs from Go in suffixes and in the names of specials.
func parseJavaDouble(s string) (float64, error) {
	switch strings.TrimLeft(s, "+-") {
	case "NaN", "Infinity":
		return strconv.ParseFloat(s, 64)
	}
	if strings.ContainsAny(s, "nN_") {
		return 0, strconv.ErrSyntax
	}
	if n := len(s); n > 1 && strings.ContainsRune("fFdD", rune(s[n-1])) && !strings.ContainsAny(s, "xX") {
		s = s[:n-1]
	}
	f, err := strconv.ParseFloat(s, 64)
	if math.IsInf(f, 0) { // out of range is infinite in Java, not an error
		return f, nil
	}
	return f, err
}

// formatJavaDouble writes a double as Double.toString does.
func formatJavaDouble(f float64) string {
	abs := math.Abs(f)
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0 || abs >= 1e-3 && abs < 1e7:
		return withPoint(strconv.FormatFloat(f, 'f', -1, 64))
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E")
	n, _ := strconv.Atoi(exponent)
	return withPoint(mantissa) + "E" + strconv.Itoa(n)
}

func withPoint(s string) string {
	if strings.Contains(s, ".") {
		return s
	}
	return s + ".0"
}
