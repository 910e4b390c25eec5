package config

import (
	"errors"
	"fmt"
	"strings"

	"grete/internal/security/kerberos"
	"grete/internal/security/sasl"
)

// krb5Conf is Java's property for the file; for Kafka it is one of the Java machine.
const krb5Conf = "java.security.krb5.conf"

// krb5Variable is what MIT's Kerberos reads instead.
const krb5Variable = "KRB5_CONFIG"

// Kerberos is GSSAPI as a listener, and a node that logs in to such a listener, has it.
type Kerberos struct {
	Keytab    string // a file
	Principal string
	Initiates bool     // the principal may log in to others (isInitiator)
	Service   string   // the first part of the principals of brokers
	Rules     []string // of names
}

// fromKrb5Variable has the environment's krb5.conf count where no property names one.
func (s Sources) fromKrb5Variable() []Assignment {
	for _, pair := range s.Env {
		if value, ok := strings.CutPrefix(pair, krb5Variable+"="); ok && value != "" {
			return []Assignment{{From: krb5Variable, Name: krb5Conf, Value: value}}
		}
	}
	return nil
}

// Kerberos is that of a listener; checkSASL has looked at it.
func (b *Broker) Kerberos(l Listener) Kerberos {
	k, _, _ := b.kerberos(l)
	return k
}

// kerberos names the property that an error is about.
func (b *Broker) kerberos(l Listener) (k Kerberos, property string, err error) {
	const service = "sasl.kerberos.service.name"
	line, property, err := b.kerberosLine(l)
	if err != nil {
		return k, property, err
	}
	k = Kerberos{
		Keytab: strings.TrimPrefix(strings.TrimPrefix(line.Options["keyTab"], "FILE:"), "file:"), Principal: line.Options["principal"],
		Initiates: !strings.EqualFold(line.Options["isInitiator"], "false"), Service: b.ListenerText(l.Name, service),
		Rules: SplitList(b.ListenerText(l.Name, "sasl.kerberos.principal.to.local.rules")),
	}
	if err := k.checkLine(line); err != nil {
		return k, property, err
	}
	switch named := line.Options["serviceName"]; {
	case named != "" && k.Service != "" && named != k.Service:
		return k, service, errors.New("is not the serviceName of " + property)
	case k.Service == "" && named == "":
		return k, service, errors.New("listener " + l.Name + " has mechanism GSSAPI, which needs the name of the service: the first part of the brokers' principals")
	case k.Service == "":
		k.Service = named
	}
	if _, err := kerberos.ParseRules(k.Rules, ""); err != nil {
		return k, "sasl.kerberos.principal.to.local.rules", err
	}
	return k, "", nil
}

// kerberosLine is a listener's login, and the property that it is from; our own properties count where it has no line.
func (b *Broker) kerberosLine(l Listener) (line sasl.Login, property string, err error) {
	const plain = "sasl.kerberos.keytab"
	property = mechanismProperty(l, sasl.GSSAPI, "sasl.jaas.config")
	m, err := b.mechanism(l, sasl.GSSAPI)
	keytab, principal := b.Text(plain), b.Text("sasl.kerberos.principal")
	switch {
	case err != nil:
		return line, property, err
	case m.JAAS.Module == "" && (keytab != "" || principal != ""):
		options := map[string]string{"useKeyTab": "true", "storeKey": "true", "keyTab": keytab, "principal": principal}
		return sasl.Login{Module: loginModules[sasl.GSSAPI], Options: options}, plain, nil
	case m.JAAS.Module != loginModules[sasl.GSSAPI]:
		return line, property, fmt.Errorf("listener %s has mechanism GSSAPI, which needs the login module %s, or sasl.kerberos.keytab and sasl.kerberos.principal",
			l.Name, loginModules[sasl.GSSAPI])
	}
	return m.JAAS, property, nil
}

// checkLine refuses what Krb5LoginModule has beside a keytab: nobody is there to be asked for a password, and no file
// of tickets is read.
func (k Kerberos) checkLine(line sasl.Login) error {
	is := func(option string) bool { return strings.EqualFold(line.Options[option], "true") }
	_, err := kerberos.ParsePrincipal(k.Principal, "DEFAULT")
	switch {
	case !is("useKeyTab") || k.Keytab == "":
		return errors.New(`a login by Kerberos is one by a keytab: useKeyTab=true keyTab="<file>"`)
	case !is("storeKey"):
		return errors.New("storeKey=true is missing: without its keys a broker can accept nobody")
	case is("useTicketCache"):
		return errors.New("useTicketCache=true: a login is by keytab alone")
	case k.Principal == "":
		return errors.New(`principal="<name>/<host>@<realm>" is missing`)
	}
	return err
}

// checkKerberos refuses GSSAPI that could not work as it is configured. The files are read at the start.
func (b *Broker) checkKerberos(st *static, l Listener) error {
	if _, property, err := b.kerberos(l); err != nil {
		return st.refuse(b.ownOr(l, property), err.Error())
	}
	return nil
}

// ownOr is the name of a property as a listener has it: its own, or that for all.
func (b *Broker) ownOr(l Listener, property string) string {
	if _, own := b.ownText(l.Name, property); own && !strings.HasPrefix(property, listenerPrefix) {
		return listenerPrefix + strings.ToLower(l.Name) + "." + property
	}
	return property
}
