package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// groupSynonyms maps group properties to the broker properties that give their defaults (Kafka's GroupConfig); the
// others have only their own default.
var groupSynonyms = map[string]string{
	"consumer.assignment.interval.ms":    "group.consumer.assignment.interval.ms",
	"consumer.assignor.offload.enable":   "group.consumer.assignor.offload.enable",
	"consumer.heartbeat.interval.ms":     "group.consumer.heartbeat.interval.ms",
	"consumer.session.timeout.ms":        "group.consumer.session.timeout.ms",
	"share.assignment.interval.ms":       "group.share.assignment.interval.ms",
	"share.assignor.offload.enable":      "group.share.assignor.offload.enable",
	"share.delivery.count.limit":         "group.share.delivery.count.limit",
	"share.heartbeat.interval.ms":        "group.share.heartbeat.interval.ms",
	"share.partition.max.record.locks":   "group.share.partition.max.record.locks",
	"share.record.lock.duration.ms":      "group.share.record.lock.duration.ms",
	"share.session.timeout.ms":           "group.share.session.timeout.ms",
	"streams.assignment.interval.ms":     "group.streams.assignment.interval.ms",
	"streams.assignor.name":              "group.streams.assignors",
	"streams.assignor.offload.enable":    "group.streams.assignor.offload.enable",
	"streams.heartbeat.interval.ms":      "group.streams.heartbeat.interval.ms",
	"streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
	"streams.num.standby.replicas":       "group.streams.num.standby.replicas",
	"streams.rack.aware.assignment.tags": "group.streams.rack.aware.assignment.tags",
	"streams.session.timeout.ms":         "group.streams.session.timeout.ms",
}

// groupBounds are the group properties that the broker bounds on both sides, with the names of the bounds.
var groupBounds = []struct{ name, min, max string }{
	{"consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"share.session.timeout.ms", "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"share.assignment.interval.ms", "group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	{"share.delivery.count.limit", "group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"},
	{"share.partition.max.record.locks", "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
	{"streams.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"streams.session.timeout.ms", "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"streams.assignment.interval.ms", "group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
}

// GroupText returns the effective value of a group property under the group's overrides.
func (l Layers) GroupText(name string, overrides map[string]string) string {
	d := GroupDefs.Lookup(name)
	if text, set := overrides[name]; set {
		if value, err := d.Canonical(text); err == nil {
			return value
		}
	}
	if broker, has := groupSynonyms[name]; has {
		return l.Text(broker)
	}
	text, _ := d.defaultText()
	return text
}

// GroupInt returns the effective value of a numeric group property.
func (l Layers) GroupInt(name string, overrides map[string]string) int64 {
	n, _ := strconv.ParseInt(l.GroupText(name, overrides), 10, 64)
	return n
}

// DescribeGroup describes every public property of a group with these overrides, in order of name.
func (l Layers) DescribeGroup(overrides map[string]string) []Described {
	var all []Described
	for d := range GroupDefs.All() {
		_, set := overrides[d.Name]
		if d.Internal && !set {
			continue
		}
		value := l.GroupText(d.Name, overrides)
		out := Described{Def: d, Value: &value}
		if set {
			out.Synonyms = append(out.Synonyms, Setting{d.Name, out.Value, FromGroup})
		}
		if broker, has := groupSynonyms[d.Name]; has {
			out.Synonyms = append(out.Synonyms, l.settings(broker)...)
		} else {
			text, _ := d.defaultText()
			out.Synonyms = append(out.Synonyms, Setting{d.Name, &text, FromDefault})
		}
		out.Source = out.Synonyms[0].Source
		all = append(all, out)
	}
	return all
}

// ValidateGroup checks a group's whole set of overrides as Kafka's GroupConfig.validate does; the error's text is for
// the client.
func (l Layers) ValidateGroup(overrides map[string]string) error {
	for _, name := range sortedKeys(overrides) {
		d := GroupDefs.Lookup(name)
		if d == nil {
			return fmt.Errorf("%w: %s", ErrUnknownGroupConfig, name)
		}
		if err := d.Validate(overrides[name]); err != nil {
			return err
		}
	}
	for _, b := range groupBounds {
		low, high := l.Int(b.min), l.Int(b.max)
		if _, set := overrides[b.name]; !set {
			continue
		}
		if n := l.GroupInt(b.name, overrides); n < low || n > high {
			return fmt.Errorf("%s must be in the range %d to %d inclusive.", b.name, low, high)
		}
	}
	const offload = "consumer.assignor.offload.enable" // assignments have no thread of their own here
	if value, set := overrides[offload]; set && value != l.Text(groupSynonyms[offload]) {
		return fmt.Errorf("%s cannot be changed: this broker computes assignments in one way only", offload)
	}
	return l.validateGroupRelations(overrides)
}

// validateGroupRelations: a session must outlast a heartbeat; and the bounds that have one side only.
func (l Layers) validateGroupRelations(overrides map[string]string) error {
	for _, kind := range []string{"consumer", "share"} {
		session := l.GroupInt(kind+".session.timeout.ms", overrides)
		heartbeat := l.GroupInt(kind+".heartbeat.interval.ms", overrides)
		if session <= heartbeat {
			return fmt.Errorf("%s.session.timeout.ms must be greater than %s.heartbeat.interval.ms", kind, kind)
		}
	}
	for name, bound := range map[string]string{
		"streams.num.standby.replicas": "group.streams.max.standby.replicas",
		"streams.num.warmup.replicas":  "group.streams.max.warmup.replicas",
	} {
		if high := l.Int(bound); l.GroupInt(name, overrides) > high {
			return fmt.Errorf("%s must be less than or equal to %d", name, high)
		}
	}
	const interval = "streams.task.offset.interval.ms"
	if low := l.Int("group.streams.min.task.offset.interval.ms"); l.GroupInt(interval, overrides) < low {
		return fmt.Errorf("%s must be greater than or equal to %d", interval, low)
	}
	registered := l.List("group.streams.assignors")
	if name, set := overrides["streams.assignor.name"]; set && !slices.Contains(registered, name) {
		return fmt.Errorf("streams.assignor.name '%s' is not a registered task assignor. Registered assignors are: [%s].",
			name, strings.Join(registered, ", "))
	}
	return nil
}
