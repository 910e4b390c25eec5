package config

import (
	"slices"
	"strconv"
	"strings"
)

// Voter is a member of controller.quorum.voters.
type Voter struct {
	ID      int32
	Address string // host:port of its controller listener
}

// loadQuorum reads the voters and holds what Kafka's KafkaConfig holds of them.
func (b *Broker) loadQuorum(st *static, _ Sources) error {
	const name = "controller.quorum.voters"
	roles := b.List("process.roles")
	if !slices.Contains(roles, "broker") || !slices.Contains(roles, "controller") {
		return st.refuse("process.roles", "only a node that is both is supported yet: broker,controller")
	}
	for _, text := range b.List(name) {
		v := parseVoter(text)
		if slices.ContainsFunc(b.Voters, func(o Voter) bool { return o.ID == v.ID }) {
			return st.refuse(name, "node "+strconv.Itoa(int(v.ID))+" comes twice")
		}
		b.Voters = append(b.Voters, v)
	}
	switch {
	case len(b.Voters) > 0 && !slices.ContainsFunc(b.Voters, func(v Voter) bool { return v.ID == b.NodeID }):
		return st.refuse(name, "must contain node.id="+strconv.Itoa(int(b.NodeID)))
	case len(b.Voters) > 1 && len(b.Controllers) == 0:
		return st.refuse("listeners", "must have a listener of controller.listener.names="+b.Text("controller.listener.names")+
			", where the other voters reach this one")
	}
	return nil
}

// parseVoter reads id@host:port, which its definition has checked.
func parseVoter(text string) Voter {
	id, address, _ := strings.Cut(trim(text), "@")
	n, _ := strconv.ParseInt(id, 10, 32)
	return Voter{int32(n), address}
}
