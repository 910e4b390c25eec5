package config

import (
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Voter is a member of controller.quorum.voters.
type Voter struct {
	ID      int32
	Address string // host:port of its controller listener
}

const (
	votersName    = "controller.quorum.voters"
	bootstrapName = "controller.quorum.bootstrap.servers"
)

// loadRoles reads process.roles; both at once is the default.
func (b *Broker) loadRoles(*static, Sources) error {
	roles := b.List("process.roles")
	b.IsBroker, b.IsController = slices.Contains(roles, "broker"), slices.Contains(roles, "controller")
	return nil
}

// loadQuorum reads where the quorum is and holds what Kafka's KafkaConfig holds of it.
func (b *Broker) loadQuorum(st *static, _ Sources) error {
	for _, text := range b.List(votersName) {
		v := parseVoter(text)
		if slices.ContainsFunc(b.Voters, func(o Voter) bool { return o.ID == v.ID }) {
			return st.refuse(votersName, "node "+strconv.Itoa(int(v.ID))+" comes twice")
		}
		b.Voters = append(b.Voters, v)
	}
	slices.SortFunc(b.Voters, func(x, y Voter) int { return int(x.ID) - int(y.ID) })
	b.BootstrapServers = b.List(bootstrapName)
	votes := slices.ContainsFunc(b.Voters, func(v Voter) bool { return v.ID == b.NodeID })
	id := strconv.Itoa(int(b.NodeID))
	joins := len(b.BootstrapServers) > 0 || st.values["gossip.join"] != ""
	told := len(b.Voters) > 0 || joins
	switch {
	case len(b.Voters) > 0 && b.IsController && !votes:
		return st.refuse(votersName, "must contain node.id="+id)
	case !b.IsController && votes:
		return st.refuse(votersName, "must not contain node.id="+id+", which has only the role broker")
	case (!b.IsController || !b.IsBroker) && !told:
		return st.refuse("process.roles", "a node that is not both broker and controller must be told where others are: "+
			bootstrapName+", "+votersName+" or gossip.join")
	case b.IsController && len(b.Controllers) == 0 && (len(b.Voters) > 1 || joins || !b.IsBroker):
		return st.refuse("listeners", "must have a listener of controller.listener.names="+b.Text("controller.listener.names")+
			", where the other voters reach this one")
	case !b.IsController && len(b.Controllers) > 0:
		return st.refuse("listeners", "listener "+b.Controllers[0].Name+" is one of controller.listener.names, and this node is no controller")
	}
	return b.checkMetadataDir(st)
}

// checkMetadataDir: the metadata log lives in one of the log directories, the first unless metadata.log.dir says
// otherwise.
func (b *Broker) checkMetadataDir(st *static) error {
	b.MetadataDir = b.Text("metadata.log.dir")
	if b.MetadataDir == "" {
		b.MetadataDir = b.LogDirs[0]
	}
	b.MetadataDir = path.Clean(b.MetadataDir)
	if !slices.Contains(b.LogDirs, b.MetadataDir) {
		return st.refuse("metadata.log.dir", "must be one of log.dirs="+strings.Join(b.LogDirs, ","))
	}
	return nil
}

// Joins says whether the node is to vote by itself: it is a named voter, or controller.quorum.auto.join.enable is set.
func (b *Broker) Joins() bool {
	return b.IsController && (len(b.Voters) > 0 || b.Bool("controller.quorum.auto.join.enable"))
}

// ControllersAdvertised are the controller listeners as other nodes reach them: as advertised.listeners has them, else
// as they listen, those on all addresses under the machine's name.
func (b *Broker) ControllersAdvertised(hostname string) []Listener {
	out := slices.Clone(b.Controllers)
	for i := range out {
		l := &out[i]
		for _, a := range b.advertisedControllers {
			if a.Name == l.Name {
				l.Host, l.Port = a.Host, a.Port
			}
		}
		if ip := net.ParseIP(l.Host); l.Host == "" || ip != nil && ip.IsUnspecified() {
			l.Host = hostname
		}
	}
	return out
}

// parseVoter reads id@host:port, which its definition has checked.
func parseVoter(text string) Voter {
	id, address, _ := strings.Cut(trim(text), "@")
	n, _ := strconv.ParseInt(id, 10, 32)
	return Voter{int32(n), address}
}
