package node

import (
	"slices"
)

// warnOfTrust tells once of the listeners that ask for certificates and have no truststore: each authority that the
// system trusts can let clients in there.
func (n *Node) warnOfTrust() {
	var open []string
	for _, l := range slices.Concat(n.o.Config.Listeners, n.o.Config.Controllers) {
		t := n.security.byListener[l.Name]
		if t == nil || !n.tlsSettings(t, t.values).Truststore.Empty() {
			continue
		}
		if auth := t.values["ssl.client.auth"]; auth == "required" || auth == "requested" {
			open = append(open, l.Name)
		}
	}
	if len(open) > 0 {
		n.o.Log.Warn().Strs("listeners", open).Msg("ssl.client.auth asks for certificates and there is no ssl.truststore.location: " +
			"every authority that the system trusts can make certificates that are believed here")
	}
}

// warnOfHosts tells of each listener that is advertised under a host which its certificate does not name. Where
// ssl.endpoint.identification.algorithm is empty, names are not looked at.
func (n *Node) warnOfHosts() {
	for _, l := range slices.Concat(n.o.Config.Advertised, n.o.Config.ControllersAdvertised(n.o.Config.Hostname)) {
		t := n.security.byListener[l.Name]
		if t == nil || t.values["ssl.endpoint.identification.algorithm"] == "" {
			continue
		}
		if names, covers := t.source.Names(l.Host); !covers {
			n.o.Log.Warn().Str("listener", l.Name).Str("host", l.Host).Strs("names", names).Str("file", t.values["ssl.keystore.location"]).
				Msg("the certificate does not name the host that this listener is advertised under, and clients that check names refuse it: " +
					"change advertised.listeners or the certificate")
		}
	}
}
