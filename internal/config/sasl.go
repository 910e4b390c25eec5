package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"grete/internal/security/sasl"
)

// saslProperties are the properties of SASL that are honoured, and where each may stand: for all listeners, for one
// listener (listener.name.<listener>.<property>), and for one mechanism of a listener
// (listener.name.<listener>.<mechanism>.<property>).
var saslProperties = map[string]struct{ all, listener, mechanism bool }{
	"sasl.enabled.mechanisms":              {all: true, listener: true},
	"sasl.jaas.config":                     {mechanism: true},
	"sasl.mechanism.controller.protocol":   {all: true},
	"sasl.mechanism.inter.broker.protocol": {all: true},
	"sasl.server.max.receive.size":         {all: true, listener: true},
	"connections.max.reauth.ms":            {all: true, listener: true, mechanism: true},

	"sasl.oauthbearer.allow.unverified.audience":          {all: true, listener: true},
	"sasl.oauthbearer.allow.unverified.issuer":            {all: true, listener: true},
	"sasl.oauthbearer.clock.skew.seconds":                 {all: true, listener: true},
	"sasl.oauthbearer.expected.audience":                  {all: true, listener: true},
	"sasl.oauthbearer.expected.issuer":                    {all: true, listener: true},
	"sasl.oauthbearer.jwks.endpoint.refresh.ms":           {all: true, listener: true},
	"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": {all: true, listener: true},
	"sasl.oauthbearer.jwks.endpoint.retry.backoff.ms":     {all: true, listener: true},
	"sasl.oauthbearer.jwks.endpoint.url":                  {all: true, listener: true},
	"sasl.oauthbearer.sub.claim.name":                     {all: true, listener: true},
	"sasl.server.callback.handler.class":                  {mechanism: true}, // of OAUTHBEARER, with the values that mean what is done
	"sasl.login.callback.handler.class":                   {mechanism: true}, // as this
	"sasl.oauthbearer.token.endpoint.url":                 {all: true, listener: true},
	"sasl.oauthbearer.client.credentials.client.id":       {all: true, listener: true},
	"sasl.oauthbearer.client.credentials.client.secret":   {all: true, listener: true},
	"sasl.oauthbearer.scope":                              {all: true, listener: true},
	"sasl.login.connect.timeout.ms":                       {all: true, listener: true},
	"sasl.login.read.timeout.ms":                          {all: true, listener: true},
	"sasl.login.retry.backoff.max.ms":                     {all: true, listener: true},
	"sasl.login.retry.backoff.ms":                         {all: true, listener: true},
	"sasl.login.refresh.buffer.seconds":                   {all: true, listener: true},
	"sasl.login.refresh.min.period.seconds":               {all: true, listener: true},
	"sasl.login.refresh.window.factor":                    {all: true, listener: true},
	"sasl.login.refresh.window.jitter":                    {all: true, listener: true},

	"sasl.kerberos.kinit.cmd":                  {all: true}, // never run: Kafka does for tickets of a file, and here are none
	"sasl.kerberos.min.time.before.relogin":    {all: true},
	"sasl.kerberos.principal.to.local.rules":   {all: true, listener: true},
	"sasl.kerberos.service.name":               {all: true, listener: true},
	"sasl.kerberos.ticket.renew.jitter":        {all: true},
	"sasl.kerberos.ticket.renew.window.factor": {all: true},

	// Our own.
	"sasl.bootstrap.users":    {all: true},
	"sasl.node.password":      {all: true},
	"sasl.node.username":      {all: true},
	"sasl.plain.users.file":   {all: true},
	"sasl.kerberos.keytab":    {all: true},
	"sasl.kerberos.principal": {all: true},
}

// honouredSASL says whether a property of SASL is honoured where it stands.
func honouredSASL(name string) bool {
	rest, own := strings.CutPrefix(name, listenerPrefix)
	if !own {
		return saslProperties[name].all
	}
	_, property, _ := strings.Cut(rest, ".")
	if at, known := saslProperties[property]; known {
		return at.listener
	}
	mechanism, property, _ := strings.Cut(property, ".")
	if strings.HasSuffix(property, ".callback.handler.class") && !strings.EqualFold(mechanism, sasl.OAuthBearer) {
		return false
	}
	return slices.Contains(mechanisms, strings.ToUpper(mechanism)) && saslProperties[property].mechanism
}

// mechanisms are those that a listener can have; nodeMechanisms those by which a node can log in to another.
var (
	mechanisms     = []string{sasl.Plain, sasl.ScramSHA256, sasl.ScramSHA512, sasl.OAuthBearer, sasl.GSSAPI}
	nodeMechanisms = mechanisms
)

