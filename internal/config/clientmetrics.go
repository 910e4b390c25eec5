package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bounds of interval.ms of a client metrics subscription (KIP-714).
const (
	minPushIntervalMs = 100
	maxPushIntervalMs = 3600000
)

// clientMatchParams are what a client can be matched by (KIP-714).
var clientMatchParams = []string{
	"client_id", "client_instance_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port",
}

// ValidateClientMetrics checks a subscription's whole set of values as Kafka's ClientMetricsConfigs does.
// invalidRequest says that Kafka answers with INVALID_REQUEST rather than INVALID_CONFIG.
func ValidateClientMetrics(values map[string]string) (invalidRequest bool, err error) {
	for _, name := range sortedKeys(values) {
		if ClientMetricsDefs.Lookup(name) == nil {
			return true, fmt.Errorf("%w: %s", ErrUnknownClientMetricsConfig, name)
		}
	}
	for _, name := range sortedKeys(values) {
		if err := ClientMetricsDefs.Lookup(name).Validate(values[name]); err != nil {
			return false, err
		}
	}
	if text, set := values["interval.ms"]; set {
		n, _ := strconv.Atoi(trim(text))
		if n < minPushIntervalMs || n > maxPushIntervalMs {
			return true, fmt.Errorf("Invalid value %d for interval.ms, interval must be between %d and %d (1 hour)",
				n, minPushIntervalMs, maxPushIntervalMs)
		}
	}
	for _, pattern := range SplitList(values["match"]) {
		if !validMatch(pattern) {
			return false, fmt.Errorf("Illegal client matching pattern: %s", pattern)
		}
	}
	return false, nil
}

func validMatch(pattern string) bool {
	param, expression, ok := strings.Cut(pattern, "=")
	if !ok || expression == "" || strings.Contains(expression, "=") || !slices.Contains(clientMatchParams, strings.TrimSpace(param)) {
		return false
	}
	_, err := regexp.Compile(strings.TrimSpace(expression))
	return err == nil
}

// DescribeClientMetrics describes a subscription with these values, in order of name.
func DescribeClientMetrics(values map[string]string) []Described {
	var all []Described
	for d := range ClientMetricsDefs.All() {
		out := Described{Def: d, Source: FromDefault}
		text, _ := d.defaultText()
		if v, set := values[d.Name]; set {
			text, out.Source = v, FromClientMetrics
			out.Synonyms = []Setting{{d.Name, &text, FromClientMetrics}}
		}
		out.Value = &text
		all = append(all, out)
	}
	return all
}
