package controller

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/internal/config"
)

// checkBrokerConfigs is Kafka's DynamicBrokerConfig.validate: which properties may change while brokers run, on a broker
// or on all of them, and their values. Properties that nobody knows are kept for plug-ins. That a broker's own name is the
// one that got the request is for that broker to check.
func checkBrokerConfigs(a alteration, next map[string]string) *fault {
	all := a.at.Name == ""
	if _, err := strconv.ParseInt(a.at.Name, 10, 32); err != nil && !all {
		return refuse(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", a.at.Name)
	}
	var readOnly, perBroker, perListener []string
	for _, s := range a.settings {
		d := config.BrokerDefs.Lookup(s.name)
		if _, stays := next[s.name]; !stays || d == nil {
			continue
		}
		switch {
		case perListenerOnly.MatchString(s.name):
			perListener = append(perListener, s.name)
		case d.Update == config.ReadOnly:
			readOnly = append(readOnly, s.name)
		case d.Update == config.PerBroker && all:
			perBroker = append(perBroker, s.name)
		}
	}
	switch {
	case len(perListener) > 0:
		return refuse(kerr.InvalidRequest,
			"These security configs can be dynamically updated only per-listener using the listener prefix: %s", bracketed(perListener))
	case len(readOnly) > 0:
		return refuse(kerr.InvalidRequest, "Cannot update these configs dynamically: %s", bracketed(readOnly))
	case len(perBroker) > 0:
		return refuse(kerr.InvalidRequest,
			"Cannot update these configs at default cluster level, broker id must be specified: %s", bracketed(perBroker))
	}
	return checkBrokerValues(a, next)
}

// perListenerOnly: TLS stores, which Kafka lets change for a named listener only (DynamicSecurityConfigs).
var perListenerOnly = regexp.MustCompile(`^ssl\.(keystore|truststore)\.|^ssl\.key\.password$|^ssl\.(protocol|provider|cipher\.suites|enabled\.protocols|keymanager\.algorithm|trustmanager\.algorithm|endpoint\.identification\.algorithm|secure\.random\.implementation|engine\.factory\.class)$`)

func bracketed(names []string) string {
	slices.Sort(names)
	return "[" + strings.Join(names, ", ") + "]"
}

func checkBrokerValues(a alteration, next map[string]string) *fault {
	for _, s := range a.settings {
		d := config.BrokerDefs.Lookup(s.name)
		if value, stays := next[s.name]; stays && d != nil {
			if err := d.Validate(value); err != nil {
				return refuse(kerr.InvalidRequest, "%s", err)
			}
		}
	}
	return nil
}