// loginModules are Kafka's, by mechanism.
var loginModules = map[string]string{
	sasl.Plain:       "org.apache.kafka.common.security.plain.PlainLoginModule",
	sasl.ScramSHA256: "org.apache.kafka.common.security.scram.ScramLoginModule",
	sasl.ScramSHA512: "org.apache.kafka.common.security.scram.ScramLoginModule",
	sasl.OAuthBearer: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
	sasl.GSSAPI:      "com.sun.security.auth.module.Krb5LoginModule",
}

// Mechanism is a SASL mechanism as a listener has it.
type Mechanism struct {
	Name        string
	JAAS        sasl.Login // without a module where the configuration has none
	MaxReauthMs int64      // connections.max.reauth.ms; 0: no bound
}

// Mechanisms are those of sasl.enabled.mechanisms of a listener, in that order.
func (b *Broker) Mechanisms(l Listener) []Mechanism {
	var out []Mechanism
	for _, name := range SplitList(b.ListenerText(l.Name, "sasl.enabled.mechanisms")) {
		m, _ := b.mechanism(l, name) // checkSASL has looked at it
		out = append(out, m)
	}
	return out
}

func (b *Broker) mechanism(l Listener, name string) (m Mechanism, err error) {
	m = Mechanism{Name: name, MaxReauthMs: b.mechanismInt(l, name, "connections.max.reauth.ms")}
	if text, _ := b.underName(mechanismProperty(l, name, "sasl.jaas.config")); text != "" {
		m.JAAS, err = sasl.ParseJAAS(text)
	}
	return m, err
}

func mechanismProperty(l Listener, mechanism, name string) string {
	return listenerPrefix + strings.ToLower(l.Name) + "." + strings.ToLower(mechanism) + "." + name
}

// mechanismInt is a number for a mechanism of a listener, else for the listener, else for all.
func (b *Broker) mechanismInt(l Listener, mechanism, name string) int64 {
	if text, set := b.underName(mechanismProperty(l, mechanism, name)); set {
		return parseMillis(text)
	}
	return parseMillis(b.ListenerText(l.Name, name))
}

func parseMillis(text string) int64 {
	n, _ := strconv.ParseInt(trim(text), 10, 64) // its definition has looked at it
	return n
}

// NodeLogin is how this node logs in to listeners like l on other nodes: by the mechanism of brokers, or of
// controllers. ok is false where l has no SASL, and where there are no other nodes.
func (b *Broker) NodeLogin(l Listener) (mechanism, username, password string, ok bool) {
	if !l.Protocol.UsesSASL() || b.alone {
		return "", "", "", false
	}
	mechanism = b.Text(b.nodeMechanism(l))
	m, _ := b.mechanism(l, mechanism)
	username, password, given := m.JAAS.Account()
	if !given {
		username, password = b.Text("sasl.node.username"), b.Text("sasl.node.password")
	}
	return mechanism, username, password, true
}

// nodeMechanism is the property that has the mechanism for connections of nodes to listeners like l.
func (b *Broker) nodeMechanism(l Listener) string {
	if l.Name == b.Quorum.Name {
		return "sasl.mechanism.controller.protocol"
	}
	return "sasl.mechanism.inter.broker.protocol"
}

// InterBrokerListener is the listener by which brokers reach each other.
func (b *Broker) InterBrokerListener() Listener {
	i := slices.IndexFunc(b.Listeners, func(l Listener) bool { return l.Name == b.InterBroker })
	if i < 0 {
		return Listener{}
	}
	return b.Listeners[i]
}

// checkSASL refuses listeners that nobody could authenticate on, or more than they should.
func (b *Broker) checkSASL(st *static, _ Sources) error {
	if _, err := sasl.ParseBootstrapUsers(b.Text("sasl.bootstrap.users")); err != nil {
		return st.refuse("sasl.bootstrap.users", err.Error())
	}
	if err := b.checkSASLNames(st); err != nil {
		return err
	}
	for _, l := range slices.Concat(b.Listeners, b.Controllers) {
		if !l.Protocol.UsesSASL() {
			continue
		}
		if err := b.checkMechanisms(st, l); err != nil {
			return err
		}
	}
	if b.alone = st.alone() && len(b.Controllers) == 0; b.alone {
		return nil // there are no other nodes, and none can come
	}
	for _, l := range []Listener{b.InterBrokerListener(), b.Quorum} {
		if err := b.checkNodeLogin(st, l); err != nil {
			return err
		}
	}
	return nil
}

