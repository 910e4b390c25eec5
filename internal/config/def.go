// Package config knows Kafka's configuration: what every property of a broker, topic, group or client metrics
// subscription is called, its type, default and allowed values; how dynamic, static and default values combine; and
// how server.properties, environment and flags become a broker's settings.
package config

import (
	"embed"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Type numbers a property's type as DescribeConfigs does.
type Type int8

const (
	Boolean Type = iota + 1
	String
	Int
	Short
	Long
	Double
	List
	Class
	Password
)

var typeNames = []string{"unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password"}

func (t Type) String() string { return typeNames[t] }

// UpdateMode says how a property may change while the broker runs (KIP-226).
type UpdateMode int8

const (
	ReadOnly    UpdateMode = iota
	PerBroker              // on one broker's resource only
	ClusterWide            // on a broker's resource or on the cluster's default
)

// Def defines one property.
type Def struct {
	Name       string
	Type       Type
	Doc        string
	Importance string // high, medium or low
	Update     UpdateMode
	// Internal properties work but are not listed.
	Internal bool

	rule       rule
	def        string // text of the default
	hasDefault bool
}

// defaultText returns the default; ok is false where there is no value unless one is set.
func (d *Def) defaultText() (text string, ok bool) { return d.def, d.hasDefault }

// Sensitive values never leave the broker.
func (d *Def) Sensitive() bool { return d.Type == Password }

// Defs is a set of definitions, decoded from its table on first use: the binary starts without paying for it.
type Defs struct {
	load func() map[string]*Def
}

//go:embed defs/*.tsv
var tables embed.FS

// The definitions of Kafka 4.4.
var (
	TopicDefs         = newDefs("topic")
	BrokerDefs        = newDefs("broker")
	GroupDefs         = newDefs("group")
	ClientMetricsDefs = newDefs("client-metrics")
	// DynamicDefs are properties of brokers that exist as dynamic values alone (Kafka's QuotaConfig).
	DynamicDefs = newDefs("dynamic")
	// OwnDefs are those that Kafka does not have.
	OwnDefs = newDefs("own")
)

func newDefs(name string) *Defs {
	return &Defs{load: sync.OnceValue(func() map[string]*Def { return parseTable("defs/" + name + ".tsv") })}
}

// Lookup returns the definition of name, or nil.
func (s *Defs) Lookup(name string) *Def { return s.load()[name] }

// Names returns every name in order, internal ones too.
func (s *Defs) Names() []string { return slices.Sorted(maps.Keys(s.load())) }

// All iterates the definitions by name, internal ones too.
func (s *Defs) All() iter.Seq[*Def] {
	return func(yield func(*Def) bool) {
		for _, name := range s.Names() {
			if !yield(s.Lookup(name)) {
				return
			}
		}
	}
}

// parseTable decodes an embedded table; a line that does not parse is a fault of the build, which a test would show.
func parseTable(file string) map[string]*Def {
	raw, err := tables.ReadFile(file)
	if err != nil {
		panic(err)
	}
	defs := make(map[string]*Def, strings.Count(string(raw), "\n"))
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		d, err := parseDef(strings.TrimSuffix(line, "\n"))
		if err != nil {
			panic(fmt.Sprintf("%s: %v: %q", file, err, line))
		}
		defs[d.Name] = d
	}
	return defs
}

func parseDef(line string) (*Def, error) {
	f := strings.Split(line, "\t")
	if len(f) != 8 {
		return nil, fmt.Errorf("%d columns", len(f))
	}
	d := &Def{
		Name: f[0], Importance: f[4], Doc: f[7], Internal: f[6] == "internal",
		Update: map[string]UpdateMode{"-": ReadOnly, "broker": PerBroker, "cluster": ClusterWide}[f[5]],
	}
	if f[2] != "<null>" && f[2] != "<required>" {
		d.def, d.hasDefault = f[2], true
	}
	t := slices.Index(typeNames, f[1])
	if t < 1 {
		return nil, fmt.Errorf("type %s", f[1])
	}
	d.Type = Type(t)
	var err error
	d.rule, err = parseRule(f[3])
	return d, err
}
