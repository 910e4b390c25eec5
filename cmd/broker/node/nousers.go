package node

import (
	"context"
	"slices"

	"grete/cluster/metadata"
	"grete/internal/config"
	"grete/internal/security/sasl"
)

// warnNoUsers tells of listeners that nobody can log in at: they have SCRAM alone, and the cluster has no user of it.
func (n *Node) warnNoUsers(context.Context) error {
	n.warnUnmadeUsers()
	var shut []string
	for _, l := range slices.Concat(n.o.Config.Listeners, n.o.Config.Controllers) {
		if l.Protocol.UsesSASL() && n.lacksUsers(l) {
			shut = append(shut, l.Name)
		}
	}
	if len(shut) > 0 {
		n.o.Log.Warn().Strs("listeners", shut).Msg("nobody can log in: these listeners have SCRAM alone, and the cluster has no user of its mechanisms. A new cluster begins with " +
			"users by serve --set sasl.bootstrap.users=name:password, or KAFKA_SASL_BOOTSTRAP_USERS in the environment; in this one grete user add makes a user, through a listener that lets you in")
	}
	return nil
}

// warnUnmadeUsers tells of users of sasl.bootstrap.users that the cluster does not have: only the node that begins a
// cluster makes its users.
func (n *Node) warnUnmadeUsers() {
	var unmade []string
	for _, r := range n.bootstrap {
		first := r.(*metadata.UserScramCredentialRecord)
		if n.image().ScramCredential(first.User, first.Mechanism) == nil && !slices.Contains(unmade, first.User) {
			unmade = append(unmade, first.User)
		}
	}
	if len(unmade) > 0 {
		n.o.Log.Warn().Strs("users", unmade).Msg("the cluster does not have these users of sasl.bootstrap.users, which only the node that begins a cluster makes: " +
			"make them by grete user add, or take them out; set the property on all nodes before a cluster begins")
	}
}

// lacksUsers says whether all mechanisms of a listener are SCRAM's, and no user has a credential for one of them.
func (n *Node) lacksUsers(l config.Listener) bool {
	var hashes []sasl.Hash
	for _, m := range n.o.Config.Mechanisms(l) {
		h, scram := sasl.HashOf(m.Name)
		if !scram {
			return false
		}
		hashes = append(hashes, h)
	}
	for c := range n.image().ScramCredentials() {
		if slices.Contains(hashes, sasl.Hash(c.Mechanism)) {
			return false
		}
	}
	return true
}