// checkSASLNames refuses a property of a listener that there is not: it was meant for one that there is.
func (b *Broker) checkSASLNames(st *static) error {
	for _, name := range slices.Sorted(maps.Keys(st.values)) {
		rest, own := strings.CutPrefix(name, listenerPrefix)
		if !own || !honouredSASL(name) {
			continue
		}
		listener, _, _ := strings.Cut(rest, ".")
		has := func(l Listener) bool { return strings.EqualFold(l.Name, listener) }
		if !slices.ContainsFunc(slices.Concat(b.Listeners, b.Controllers, []Listener{b.Quorum}), has) {
			return st.refuse(name, "there is no listener "+strings.ToUpper(listener))
		}
		if strings.HasSuffix(name, ".sasl.jaas.config") {
			if _, err := sasl.ParseJAAS(st.values[name]); err != nil {
				return st.refuse(name, err.Error())
			}
		}
	}
	return nil
}

func (b *Broker) checkMechanisms(st *static, l Listener) error {
	const property = "sasl.enabled.mechanisms"
	name := property
	if _, own := b.ownText(l.Name, property); own {
		name = listenerPrefix + strings.ToLower(l.Name) + "." + property
	}
	names := SplitList(b.ListenerText(l.Name, property))
	if len(names) == 0 {
		return st.refuse(name, "listener "+l.Name+" uses "+l.Protocol.String()+", and has no mechanism")
	}
	for _, mechanism := range names {
		if !slices.Contains(mechanisms, mechanism) {
			return st.refuse(name, fmt.Sprintf("listener %s has mechanism %s, which is not implemented; there are %s", l.Name, mechanism, strings.Join(mechanisms, ", ")))
		}
		if err := b.checkJAAS(l, mechanism); err != nil {
			return st.refuse(mechanismProperty(l, mechanism, "sasl.jaas.config"), err.Error())
		}
		if mechanism == sasl.OAuthBearer {
			if err := b.checkBearer(st, l); err != nil {
				return err
			}
		}
		if mechanism == sasl.GSSAPI {
			if err := b.checkKerberos(st, l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Broker) checkJAAS(l Listener, mechanism string) error {
	m, err := b.mechanism(l, mechanism)
	switch {
	case err != nil:
		return err
	case m.JAAS.Module != "" && m.JAAS.Module != loginModules[mechanism]:
		return fmt.Errorf("the login module of %s is %s", mechanism, loginModules[mechanism])
	case mechanism == sasl.Plain && len(m.JAAS.Users()) == 0 && b.Text("sasl.plain.users.file") == "":
		return errors.New("listener " + l.Name + ` has mechanism PLAIN, and nobody can log in: it needs user_<name>="<password>", or sasl.plain.users.file`)
	}
	return nil
}

// checkNodeLogin refuses a mechanism that nodes cannot use among themselves, and one without a name and password.
func (b *Broker) checkNodeLogin(st *static, l Listener) error {
	mechanism, username, password, ok := b.NodeLogin(l)
	if !ok {
		return nil
	}
	name := b.nodeMechanism(l)
	listens := slices.ContainsFunc(slices.Concat(b.Listeners, b.Controllers), func(o Listener) bool { return o.Name == l.Name })
	switch {
	case !slices.Contains(nodeMechanisms, mechanism):
		return st.refuse(name, "this mechanism is not implemented between nodes; there are "+strings.Join(nodeMechanisms, ", "))
	case listens && !slices.Contains(SplitList(b.ListenerText(l.Name, "sasl.enabled.mechanisms")), mechanism):
		return st.refuse(name, "must be among sasl.enabled.mechanisms of listener "+l.Name)
	case mechanism == sasl.OAuthBearer:
		return b.checkBearerLogin(st, l)
	case mechanism == sasl.GSSAPI:
		return b.checkKerberosLogin(st, l)
	case username == "" || password == "":
		return st.refuse(name, "this node has no username and password to log in with: set them in "+mechanismProperty(l, mechanism, "sasl.jaas.config")+
			", or sasl.node.username and sasl.node.password")
	}
	return nil
}

// checkKerberosLogin wants a principal that may begin.
func (b *Broker) checkKerberosLogin(st *static, l Listener) error {
	if err := b.checkKerberos(st, l); err != nil {
		return err
	}
	if !b.Kerberos(l).Initiates {
		return st.refuse(mechanismProperty(l, sasl.GSSAPI, "sasl.jaas.config"), "isInitiator=false: this node logs in to other nodes by it")
	}
	return nil
}

// ListenerInt is ListenerText of a number.
func (l Layers) ListenerInt(listener, name string) int64 {
	return parseMillis(l.ListenerText(listener, name))
}
