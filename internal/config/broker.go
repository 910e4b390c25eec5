package config

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Broker is the configuration that a broker starts with: the static layer, and the parts that need more than one
// property to be understood.
type Broker struct {
	Layers
	NodeID    int32
	ClusterID string // wanted for an empty data directory, "" for a random one
	LogDirs   []string
	// Listeners are those for clients; Advertised names a subset of them. A port 0 is still open to choice, and a
	// listener that is advertised under its own address keeps it in both lists.
	Listeners, Advertised []Listener
	InterBroker           string // listener name
	// IsBroker and IsController are process.roles.
	IsBroker, IsController bool
	// Controllers are the listeners for other nodes of the metadata quorum; Voters is controller.quorum.voters, by id;
	// BootstrapServers are the addresses of controller.quorum.bootstrap.servers.
	Controllers           []Listener
	Quorum                Listener // the controllers' listener by which this node reaches them: name and protocol
	Voters                []Voter
	BootstrapServers      []string
	MetadataDir           string // where the metadata log is, one of LogDirs
	Hostname              string // of this machine, for listeners on all addresses
	advertisedControllers []Listener
	alone                 bool // there are no other nodes, and none can come
	Gossip                Gossip
	Authorizer            *Authorizer       // nil: everyone may do everything
	from                  map[string]string // where each property of Static was set
	// Unused are properties that were set, and that Kafka knows, but that change nothing here.
	Unused []string
	// Unknown says of each property that a file or the environment sets and that nobody knows what it may have been.
	Unknown []string
	// Warnings are of settings that ask for protection and give none, as the others are.
	Warnings []Warning
}

// Load reads the sources and refuses, as a *StartError or a one-line error, what a broker cannot start with.
func Load(s Sources) (*Broker, error) {
	st, err := s.collect()
	if err != nil {
		return nil, err
	}
	if err := st.checkProtection(); err != nil {
		return nil, err
	}
	b := &Broker{Layers: Layers{Static: st.values}, from: st.from, ClusterID: s.clusterID(), Hostname: s.Hostname}
	for _, step := range []func(*static, Sources) error{
		b.loadIdentity, b.loadDirectories, b.loadRoles, b.loadListeners, b.loadQuorum, b.loadGossip, b.checkSecurity, b.checkSASL, b.loadAuthorizer, b.checkNumbers,
	} {
		if err := step(st, s); err != nil {
			return nil, err
		}
	}
	b.Unused, b.Unknown, b.Warnings = st.unused(), st.unknown, b.warnings(st)
	return b, nil
}

// Chosen is the value that somebody has set for a property, as against a default of ours or Kafka's.
func (b *Broker) Chosen(name string) (value string, ok bool) {
	if from := b.from[name]; from == "" || from == fromEmbedded {
		return "", false
	}
	return b.Static[name], true
}

func (st *static) refuse(name, reason string) error {
	value := st.values[name]
	if d := definitionOf(name); d != nil {
		value = shownValue(d, value)
	}
	return &StartError{name, value, st.from[name], reason}
}

// loadIdentity settles node.id and broker.id, which are one.
func (b *Broker) loadIdentity(st *static, _ Sources) error {
	node, hasNode := st.values["node.id"]
	broker, hasBroker := st.values["broker.id"]
	if !hasNode {
		node = broker
	}
	if hasBroker && trim(broker) != trim(node) {
		return st.refuse("broker.id", "must be the same as node.id="+node)
	}
	id, _ := strconv.ParseInt(trim(node), 10, 32)
	if id < 0 {
		return st.refuse("broker.id", "a node id is at least 0")
	}
	b.NodeID = int32(id)
	st.values["node.id"], st.values["broker.id"] = trim(node), trim(node)
	return nil
}

// loadDirectories: log.dirs wins over log.dir. Each directory has one name: its shortest.
func (b *Broker) loadDirectories(st *static, _ Sources) error {
	name := "log.dirs"
	if b.LogDirs = b.List(name); len(b.LogDirs) == 0 {
		name = "log.dir"
		b.LogDirs = b.List(name)
	}
	given := map[string]string{}
	for i, dir := range b.LogDirs {
		if dir == "" {
			return st.refuse(name, "an entry is empty")
		}
		cleaned := path.Clean(dir)
		if other, twice := given[cleaned]; twice {
			return st.refuse(name, other+" and "+dir+" are the same directory")
		}
		given[cleaned], b.LogDirs[i] = dir, cleaned
	}
	return nil
}

func (b *Broker) loadListeners(st *static, s Sources) error {
	protocols, err := b.protocolMap(st)
	if err != nil {
		return err
	}
	gossip, items, err := splitGossip(withController(st, b.List("listeners"), b.IsController))
	if err != nil {
		return st.refuse("listeners", err.Error())
	}
	b.Gossip.Listen = gossip
	all, err := parseListeners(items, protocols)
	if err != nil {
		return st.refuse("listeners", err.Error())
	}
	controllers := b.controllerListeners()
	if len(controllers) > 0 {
		b.Quorum = Listener{Name: controllers[0], Protocol: protocols[controllers[0]]}
	}
	for _, l := range all {
		if slices.Contains(controllers, l.Name) {
			b.Controllers = append(b.Controllers, l)
			continue
		}
		b.Listeners = append(b.Listeners, l)
	}
	if b.IsBroker && len(b.Listeners) == 0 {
		return st.refuse("listeners", "there must be a listener that is not among controller.listener.names")
	}
	if !b.IsBroker && len(b.Listeners) > 0 {
		return st.refuse("listeners", "listener "+b.Listeners[0].Name+" is not one of controller.listener.names, and this node is no broker"+b.exampleController(st, controllers))
	}
	if err := b.loadAdvertised(st, s, protocols); err != nil || !b.IsBroker {
		return err
	}
	return b.loadInterBroker(st)
}

