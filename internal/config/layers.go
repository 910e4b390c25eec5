package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Source says where a value came from, numbered as in DescribeConfigs (Kafka's ConfigSource).
type Source int8

const (
	FromTopic          Source = 1
	FromBroker         Source = 2
	FromClusterDefault Source = 3
	FromStatic         Source = 4
	FromDefault        Source = 5
	FromClientMetrics  Source = 7
	FromGroup          Source = 8
)

// Layers are the places a broker's properties come from, strongest first: its own dynamic values, the cluster's dynamic
// default, what it was started with; the definitions' defaults lie below. The maps are read, never written.
type Layers struct {
	Broker, ClusterDefault map[string]string
	Static                 map[string]string
}

// WithDynamic returns the same static values under other dynamic ones.
func (l Layers) WithDynamic(broker, clusterDefault map[string]string) Layers {
	return Layers{Broker: broker, ClusterDefault: clusterDefault, Static: l.Static}
}

// Setting is one value of one property in one layer. A nil Value is null.
type Setting struct {
	Name   string
	Value  *string
	Source Source
}

// Described is a property as DescribeConfigs shows it: the effective value, and what it was chosen from.
type Described struct {
	Def      *Def
	Value    *string
	Source   Source
	Synonyms []Setting
}

// layered iterates the layers from the strongest.
func (l Layers) layered() []struct {
	values map[string]string
	source Source
} {
	return []struct {
		values map[string]string
		source Source
	}{{l.Broker, FromBroker}, {l.ClusterDefault, FromClusterDefault}, {l.Static, FromStatic}}
}

// get returns the effective text of a broker property. A value that its definition refuses counts as absent: it can
// only stem from a log written by a version that allowed it.
func (l Layers) get(d *Def) (string, bool) {
	for _, layer := range l.layered() {
		if text, ok := layer.values[d.Name]; ok {
			if value, err := d.Canonical(text); err == nil {
				return value, true
			}
		}
	}
	return d.defaultText()
}

// Text returns the effective value of a broker property, or of one of ours; "" when it has none. An unknown name is a
// fault of the caller.
func (l Layers) Text(name string) string {
	value, _ := l.get(brokerDef(name))
	return value
}

func brokerDef(name string) *Def {
	if d := BrokerDefs.Lookup(name); d != nil {
		return d
	}
	for _, others := range []*Defs{OwnDefs, DynamicDefs} {
		if d := others.Lookup(name); d != nil {
			return d
		}
	}
	panic("config: no broker property " + name)
}

// Int returns the effective value of a numeric broker property, 0 when it has none.
func (l Layers) Int(name string) int64 {
	n, _ := strconv.ParseInt(l.Text(name), 10, 64)
	return n
}

// OfListener returns the effective value of listener.name.<listener>.<name>, a number; without one the definition's
// default.
func (l Layers) OfListener(listener, name string) int64 {
	d := brokerDef(name)
	text, _ := d.defaultText()
	for _, layer := range slices.Backward(l.layered()) {
		if own, set := layer.values[listenerPrefix+strings.ToLower(listener)+"."+name]; set {
			if value, err := d.Canonical(own); err == nil {
				text = value
			}
		}
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// Bool returns the effective value of a boolean broker property.
func (l Layers) Bool(name string) bool { return l.Text(name) == "true" }

// Float returns the effective value of a double broker property.
func (l Layers) Float(name string) float64 {
	f, _ := strconv.ParseFloat(l.Text(name), 64)
	return f
}

// List returns the effective items of a list property.
func (l Layers) List(name string) []string { return SplitList(l.Text(name)) }

// chain lists names that set the same thing, strongest first, with the factor that turns the value of each into
// milliseconds.
type chain []link

type link struct {
	name   string
	factor int64
}

const (
	minuteMs = 60 * 1000
	hourMs   = 60 * minuteMs
)

var (
	rollChain      = chain{{"log.roll.ms", 1}, {"log.roll.hours", hourMs}}
	jitterChain    = chain{{"log.roll.jitter.ms", 1}, {"log.roll.jitter.hours", hourMs}}
	flushChain     = chain{{"log.flush.interval.ms", 1}, {"log.flush.scheduler.interval.ms", 1}}
	retentionChain = chain{{"log.retention.ms", 1}, {"log.retention.minutes", minuteMs}, {"log.retention.hours", hourMs}}
)

// synonymsOf are the broker properties that Kafka's DynamicBrokerConfig treats as one, strongest first.
func synonymsOf(name string) chain {
	for _, c := range []chain{rollChain, jitterChain, flushChain, retentionChain} {
		for _, l := range c {
			if l.name == name {
				return c
			}
		}
	}
	return chain{{name, 1}}
}

// value resolves a chain to its first link that has a value.
func (l Layers) value(c chain) (string, bool) {
	for _, link := range c {
		text, ok := l.get(brokerDef(link.name))
		if !ok {
			continue
		}
		n, _ := strconv.ParseInt(text, 10, 64)
		if link.factor == 1 && (n >= 0 || c[0].name != retentionChain[0].name) { // any retention below 0 is unlimited
			return text, true
		}
		return strconv.FormatInt(toMillis(n, link.factor), 10), true
	}
	return "", false
}

// toMillis keeps "unlimited" what is negative, and saturates.
func toMillis(n, factor int64) int64 {
	switch {
	case n < 0:
		return -1
	case n > math.MaxInt64/factor:
		return math.MaxInt64
	}
	return n * factor
}

// settings lists every layer's value of name and its synonyms, in order of strength, beginning at the first that is
// called name itself, as Kafka does.
func (l Layers) settings(name string) []Setting {
	var all []Setting
	names := synonymsOf(name)
	for _, layer := range l.layered() {
		for _, link := range names {
			if v, ok := layer.values[link.name]; ok {
				all = append(all, Setting{link.name, describedText(brokerDef(link.name), v), layer.source})
			}
		}
	}
	for _, link := range names {
		d := brokerDef(link.name)
		if text, ok := d.defaultText(); ok {
			all = append(all, Setting{link.name, describedText(d, text), FromDefault})
		}
	}
	for len(all) > 0 && all[0].Name != name {
		all = all[1:]
	}
	return all
}

// describedText hides what is sensitive.
func describedText(d *Def, value string) *string {
	if d.Sensitive() {
		return nil
	}
	return &value
}

// DescribeBroker describes every public property of the broker, or, with clusterDefault, the cluster's dynamic
// defaults alone.
func (l Layers) DescribeBroker(clusterDefault bool) []Described {
	var all []Described
	for d := range BrokerDefs.All() {
		_, set := l.ClusterDefault[d.Name]
		if d.Internal && l.Static[d.Name] == "" || clusterDefault && !set {
			continue
		}
		all = append(all, l.describeBroker(d, clusterDefault))
	}
	return all
}

func (l Layers) describeBroker(d *Def, clusterDefault bool) Described {
	if clusterDefault {
		value := describedText(d, l.ClusterDefault[d.Name])
		return Described{d, value, FromClusterDefault, []Setting{{d.Name, value, FromClusterDefault}}}
	}
	out := Described{Def: d, Synonyms: l.settings(d.Name), Source: FromDefault}
	if text, ok := l.get(d); ok {
		out.Value = describedText(d, text)
	}
	if len(out.Synonyms) > 0 {
		out.Source = out.Synonyms[0].Source
	}
	return out
}
