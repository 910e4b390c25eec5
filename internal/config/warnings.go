package config

import (
	"maps"
	"slices"
	"strings"
)

// Warning tells of settings that ask for protection, and that nothing uses as the broker is configured. Kafka starts
// with them, and so does a broker here.
type Warning struct {
	Properties []string
	Reason     string
}

// warnings finds what protects nothing: rights without an authorizer, and settings of SASL and TLS that no listener
// uses.
func (b *Broker) warnings(st *static) []Warning {
	var rights, sasl, tls []string
	for _, name := range slices.Sorted(maps.Keys(st.values)) {
		switch {
		case trim(st.values[name]) == "" || st.from[name] == fromEmbedded:
		case name == "super.users" || name == "allow.everyone.if.no.acl.found":
			rights = append(rights, name)
		case isAbout(name, "sasl.") && !b.uses(name, SecurityProtocol.UsesSASL):
			sasl = append(sasl, name)
		case isAbout(name, "ssl.") && !b.uses(name, SecurityProtocol.UsesTLS):
			tls = append(tls, name)
		}
	}
	var out []Warning
	if len(rights) > 0 && b.Authorizer == nil {
		out = append(out, Warning{rights, "there is no authorizer, and everyone may do everything; " + authorizerClass + "=" + standardAuthorizer + " has rights looked at"})
	}
	if len(sasl) > 0 {
		out = append(out, Warning{sasl, "no listener that they are for uses SASL, and nobody is asked for a password there; listeners and listener.security.protocol.map say what a listener uses"})
	}
	if len(tls) > 0 {
		out = append(out, Warning{tls, "no listener that they are for uses TLS, and nothing is encrypted there; listeners and listener.security.protocol.map say what a listener uses"})
	}
	return out
}

// isAbout says whether a property, as a listener's or a mechanism's own too, begins with prefix.
func isAbout(name, prefix string) bool {
	return slices.ContainsFunc(withoutListener(name), func(property string) bool { return strings.HasPrefix(property, prefix) })
}

// uses says whether a listener that the property is for, of this node or of the quorum, has such a protocol.
func (b *Broker) uses(name string, such func(SecurityProtocol) bool) bool {
	all := slices.Concat(b.Listeners, b.Controllers, []Listener{b.Quorum})
	if b.Text("admin.security.protocol") == SSL.String() {
		all = append(all, Listener{Name: adminListener, Protocol: SSL})
	}
	rest, own := strings.CutPrefix(name, listenerPrefix)
	listener, _, _ := strings.Cut(rest, ".")
	return slices.ContainsFunc(all, func(l Listener) bool { return such(l.Protocol) && (!own || strings.EqualFold(l.Name, listener)) })
}