// exampleController helps who has set process.roles alone.
func (b *Broker) exampleController(st *static, names []string) string {
	if st.from["listeners"] != fromEmbedded || len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; a controller has for example listeners=%s://localhost:9093 and controller.quorum.voters=%d@localhost:9093", names[0], b.NodeID)
}

func (b *Broker) controllerListeners() []string {
	names := b.List("controller.listener.names")
	for i, name := range names {
		names[i] = strings.ToUpper(name)
	}
	return names
}

// protocolMap adds the controller's listeners to the default map, as Kafka does where the map is not set.
func (b *Broker) protocolMap(st *static) (map[string]SecurityProtocol, error) {
	protocols, err := parseProtocolMap(b.Text("listener.security.protocol.map"))
	if err != nil {
		return nil, st.refuse("listener.security.protocol.map", err.Error())
	}
	if _, set := st.values["listener.security.protocol.map"]; !set {
		for _, name := range b.controllerListeners() {
			if _, known := protocols[name]; !known {
				protocols[name] = Plaintext
			}
		}
	}
	return protocols, nil
}

// loadAdvertised: what is not advertised explicitly is advertised as it listens, a listener on all addresses under the
// machine's name.
func (b *Broker) loadAdvertised(st *static, s Sources, protocols map[string]SecurityProtocol) error {
	name := "advertised.listeners"
	if _, set := st.values[name]; !set {
		name = "listeners"
		b.Advertised = slices.Clone(b.Listeners)
	} else {
		gossip, items, err := splitGossip(b.List(name))
		if err != nil {
			return st.refuse(name, err.Error())
		}
		if gossip != nil {
			b.Gossip.Advertise = gossip.Host
		}
		advertised, err := parseListeners(items, protocols)
		if err != nil {
			return st.refuse(name, err.Error())
		}
		controllers := b.controllerListeners()
		for _, l := range advertised {
			if slices.Contains(controllers, l.Name) {
				b.advertisedControllers = append(b.advertisedControllers, l)
			} else {
				b.Advertised = append(b.Advertised, l)
			}
		}
	}
	for i := range b.Advertised {
		l := &b.Advertised[i]
		if !slices.ContainsFunc(b.Listeners, func(o Listener) bool { return o.Name == l.Name }) {
			return st.refuse(name, "listener "+l.Name+" is not one of listeners="+st.values["listeners"])
		}
		if l.Host == "0.0.0.0" || l.Host == "::" {
			return st.refuse(name, "clients cannot reach "+l.Host+": set advertised.listeners to an address they can")
		}
		if l.Host == "" {
			l.Host = s.Hostname
		}
	}
	if b.IsBroker && len(b.Advertised) == 0 {
		return st.refuse(name, "there must be at least one advertised listener for clients")
	}
	return nil
}

func (b *Broker) loadInterBroker(st *static) error {
	const name, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
	if _, set := st.values[protocol]; set && b.Text(name) != "" {
		return st.refuse(protocol, "only one of "+name+" and "+protocol+" may be set")
	}
	wanted := strings.ToUpper(b.Text(name))
	if wanted == "" {
		wanted = b.Text(protocol)
		if _, set := st.values[protocol]; !set && !advertises(b.Advertised, wanted) {
			wanted = b.Advertised[0].Name
		}
	}
	if !advertises(b.Advertised, wanted) {
		return st.refuse(name, "must be one of advertised.listeners="+b.Text("advertised.listeners"))
	}
	b.InterBroker = wanted
	return nil
}

func advertises(all []Listener, name string) bool {
	return slices.ContainsFunc(all, func(l Listener) bool { return l.Name == name })
}

// checkNumbers holds relations that Kafka's KafkaConfig holds.
func (b *Broker) checkNumbers(st *static, _ Sources) error {
	if ms := b.Topic(nil).RetentionMs; ms != -1 && ms < 1 {
		return st.refuse(st.firstSet(retentionChain), "must be unlimited (-1) or at least 1 ms")
	}
	if ms := b.Topic(nil).SegmentMs; ms < 1 {
		return st.refuse(st.firstSet(rollChain), "must be at least 1 ms")
	}
	queued, request := b.Int("queued.max.request.bytes"), b.Int("socket.request.max.bytes")
	if queued > 0 && queued < request {
		return st.refuse("queued.max.request.bytes", "must be at least socket.request.max.bytes="+b.Text("socket.request.max.bytes"))
	}
	if b.Int("max.connections.per.ip") == 0 && b.Text("max.connections.per.ip.overrides") == "" {
		return st.refuse("max.connections.per.ip", "0 is allowed only with max.connections.per.ip.overrides")
	}
	if _, err := b.ConnectionsPerIPOverrides(); err != nil {
		return st.refuse("max.connections.per.ip.overrides", err.Error())
	}
	if threads := b.Int("log.cleaner.threads"); threads < 1 {
		return st.refuse("log.cleaner.threads", "must be at least 1; log.cleaner.enable=false turns compaction off")
	} else if b.Int("log.cleaner.dedupe.buffer.size")/threads <= 1<<20 {
		return st.refuse(st.firstSet(chain{{"log.cleaner.dedupe.buffer.size", 1}, {"log.cleaner.threads", 1}}),
			"each of log.cleaner.threads needs more than 1 MiB of log.cleaner.dedupe.buffer.size")
	}
	if err := b.ValidateTopic(nil); err != nil {
		return st.refuse("log.cleaner.min.compaction.lag.ms", err.Error())
	}
	return nil
}

func (st *static) firstSet(c chain) string {
	for _, l := range c {
		if _, set := st.values[l.name]; set {
			return l.name
		}
	}
	return c[0].name
}
