package config

import (
	"maps"
	"slices"
	"strings"
)

// tlsProperties are the properties of TLS that are honoured, for each listener (listener.name.<listener>.<property>)
// and for all. What node reads of them it reads by Layers.TLS.
var tlsProperties = []string{
	"ssl.allow.dn.changes", "ssl.allow.san.changes", "ssl.cipher.suites", "ssl.client.auth", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm",
	"ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type",
	"ssl.principal.mapping.rules", "ssl.protocol", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
}

// javaSSL are values of Java's own that ask for what is so here.
var javaSSL = map[string][]string{
	"ssl.keymanager.algorithm": {"SunX509", "PKIX", "NewSunX509"}, "ssl.trustmanager.algorithm": {"PKIX", "SunX509"},
	"ssl.protocol": {"TLS", "TLSv1.2", "TLSv1.3"}, "ssl.endpoint.identification.algorithm": {"https", "HTTPS"},
}

// honoured says whether name, perhaps a listener's own, is a property of TLS that is honoured.
func honoured(name string) bool {
	if rest, ok := strings.CutPrefix(name, listenerPrefix); ok {
		_, name, _ = strings.Cut(rest, ".")
	}
	return slices.Contains(tlsProperties, name)
}

// asJava says whether a property that takes some of Java's values only has one of them.
func asJava(name, value string) bool {
	if rest, ok := strings.CutPrefix(name, listenerPrefix); ok {
		_, name, _ = strings.Cut(rest, ".")
	}
	allowed := javaSSL[name]
	return allowed == nil || trim(value) == "" || slices.Contains(allowed, trim(value))
}

const listenerPrefix = "listener.name."

// ListenerText returns the effective value of a property for a listener: its own (listener.name.<listener>.<name>),
// else that for all.
func (l Layers) ListenerText(listener, name string) string {
	if value, own := l.ownText(listener, name); own {
		return value
	}
	return l.Text(name)
}

// ownText is the value that a listener has for itself alone.
func (l Layers) ownText(listener, name string) (string, bool) {
	for _, layer := range l.layered() {
		if text, set := layer.values[listenerPrefix+strings.ToLower(listener)+"."+name]; set {
			if value, err := brokerDef(name).Canonical(text); err == nil {
				return value, true
			}
		}
	}
	return "", false
}

// TLS are the effective properties of TLS of a listener, by name.
func (l Layers) TLS(listener Listener) map[string]string {
	out := map[string]string{}
	for _, name := range tlsProperties {
		out[name] = l.ListenerText(listener.Name, name)
	}
	if listener.Protocol == SaslSSL { // who authenticates by SASL need not by a certificate, unless this listener wants it
		out["ssl.client.auth"], _ = l.ownText(listener.Name, "ssl.client.auth")
	}
	return out
}

// UsesTLS says whether connections of the protocol begin with a TLS handshake.
func (p SecurityProtocol) UsesTLS() bool { return p == SSL || p == SaslSSL }

// UsesSASL says whether connections of the protocol are authenticated by SASL.
func (p SecurityProtocol) UsesSASL() bool { return p == SaslPlaintext || p == SaslSSL }

// authenticates says whether all who come in by a listener have proven who they are.
func (b *Broker) authenticates(l Listener) bool {
	return l.Protocol.UsesSASL() || l.Protocol.UsesTLS() && b.TLS(l)["ssl.client.auth"] == "required"
}

// checkSecurity refuses what leaves a way around the security that is asked for: properties of a listener that there is
// not, values of Java's that mean nothing here, and nodes that believe everybody (docs/adr/0009) beside listeners that
// do not.
func (b *Broker) checkSecurity(st *static, _ Sources) error {
	if err := b.checkTLSNames(st); err != nil {
		return err
	}
	all := slices.Concat(b.Listeners, b.Controllers)
	secured := slices.IndexFunc(all, func(l Listener) bool { return l.Protocol != Plaintext })
	if b.Gossip.Key != nil || secured < 0 {
		return nil
	}
	const key = "; set gossip.key (openssl rand -base64 32), the same on every node, by which nodes know each other"
	if b.Gossip.Listen != nil && !b.Gossip.Implied {
		return st.refuse("listeners", "listener "+all[secured].Name+" uses "+all[secured].Protocol.String()+", and gossip without a key believes everybody"+key)
	}
	b.Gossip.Unkeyed = b.Gossip.Listen != nil
	b.Gossip.Listen = nil
	guarded := slices.IndexFunc(all, b.authenticates)
	open := slices.IndexFunc(b.Controllers, func(l Listener) bool { return !b.authenticates(l) })
	if guarded >= 0 && open >= 0 {
		return st.refuse("listeners", "listener "+b.Controllers[open].Name+" lets everybody in, and listener "+all[guarded].Name+
			" does not: give it SSL with ssl.client.auth=required, or SASL"+strings.Replace(key, ";", ", or", 1))
	}
	return nil
}

func (b *Broker) checkTLSNames(st *static) error {
	names := slices.Concat(parsedNames(b.Text("listeners")), parsedNames(strings.ToLower(b.Text("controller.listener.names"))))
	names = append(names, strings.ToLower(b.InterBroker), adminListener)
	for _, name := range slices.Sorted(maps.Keys(st.values)) {
		listener, property := "", name
		if rest, ok := strings.CutPrefix(name, listenerPrefix); ok {
			listener, property, _ = strings.Cut(rest, ".")
		}
		if !strings.HasPrefix(property, "ssl.") {
			continue
		}
		if listener != "" && !slices.Contains(names, listener) {
			return st.refuse(name, "there is no listener "+strings.ToUpper(listener))
		}
		if !asJava(name, st.values[name]) {
			return st.refuse(name, "must be one of "+strings.Join(javaSSL[property], ", "))
		}
	}
	return nil
}

// adminListener is the name that admin.listen has in properties of TLS.
const adminListener = "admin"
