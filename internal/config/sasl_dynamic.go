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

// dynamicSASL says whether a property of a listener, or of a mechanism of it, is applied while the broker runs. Kafka
// takes all that begin with the name of a listener, and applies them at the next start.
func dynamicSASL(name string) bool {
	rest, own := strings.CutPrefix(name, listenerPrefix)
	if !own {
		return false
	}
	_, property, _ := strings.Cut(rest, ".")
	switch property {
	case "sasl.enabled.mechanisms", "sasl.server.max.receive.size", "connections.max.reauth.ms":
		return true
	}
	mechanism, property, _ := strings.Cut(property, ".")
	mechanism = strings.ToUpper(mechanism)
	switch property {
	case "sasl.jaas.config":
		_, scram := sasl.HashOf(mechanism)
		return scram || mechanism == sasl.Plain
	case "connections.max.reauth.ms":
		return slices.Contains(mechanisms, mechanism)
	}
	return false
}

// underName is the value that the strongest layer has under exactly this name, "" when none has one.
func (l Layers) underName(name string) (string, bool) {
	for _, layer := range l.layered() {
		if value, set := layer.values[name]; set {
			return value, true
		}
	}
	return "", false
}

// With is the broker with the values of other layers where they are asked for by name; what was made of them at the
// start stays.
func (b *Broker) With(l Layers) *Broker {
	out := *b
	out.Layers = l
	return &out
}

// CheckDynamicSASL says why SASL cannot be as other layers have it, nil when it can. Texts repeat no values.
func (b *Broker) CheckDynamicSASL(l Layers) error {
	next := b.With(l)
	for _, name := range slices.Sorted(maps.Keys(l.Broker)) {
		if dynamicSASL(name) {
			if err := next.checkDynamicName(name); err != nil {
				return invalidDynamic(name + ": " + err.Error())
			}
		}
	}
	for _, at := range slices.Concat(b.Listeners, b.Controllers) {
		if !at.Protocol.UsesSASL() {
			continue
		}
		if err := next.checkDynamicListener(b, at); err != nil {
			return invalidDynamic("listener " + at.Name + ": " + err.Error())
		}
	}
	for _, at := range []Listener{b.InterBrokerListener(), b.Quorum} {
		mechanism, username, password, ok := next.NodeLogin(at)
		_, oldName, oldPassword, _ := b.NodeLogin(at)
		if ok && mechanism != sasl.OAuthBearer && (username == "" && oldName != "" || password == "" && oldPassword != "") {
			return invalidDynamic("listener " + at.Name + ": this node would have no username and password to log in with")
		}
	}
	return nil
}

func (b *Broker) checkDynamicName(name string) error {
	listener, property, _ := strings.Cut(strings.TrimPrefix(name, listenerPrefix), ".")
	has := func(l Listener) bool { return strings.EqualFold(l.Name, listener) && l.Protocol.UsesSASL() }
	if !slices.ContainsFunc(slices.Concat(b.Listeners, b.Controllers, []Listener{b.Quorum}), has) {
		return nil // nobody logs in there
	}
	text, _ := b.underName(name)
	switch {
	case strings.HasSuffix(property, "sasl.jaas.config"):
		_, err := sasl.ParseJAAS(text)
		return err
	case strings.HasSuffix(property, "connections.max.reauth.ms"):
		if _, err := strconv.ParseInt(trim(text), 10, 64); err != nil {
			return errors.New("not a number")
		}
	}
	return nil
}

// checkDynamicListener refuses mechanisms that there are not, or that need more than the configuration, which is read
// at the start.
func (b *Broker) checkDynamicListener(before *Broker, l Listener) error {
	names := SplitList(b.ListenerText(l.Name, "sasl.enabled.mechanisms"))
	if len(names) == 0 {
		return errors.New("it would have no mechanism")
	}
	atStart := SplitList(Layers{Static: before.Static}.ListenerText(l.Name, "sasl.enabled.mechanisms"))
	for _, mechanism := range names {
		_, scram := sasl.HashOf(mechanism)
		if !scram && mechanism != sasl.Plain && !slices.Contains(atStart, mechanism) {
			return fmt.Errorf("mechanism %s begins at the next start only", mechanism)
		}
		if err := b.checkJAAS(l, mechanism); err != nil {
			return err
		}
	}
	if login, _, _, ok := before.NodeLogin(l); ok && slices.Contains(atStart, login) && !slices.Contains(names, login) {
		return errors.New("nodes log in to it by " + login)
	}
	return nil
}
