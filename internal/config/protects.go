package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// protecting are the properties that protect a broker or its data and that nothing here honours yet. A start or a
// dynamic change that sets one of them is refused: a broker must not be more open than its configuration says.
// Implementing a property takes it out of this table. A name that ends in a dot stands for all names that begin with
// it; a value is one that asks for no protection, beside the empty text.
var protecting = map[string]string{
	"ssl.":                           "",
	"sasl.":                          "",
	"authorizer.class.name":          "",
	"principal.builder.class":        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
	"security.providers":             "",
	"connections.max.reauth.ms":      "0", // where it is of no mechanism that there is
	"delegation.token.secret.key":    "",  // of a listener
	"client.quota.callback.class":    "",
	"create.topic.policy.class.name": "",
	"alter.config.policy.class.name": "",
	// Kafka has removed these, and older files have them: what they asked for is done by quotas of clients and by
	// tokens now.
	"quota.producer.default":      "9223372036854775807",
	"quota.consumer.default":      "9223372036854775807",
	"delegation.token.master.key": "",
}

// protects says whether a property, as a listener's own too, asks for protection that does not exist here.
func protects(name, value string) bool {
	value = trim(value)
	if value == "" {
		return false
	}
	if honoured(name) || honouredSASL(name) || exact(name) {
		return false
	}
	for _, name := range withoutListener(name) {
		if slices.Contains(javaSSL[name], value) {
			continue
		}
		off, listed := protecting[name]
		for prefix := range protecting {
			listed = listed || strings.HasSuffix(prefix, ".") && strings.HasPrefix(name, prefix)
		}
		if listed && value != off {
			return true
		}
	}
	return false
}

// exact says whether a property is honoured under this name alone.
func exact(name string) bool { return name == authorizerClass || name == tokenSecret }

// withoutListener are the names that listener.name.<listener>.[<mechanism>.]<property> may stand for; any other name
// stands for itself.
func withoutListener(name string) []string {
	rest, ok := strings.CutPrefix(name, listenerPrefix)
	if !ok {
		return []string{name}
	}
	_, property, _ := strings.Cut(rest, ".")
	_, ofMechanism, _ := strings.Cut(property, ".")
	return []string{property, ofMechanism}
}

// checkProtection refuses to start open where protection is asked for. The line names the first property, and the
// others without their values.
func (st *static) checkProtection() error {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(st.values)) {
		if protects(name, st.values[name]) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	reason := "protects, and is not implemented yet; without it the broker would be more open than its configuration says"
	if len(names) > 1 {
		reason += fmt.Sprintf("; so is %s", strings.Join(names[1:], ", "))
	}
	return st.refuse(names[0], reason)
}
