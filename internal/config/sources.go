package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/magiconair/properties"
)

// Sources are what a broker is started with. Later ones win: embedded defaults, File, Env, Flags.
type Sources struct {
	Strict   bool   // a property that nobody knows is an error in File and Env, as it always is in Flags
	FileName string // for messages
	File     []byte // server.properties
	Env      []string
	Flags    []Assignment
	Hostname string // of this machine: what a listener on all addresses advertises
}

// Assignment is one property set on the command line; From is the flag as messages name it.
type Assignment struct{ From, Name, Value string }

// StartError is a property that a broker cannot start with; its text is one line for the operator.
type StartError struct {
	Name, Value string
	From        string // where it was set: a file, a variable, a flag
	Reason      string
}

func (e *StartError) Error() string {
	return strings.ReplaceAll(fmt.Sprintf("config: %s=%s (%s): %s", e.Name, e.Value, e.From, e.Reason), "\n", " ")
}

// fromEmbedded is where an embedded value comes from.
const fromEmbedded = "default"

// embedded is what a broker runs on when nothing else is said.
var embedded = []Assignment{
	{Name: "process.roles", Value: "broker,controller"},
	{Name: "node.id", Value: "1"},
	{Name: "listeners", Value: "PLAINTEXT://localhost:9092"},
	{Name: "controller.listener.names", Value: "CONTROLLER"},
	{Name: "log.dirs", Value: "data"},
}

// embeddedAlone holds for a broker that is configured with no other: its internal topics can have one replica only, as
// in the configuration that Kafka is shipped with.
var embeddedAlone = []Assignment{
	{Name: "offsets.topic.replication.factor", Value: "1"},
	{Name: "transaction.state.log.replication.factor", Value: "1"},
	{Name: "transaction.state.log.min.isr", Value: "1"},
}

// static is the static layer while it is being built, with the origin of each value.
type static struct {
	values map[string]string
	from   map[string]string
	// unknown has a text for each property that nobody knows, in the order of the sources.
	unknown []string
}

// collect lays the sources over each other. Names and values are checked; how they go together is not.
func (s Sources) collect() (*static, error) {
	st := &static{values: map[string]string{}, from: map[string]string{}}
	file, err := s.parseFile()
	if err != nil {
		return nil, err
	}
	for _, layer := range []struct {
		assignments []Assignment
		strict      bool
	}{{s.fromKrb5Variable(), false}, {file, s.Strict}, {s.fromEnvironment(), s.Strict}, {s.Flags, true}} {
		for _, a := range layer.assignments {
			if err := st.set(a, layer.strict); err != nil {
				return nil, err
			}
		}
	}
	st.setEmbedded()
	return st, nil
}

func (st *static) set(a Assignment, strict bool) error {
	if !strict && definitionOf(a.Name) == nil && !protects(a.Name, a.Value) && !protects(nearest(a.Name), a.Value) && !exact(nearest(a.Name)) {
		st.unknown = append(st.unknown, a.Name+" ("+a.From+")"+hint(a.Name))
		return nil
	}
	if err := checkAssignment(a); err != nil {
		return err
	}
	st.values[a.Name], st.from[a.Name] = a.Value, a.From
	return nil
}

// setEmbedded fills in what nobody set. Names that Kafka takes for the same thing count as set together.
func (st *static) setEmbedded() {
	aliases := map[string]string{"node.id": "broker.id", "log.dirs": "log.dir"}
	defaults := embedded
	switch {
	case st.alone():
		defaults = slices.Concat(embedded, embeddedAlone)
	case st.values["gossip.join"] != "":
		defaults = slices.Concat(st.embeddedJoined(), embedded)
	}
	for _, a := range defaults {
		if _, set := st.values[aliases[a.Name]]; set {
			continue
		}
		if _, set := st.values[a.Name]; !set {
			st.values[a.Name], st.from[a.Name] = a.Value, fromEmbedded
		}
	}
}

// embeddedJoined holds for a node that looks for others by gossip: they must reach it.
func (st *static) embeddedJoined() []Assignment {
	listeners := "PLAINTEXT://:9092,CONTROLLER://:9093,GOSSIP://:" + GossipPort
	switch st.values["process.roles"] {
	case "broker":
		listeners = "PLAINTEXT://:9092,GOSSIP://:" + GossipPort
	case "controller":
		listeners = "CONTROLLER://:9093,GOSSIP://:" + GossipPort
	}
	return []Assignment{{Name: "listeners", Value: listeners}}
}

// alone: nothing says where other nodes are.
func (st *static) alone() bool {
	for _, name := range []string{"controller.quorum.voters", "controller.quorum.bootstrap.servers", "gossip.join"} {
		if st.values[name] != "" {
			return false
		}
	}
	return true
}

func checkAssignment(a Assignment) error {
	d := definitionOf(a.Name)
	if d == nil {
		return refuseUnknown(a)
	}
	if err := d.Validate(a.Value); err != nil {
		reason := err.Error()
		if v, ok := errors.AsType[*ValueError](err); ok {
			reason = v.Reason
		}
		reason = strings.TrimSuffix(reason, ".")
		if d.rule.kind != anything { // else the reason names the type, and more is not to be said
			reason += "; allowed: " + d.Allowed()
		}
		return &StartError{a.Name, shownValue(d, a.Value), a.From, reason}
	}
	return nil
}

// refuseUnknown hides a value that may be a secret.
func refuseUnknown(a Assignment) error {
	if protects(a.Name, a.Value) {
		return &StartError{a.Name, "[hidden]", a.From, "nobody knows this property, and its name says that it protects" + hint(a.Name)}
	}
	return &StartError{a.Name, a.Value, a.From, "nobody knows this property" + hint(a.Name)}
}

func shownValue(d *Def, value string) string {
	if d.Sensitive() {
		return "[hidden]"
	}
	return value
}

// anyText defines properties of which only the prefix is known: settings of plugins.
var anyText = &Def{Type: String}

// definitionOf finds the definition behind a name of the static configuration, nil when nobody knows it.
func definitionOf(name string) *Def {
	if d := BrokerDefs.Lookup(name); d != nil {
		return d
	}
	if rest, ok := strings.CutPrefix(name, listenerPrefix); ok {
		return listenerDefinition(rest)
	}
	for _, prefix := range []string{"rsm.config.", "rlmm.config.", "config.providers."} {
		if strings.HasPrefix(name, prefix) {
			return anyText
		}
	}
	return OwnDefs.Lookup(name)
}

// listenerDefinition finds what stands behind listener.name.<listener>.[<mechanism>.]<property>.
func listenerDefinition(rest string) *Def {
	_, property, _ := strings.Cut(rest, ".")
	if d := BrokerDefs.Lookup(property); d != nil {
		return d
	}
	_, property, _ = strings.Cut(property, ".")
	return BrokerDefs.Lookup(property)
}

// parseFile reads the Java properties format; references like ${x} are not expanded, as in Kafka.
func (s Sources) parseFile() ([]Assignment, error) {
	loader := properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}
	p, err := loader.LoadBytes(s.File)
	if err != nil {
		return nil, fmt.Errorf("config: %s: %w", s.FileName, err)
	}
	var out []Assignment
	for _, name := range p.Keys() {
		value, _ := p.Get(name)
		out = append(out, Assignment{From: s.FileName, Name: name, Value: strings.TrimRight(value, " \t\r")})
	}
	return out, nil
}
